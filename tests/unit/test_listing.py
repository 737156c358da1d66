"""The range of a listing, and when a listing needs a limit of rows to read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline import ids
from hookline.model.attempts import AttemptedFilter, AttemptFilter
from hookline.model.messages import Message, MessageFilter
from hookline.store import Page
from hookline.store.plans import listing

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
instants = st.integers(0, 80 * 365 * 86_400).map(
    lambda seconds: datetime(2015, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
)


def minted(at: datetime) -> str:
    return ids.mint(ids.MESSAGE, at)


def test_without_bounds_everything_lies_between() -> None:
    forwards = listing.span(ids.MESSAGE, MessageFilter(), Page())
    backwards = listing.span(ids.MESSAGE, MessageFilter(), Page(backwards=True))
    assert forwards.near > minted(NOON) > forwards.far
    assert backwards.near < minted(NOON) < backwards.far


def test_a_listing_starts_at_its_iterator() -> None:
    here = minted(NOON)
    assert listing.span(ids.MESSAGE, MessageFilter(), Page(iterator=here)).near == here
    assert listing.span(ids.MESSAGE, MessageFilter(), Page(iterator=here, backwards=True)).near == here


@given(instants, instants, st.booleans())
def test_ids_within_the_time_bounds_are_listed(one: datetime, other: datetime, backwards: bool) -> None:
    after, before = sorted((one, other))
    found = listing.span(ids.MESSAGE, MessageFilter(after=after, before=before), Page(backwards=backwards))
    low, high = sorted((found.near, found.far))
    for skew in (-9, 0, 9):
        assert low <= minted(after + timedelta(seconds=skew)) <= high
        assert low <= minted(before + timedelta(seconds=skew)) <= high
    assert not low <= minted(after - timedelta(seconds=11)) <= high
    assert not low <= minted(before + timedelta(seconds=11)) <= high


def test_the_nearer_of_iterator_and_bound_counts() -> None:
    where = MessageFilter(after=NOON, before=NOON + timedelta(hours=1))
    early, late = minted(NOON - timedelta(days=1)), minted(NOON + timedelta(days=1))
    assert listing.span(ids.MESSAGE, where, Page(iterator=late)).near < late
    assert listing.span(ids.MESSAGE, where, Page(iterator=early)).near == early
    assert listing.span(ids.MESSAGE, where, Page(iterator=early, backwards=True)).near > early
    assert listing.span(ids.MESSAGE, where, Page(iterator=late, backwards=True)).near == late


@pytest.mark.parametrize(
    ("where", "rare"),
    [
        (MessageFilter(), False),
        (MessageFilter(after=NOON, before=NOON), False),
        (MessageFilter(event_types=("a",)), True),
        (MessageFilter(channel="a"), True),
        (MessageFilter(tag="a"), True),
        (AttemptFilter(), False),
        (AttemptFilter(delivered=False), False),  # these filters have an index
        (AttemptFilter(delivered=True), True),
        (AttemptFilter(code_class=500), True),
        (AttemptedFilter(), True),
    ],
)
def test_a_filter_without_an_index_gets_a_limit(where: MessageFilter, rare: bool) -> None:
    assert listing.rare(where) == rare


@pytest.mark.parametrize(
    ("delivered", "code_class", "outcome"),
    [
        (None, None, None),
        (None, 200, None),
        (None, 0, False),
        (None, 500, False),
        (True, None, True),
        (False, None, False),
        (False, 200, False),
        (True, 500, True),
    ],
)
def test_status_classes_without_2xx_search_only_failed_attempts(
    delivered: bool | None, code_class: int | None, outcome: bool | None
) -> None:
    assert listing.outcome(AttemptFilter(delivered=delivered, code_class=code_class)) == outcome


def sized(*sizes: int | None) -> list[Message]:
    return [
        Message(
            seq=n, id=f"msg_{n}", app_no=1, app_id="app_1", event_type="a", payload=None, created_at=NOON, size=size
        )
        for n, size in enumerate(sizes)
    ]


def test_a_page_holds_as_many_rows_as_fit_and_at_least_one() -> None:
    most = listing.MAX_BYTES
    assert listing.fits(sized(most, 1)) == 1
    assert listing.fits(sized(most - 1, 1, 1)) == 2
    assert listing.fits(sized(most + 1, 1)) == 1
    assert listing.fits(sized(None, most, None)) == 3


def test_the_limit_matters_only_if_the_page_is_not_full() -> None:
    assert listing.walked([3, 2], Page(limit=2), "end").end is None
    short = listing.walked([3, 2], Page(limit=3), "end")
    assert (short.rows, short.end) == ([3, 2], "end")
    assert listing.walked([2, 3], Page(limit=3, backwards=True), None).rows == [3, 2]
