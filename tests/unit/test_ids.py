"""Our ids compared with those of the ksuid package: the same bytes, the same order, the same instant."""

from __future__ import annotations

import multiprocessing
import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ksuid import KsuidMs

from hookline import ids

FIRST = datetime.fromtimestamp(1_400_000_000, UTC)
LAST = datetime.fromtimestamp(1_400_000_000 + 2**32 - 1, UTC) + timedelta(microseconds=999_999)
NOW = datetime(2026, 8, 9, 10, 11, 12, 345_678, tzinfo=UTC)

instants = st.integers(0, (2**32 - 1) * 10**6).map(lambda micros: FIRST + timedelta(microseconds=micros))
prefixes = st.sampled_from([ids.ORG, ids.APP, ids.ENDPOINT, ids.MESSAGE, ids.ATTEMPT])


class Loaded(random.Random):
    """A random source that always returns the same value."""

    def __init__(self, tail: bytes) -> None:
        super().__init__()
        self.tail = tail

    def getrandbits(self, bits: int) -> int:
        return int.from_bytes(self.tail) >> (len(self.tail) * 8 - bits)


def test_a_forked_child_does_not_repeat_its_parents_ids() -> None:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        made = pool.map(mint_some, range(2))
    made.append(mint_some(0))
    assert len({one for some in made for one in some}) == 3 * 100


def mint_some(_: int) -> list[str]:
    return [ids.mint(ids.MESSAGE, NOW) for _ in range(100)]


@given(prefix=prefixes, at=instants)
def test_the_package_reads_our_id_as_the_same_instant(prefix: str, at: datetime) -> None:
    made = ids.mint(prefix, at)
    assert made.startswith(prefix)
    read = KsuidMs.from_base62(made.removeprefix(prefix))
    assert str(read) == made.removeprefix(prefix)
    seconds = at.replace(microsecond=at.microsecond // 4_000 * 4_000)
    assert datetime.fromtimestamp(read.timestamp, UTC) == seconds


@given(at=instants, tail=st.binary(min_size=15, max_size=15))
def test_the_same_instant_and_chance_give_the_same_text(at: datetime, tail: bytes) -> None:
    whole = at.replace(microsecond=at.microsecond // 1_000 * 1_000)
    made = ids.mint("", whole, Loaded(tail))
    # 300 µs after the millisecond, so that the rounding of floats does not change the result
    theirs = KsuidMs(datetime=whole + timedelta(microseconds=300), payload=tail)
    assert made == str(theirs)


@given(at=instants)
def test_we_read_the_id_of_the_package(at: datetime) -> None:
    theirs = KsuidMs(datetime=at)
    assert ids.minted_at(f"msg_{theirs}") == datetime.fromtimestamp(theirs.timestamp, UTC)


@given(prefix=prefixes, at=instants)
def test_minted_at_is_within_four_milliseconds(prefix: str, at: datetime) -> None:
    read = ids.minted_at(ids.mint(prefix, at))
    assert read is not None
    assert timedelta(0) <= at - read < timedelta(milliseconds=4)


@given(at=instants, step=st.integers(4_000, 10**12))
def test_later_ids_sort_later(at: datetime, step: int) -> None:
    later = at + timedelta(microseconds=step)
    if later <= LAST:
        assert ids.mint(ids.MESSAGE, at) < ids.mint(ids.MESSAGE, later)


@pytest.mark.parametrize("at", [FIRST, FIRST + timedelta(microseconds=1), NOW, LAST])
@pytest.mark.parametrize("tail", [bytes(15), b"\xff" * 15])
def test_every_id_has_27_letters(at: datetime, tail: bytes) -> None:
    made = ids.mint("", at, Loaded(tail))
    assert len(made) == 27
    assert int.from_bytes(bytes(KsuidMs.from_base62(made))[5:]) == int.from_bytes(tail)
    read = ids.minted_at(made)
    assert read is not None
    assert timedelta(0) <= at - read < timedelta(milliseconds=4)


def test_ids_of_one_instant_are_different() -> None:
    assert len({ids.mint(ids.ATTEMPT, NOW) for _ in range(5_000)}) == 5_000


def test_prefixes_are_distinguished() -> None:
    all_prefixes = [ids.ORG, ids.APP, ids.ENDPOINT, ids.MESSAGE, ids.ATTEMPT, ids.DEAD_LETTER]
    assert len(set(all_prefixes)) == len(all_prefixes)
    assert all(prefix.endswith("_") for prefix in all_prefixes)


@pytest.mark.parametrize(
    "garbage",
    [
        "",
        "msg_",
        "msg_123",
        "msg_" + "0" * 26,
        "msg_" + "0" * 28,
        "msg_" + "-" * 27,
        "msg_" + "é" * 27,
        "msg_" + "٣" * 27,
        "msg_" + "0" * 26 + "\n",
        "msg_" + "z" * 27,  # 27 letters can encode a little more than 20 bytes
        "order.paid",
    ],
)
def test_text_that_is_no_id_has_no_instant(garbage: str) -> None:
    assert ids.minted_at(garbage) is None


@given(text=st.text() | st.text(alphabet="09AZaz_", min_size=20, max_size=40))
def test_minted_at_never_raises(text: str) -> None:
    read = ids.minted_at(text)
    assert read is None or FIRST <= read <= LAST + timedelta(milliseconds=25)


def test_the_greatest_id_is_read_and_the_next_number_is_not() -> None:
    most = KsuidMs.from_bytes(b"\xff" * 20)
    last_letter = str(most)[-1]
    assert ids.minted_at(str(most)) == datetime.fromtimestamp(most.timestamp // 1, UTC) + timedelta(milliseconds=1020)
    assert ids.minted_at(str(most)[:-1] + chr(ord(last_letter) + 1)) is None


@pytest.mark.parametrize("year", [1, 1970, 2013, 2151, 9999])
def test_a_clock_that_is_centuries_off_still_gives_ids_of_the_right_shape(year: int) -> None:
    at = datetime(year, 6, 5, tzinfo=UTC)
    made = {ids.mint(ids.MESSAGE, at) for _ in range(100)}
    assert len(made) == 100
    for each in made:
        assert len(each) == len(ids.MESSAGE) + 27
        assert ids.minted_at(each) is not None


@pytest.mark.parametrize("start", [1_700_000_000, 2_150_000_000, 2_240_000_000])
def test_every_step_of_four_milliseconds_is_exact(start: int) -> None:
    """With float arithmetic, some steps of the years 2038 to 2041 come out one too low."""
    for millis in range(0, 40_000, 4):
        at = datetime.fromtimestamp(start, UTC) + timedelta(milliseconds=millis)
        assert ids.minted_at(ids.mint(ids.ENDPOINT, at)) == at


def test_an_instant_without_a_time_zone_is_a_bug() -> None:
    with pytest.raises(ValueError, match="time zone"):
        ids.mint(ids.MESSAGE, NOW.replace(tzinfo=None))


@given(prefixes, instants, st.integers(0, 2**31))
def test_the_first_of_an_instant_lies_between_what_was_made_before_and_after(
    prefix: str, at: datetime, seed: int
) -> None:
    chance = random.Random(seed)
    first = ids.first_at(prefix, at)
    assert len(first) == len(prefix) + 27
    assert first <= ids.mint(prefix, at, chance)
    if at - FIRST >= timedelta(milliseconds=5):
        assert ids.mint(prefix, at - timedelta(milliseconds=5), chance) < first


def test_instants_outside_the_range_of_ids_still_sort() -> None:
    early, late = (ids.first_at(ids.MESSAGE, datetime(year, 1, 1, tzinfo=UTC)) for year in (2000, 2999))
    assert early < ids.mint(ids.MESSAGE, NOW) < late
