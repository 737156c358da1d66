"""The slots of a worker: which lanes hold them, and which lanes wait for them."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hookline.model.deliveries import ClaimBatch, LeasedDelivery
from hookline.rules.claim import budgets
from hookline.rules.claim.budgets import Slots
from hookline.rules.claim.silent_starts import BATCH, RECENT
from hookline.rules.lane.window import Window

NOW = datetime(2031, 5, 7, 11, 13, 17, tzinfo=UTC)


def a_job(endpoint_no: int, app_no: int, payload: bytes = b"{}") -> LeasedDelivery:
    return LeasedDelivery(
        delivery_id=endpoint_no * 10,
        claim=5,
        message_id="msg_7",
        app_no=app_no,
        endpoint_no=endpoint_no,
        revision=1,
        event_type="order.paid",
        payload=payload,
        attempts=0,
        sent=0,
        accepted_at=NOW,
        expires_at=NOW + timedelta(hours=3),
        claimed_at=NOW,
        lease_until=NOW + timedelta(minutes=1),
        due_at=NOW,
        epoch=0,
        counted=False,
        probe=False,
        trigger=0,
    )


def a_batch(*jobs: LeasedDelivery, refused: dict[int, int | None] | None = None) -> ClaimBatch:
    return ClaimBatch(jobs=list(jobs), now=NOW, next_at=None, refused=refused or {})


def some_slots(silent: int = 16) -> Slots:
    return Slots(16, lane_limit=4, app_part=0.75, silent=silent, max_bytes=100_000)


def answered(slots: Slots, *lanes: tuple[int, int], now: float = 0.0) -> None:
    """Let each lane, given by its endpoint and application, answer a request."""
    for lane in lanes:
        slots.take([a_job(*lane)], now)
        slots.give_back(a_job(*lane), now, answered=True)


def test_a_full_lane_waits_for_one_of_its_own_slots() -> None:
    slots = some_slots()
    slots.line_up(a_batch(refused={11: None, 12: None}))
    assert slots.next_in_line([a_job(13, 1)]) == set()
    assert slots.next_in_line([a_job(11, 1), a_job(11, 1)]) == {11}
    slots.leave_line({11})
    assert (slots.next_in_line([a_job(11, 1)]), slots.waiting) == (set(), 1)


@pytest.mark.parametrize("answering", [False, True], ids=["silent", "answering"])
def test_each_slot_that_an_application_frees_wakes_one_lane(answering: bool) -> None:
    """The lanes are woken in the order in which they were refused."""
    slots = some_slots()
    if answering:
        answered(slots, (21, 1), (22, 1), (23, 1), (31, 2), (97, 3), (98, 1), (99, 1), (96, 2))
    slots.take([a_job(99, 1), a_job(98, 1), a_job(97, 3), a_job(96, 2)], 5.0)
    slots.line_up(a_batch(refused={21: 1, 22: 1, 31: 2}))
    slots.line_up(a_batch(refused={23: 1, 21: 1}))
    assert (slots.waiting, slots.next_in_line([])) == (4, set())
    for lane in ((99, 1), (98, 1), (97, 3)):
        slots.give_back(a_job(*lane), 5.5)
    assert slots.next_in_line([]) == {21, 22}
    assert slots.next_in_line([]) == {21, 22}  # nothing is removed from the line before it is recorded
    slots.leave_line({21, 22})
    assert slots.next_in_line([]) == set()
    slots.give_back(a_job(96, 2), 5.75)
    assert (slots.next_in_line([]), slots.waiting) == ({31}, 2)


def test_a_slot_of_one_pool_wakes_no_lane_that_waits_for_the_other() -> None:
    slots = some_slots()
    answered(slots, (99, 1), (21, 1))
    slots.take([a_job(99, 1), a_job(50, 1)], 1.0)
    slots.line_up(a_batch(refused={21: 1, 51: 1}))
    slots.give_back(a_job(99, 1), 1.25)
    assert slots.next_in_line([]) == {21}
    slots.give_back(a_job(50, 1), 1.5)
    assert slots.next_in_line([]) == {21, 51}


def test_a_lane_that_got_slots_waits_no_more() -> None:
    slots = some_slots()
    slots.take([a_job(50, 1), a_job(51, 1)], 0.0)
    slots.line_up(a_batch(refused={21: 1, 22: 1}))
    slots.line_up(a_batch(a_job(21, 1)))
    slots.give_back(a_job(50, 1), 0.25)
    slots.give_back(a_job(51, 1), 0.25)
    assert (slots.waiting, slots.next_in_line([])) == (1, {22})


def test_slots_are_counted_by_lane_and_by_application() -> None:
    slots = some_slots()
    answered(slots, (21, 1), (22, 1), (31, 2))
    slots.take([a_job(21, 1), a_job(21, 1), a_job(22, 1), a_job(31, 2), a_job(41, 3)], 1.0)
    slots.give_back(a_job(21, 1), 1.25)
    slots.give_back(a_job(31, 2), 1.25)
    found = slots.budgets(1.5)
    assert (found.held_by_lane, found.held_by_app) == ({21: 1, 22: 1, 41: 1}, {1: 2})
    assert (found.silent_by_app, slots.free, found.silent_free, slots.used) == ({3: 1}, 14, 15, 3)


def test_only_slots_that_an_application_in_line_may_take_are_usable() -> None:
    slots = some_slots()
    answered(slots, (21, 1), (22, 1))
    slots.take([a_job(21, 1)] * 10, 1.0)
    assert slots.usable == slots.free == 6
    slots.line_up(a_batch(refused={22: 1}))
    assert (slots.usable, list(slots.apps_in_line)) == (2, [1])


def test_a_lane_whose_slot_was_freed_while_a_claim_refused_it_is_woken_at_once() -> None:
    slots = some_slots()
    slots.take([a_job(21, 1), a_job(22, 1)], 0.0)
    slots.budgets(0.25)  # a claim begins
    slots.give_back(a_job(21, 1), 0.25)
    slots.line_up(a_batch(refused={21: None, 22: None}))
    assert slots.has_ready
    assert slots.next_in_line([]) == {21}
    slots.leave_line({21})
    assert not slots.has_ready
    assert slots.next_in_line([a_job(22, 1)]) == {22}


# ── answers ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_lane_takes_slots_of_endpoints_that_answer_after_its_first_answer() -> None:
    slots = some_slots()
    slots.take([a_job(21, 1)] * 3, 0.0)
    assert (slots.free, slots.budgets(0.5).silent_free) == (16, 13)
    slots.give_back(a_job(21, 1), 0.75, answered=True)
    assert (slots.free, slots.budgets(0.75).silent_free) == (14, 16)


def test_a_lane_without_a_result_for_a_second_becomes_silent_and_returns_with_an_answer() -> None:
    slots = some_slots()
    answered(slots, (21, 1), (22, 1))
    slots.take([a_job(21, 1)] * 3 + [a_job(22, 1)], 10.0)
    slots.give_back(a_job(22, 1), 10.75)
    slots.take([a_job(22, 1)], 10.875)
    slots.silence(10.99)
    assert slots.free == 12
    slots.silence(11.0)
    assert (slots.free, set(slots.budgets(11.0).windows or {})) == (15, {22})
    slots.give_back(a_job(21, 1), 11.5, answered=True)
    assert (slots.free, set(slots.budgets(11.5).windows or {})) == (13, {21, 22})


def test_a_timeout_makes_a_lane_silent() -> None:
    slots = some_slots()
    answered(slots, (21, 1))
    slots.take([a_job(21, 1)] * 2, 10.0)
    slots.give_back(a_job(21, 1), 10.25, timed_out=True)
    found = slots.budgets(10.5)
    assert (slots.free, found.windows, found.silent_windows[21]) == (16, {}, 2)


def test_an_answer_of_a_silent_lane_allows_one_more_start() -> None:
    slots = some_slots()
    answered(slots, (21, 1), (22, 1))
    assert slots.budgets(1.0).silent_starts == BATCH + 2
    answered(slots, (21, 1), (21, 1))  # this lane has answered before
    assert slots.budgets(2.0).silent_starts == BATCH + 2


def test_requests_to_silent_lanes_use_up_the_silent_starts() -> None:
    slots = some_slots(silent=400)
    found = slots.budgets(10.0)
    assert (found.silent_starts, found.recent_starts) == (BATCH, RECENT)
    slots.take([a_job(no, 1) for no in range(BATCH + 1)], 10.0)
    found = slots.budgets(10.0)
    assert (found.silent_starts, found.recent_starts, slots.silent_pause(10.0) > 0) == (0, RECENT - 1, True)


def test_requests_to_lanes_that_answer_use_up_no_silent_starts() -> None:
    slots = some_slots(silent=400)
    answered(slots, (21, 1), now=10.0)
    before = slots.budgets(10.0)
    slots.take([a_job(21, 1)] * 3, 10.0)
    after = slots.budgets(10.0)
    assert (after.silent_starts, after.recent_starts) == (before.silent_starts, before.recent_starts)


def test_silent_lanes_get_one_slot_each_while_their_pool_is_crowded() -> None:
    slots = some_slots(silent=40)
    slots.take([a_job(no, 1) for no in range(10)], 0.0)
    assert (slots.budgets(0.0).first_window, slots.budgets(0.0).silent_windows[3]) == (4, 4)
    slots.take([a_job(10, 1)], 0.0)
    assert (slots.budgets(0.0).first_window, slots.budgets(0.0).silent_windows) == (1, {})


def test_a_worker_forgets_the_lane_whose_last_result_is_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "MAX_LANES", 2)
    slots = some_slots()
    answered(slots, (21, 1), (22, 1), (21, 1), (23, 1))
    assert set(slots.budgets(0.0).windows or {}) == {21, 23}


@given(
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["take", "answer", "timeout", "fail", "wait"])), max_size=200)
)
def test_the_pools_hold_exactly_the_requests_in_flight(steps: list[tuple[int, str]]) -> None:
    slots, held, now = some_slots(), Counter[int](), 0.0
    for no, step in steps:
        now += 0.3
        job = a_job(no, no % 2)
        if step == "take":
            slots.take([job], now)
            held[no] += 1
        elif step == "wait":
            slots.silence(now)
        elif held[no]:
            slots.give_back(job, now, answered=step == "answer", timed_out=step == "timeout")
            held[no] -= 1
        found = slots.budgets(now)
        assert slots.used == sum(held.values())
        assert found.held_by_lane == +held
        by_app = Counter(found.held_by_app) + Counter(found.silent_by_app)
        assert by_app == Counter({app: sum(held[n] for n in held if n % 2 == app) for app in (0, 1)}) + Counter()
        assert slots.total - slots.free == sum(held[n] for n in found.windows or {})


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from([1, 3, 0, -1, -2]), st.booleans()), max_size=200))
def test_the_pools_count_exactly_the_bytes_of_large_payloads_in_flight(steps: list[tuple[int, int, bool]]) -> None:
    slots, in_flight, now = some_slots(), list[LeasedDelivery](), 0.0
    for no, size, answers in steps:
        now += 0.3
        if size > 0:
            in_flight.append(a_job(no, no % 2, b"x" * (size * budgets.LARGE - 1)))
            slots.take(in_flight[-1:], now)
        elif size < 0 and in_flight:
            slots.give_back(in_flight.pop(no % len(in_flight)), now, answered=answers, timed_out=not answers)
        found = slots.budgets(now)
        for app in (0, 1):
            mine = [job for job in in_flight if job.app_no == app and len(job.payload) > budgets.LARGE]
            answering = sum(len(job.payload) for job in mine if job.endpoint_no in (found.windows or {}))
            assert found.bytes.by_app.get(app, 0) == answering
            assert found.silent_bytes.by_app.get(app, 0) == sum(len(job.payload) for job in mine) - answering
        assert found.bytes.free == 100_000 - sum(found.bytes.by_app.values())


def test_freed_bytes_wake_a_lane_of_each_application_that_waits_for_bytes() -> None:
    slots = some_slots()
    large = a_job(51, 1, b"x" * 2 * budgets.LARGE)
    slots.take([large, a_job(52, 1)], 0.0)
    slots.line_up(replace(a_batch(refused={21: 1, 31: 2, 32: 2, 41: 3}), heavy={21, 31, 32}))
    slots.give_back(a_job(52, 1), 0.25)
    assert slots.next_in_line([]) == {21}
    slots.give_back(large, 0.5)
    assert slots.next_in_line([]) == {21, 31}


def test_a_lane_whose_payload_did_not_fit_is_heavy_until_it_is_served_or_woken() -> None:
    slots = some_slots()
    slots.take([a_job(51, 1), a_job(52, 1)], 0.0)
    slots.line_up(replace(a_batch(refused={21: 1, 22: 1}), heavy={21, 22}))
    assert slots.budgets(0.0).heavy == {21, 22}
    slots.line_up(a_batch(a_job(21, 1)))
    assert slots.budgets(0.0).heavy == {22}
    slots.give_back(a_job(51, 1), 0.25)
    assert slots.next_in_line([]) == {22}
    slots.leave_line({22})
    assert slots.budgets(0.0).heavy == set()


def test_a_window_doubles_while_all_of_it_is_answered() -> None:
    window, sizes = Window(), []
    for _ in range(4):
        for _ in range(window.slots(128)):
            window.on_answer(128)
        sizes.append(window.slots(128))
    assert sizes == [16, 32, 64, 128]


def test_a_timeout_halves_a_window_and_it_then_grows_slowly() -> None:
    window = Window(size=64)
    window.on_timeout()
    assert window.slots(128) == 32
    for _ in range(33):
        window.on_answer(128)
    assert window.slots(128) == 33
    for _ in range(9):
        window.on_timeout()
    assert window.slots(128) == 1


@given(st.lists(st.booleans()), st.integers(1, 300))
def test_a_window_stays_between_one_and_the_limit(answers: list[bool], limit: int) -> None:
    window = Window()
    for each in answers:
        window.on_answer(limit) if each else window.on_timeout()
        assert 1 <= window.slots(limit) <= limit


# ── slots for messages that are being accepted ──


def test_only_lanes_that_answer_and_have_room_for_every_message_get_slots() -> None:
    slots = some_slots()
    answered(slots, (1, 9), (2, 9))
    slots.take([a_job(2, 9)] * 3)
    assert slots.reserve(9, {1: 2, 2: 2, 3: 2}, 0.0) == {1: 2}
    assert (slots.used, slots.budgets().held_by_lane) == (5, {1: 2, 2: 3})
    slots.cancel(9, {1: 2})
    assert (slots.used, slots.budgets().held_by_lane) == (3, {2: 3})


def test_reserved_slots_obey_the_share_of_the_application_and_leave_a_quarter_to_claims() -> None:
    slots = some_slots()
    lanes = dict.fromkeys(range(1, 20), 1)
    answered(slots, *((no, 9) for no in lanes))
    assert len(slots.reserve(9, lanes, 0.0)) == 12
    answered(slots, (30, 8))
    assert slots.reserve(8, {30: 1}, 0.0) == {}


def test_a_lane_whose_requests_wait_too_long_gets_no_slots() -> None:
    slots = some_slots()
    answered(slots, (1, 9))
    slots.take([a_job(1, 9)], 5.0)
    assert slots.reserve(9, {1: 1}, 5.5) == {1: 1}
    slots.cancel(9, {1: 1})
    assert slots.reserve(9, {1: 1}, 5.0 + budgets.SILENT_AFTER) == {}


def test_a_lane_is_not_silent_because_of_reserved_slots() -> None:
    slots = some_slots()
    answered(slots, (1, 9))
    slots.take([a_job(1, 9)], 10.0)
    reserved = slots.reserve(9, {1: 1}, 10.001)
    slots.give_back(a_job(1, 9), 10.002, answered=True)
    slots.cancel(9, reserved)
    slots.silence(20.0)
    assert slots.answers(1)


def test_a_lane_that_was_refused_because_of_reserved_slots_is_woken() -> None:
    slots = some_slots()
    answered(slots, (1, 9))
    reserved = slots.reserve(9, {1: 2}, 0.0)
    slots.budgets()
    slots.line_up(a_batch(refused={1: None}))
    assert not slots.has_ready
    assert slots.reserve(9, {1: 1}, 0.0) == {}
    slots.cancel(9, reserved)
    assert slots.next_in_line([]) == {1}


def test_a_lane_in_the_line_of_its_application_is_woken_when_reserved_slots_are_freed() -> None:
    slots = some_slots()
    answered(slots, (1, 9), (2, 9))
    reserved = slots.reserve(9, {1: 2}, 0.0)
    slots.budgets()
    slots.line_up(a_batch(refused={2: 9}))
    assert slots.reserve(9, {1: 1}, 0.0) == {}
    slots.cancel(9, reserved)
    assert slots.next_in_line([]) == {2}


def test_a_reserved_slot_that_is_used_wakes_nobody() -> None:
    slots = some_slots()
    answered(slots, (1, 9), (2, 9))
    slots.reserve(9, {1: 1}, 0.0)
    slots.budgets()
    slots.line_up(a_batch(refused={2: 9}))
    slots.use(a_job(1, 9), 0.0)
    assert (slots.used, slots.budgets().held_by_lane, slots.next_in_line([])) == (1, {1: 1}, set())


def test_a_claim_and_reservations_do_not_take_the_same_slots() -> None:
    slots = some_slots()
    lanes = [(no, no) for no in range(1, 17)]
    answered(slots, *lanes)
    with slots.claim(0.0) as want:
        assert want == 16
        assert slots.reserve(1, {1: 1}, 1.0) == {}
    slots.accepted_at = 1.0
    with slots.claim(2.0) as want:
        assert want == 12
        got = [no for no, app_no in lanes if slots.reserve(app_no, {no: 1}, 3.0)]
        assert len(got) == 4
        slots.take([a_job(*lane) for lane in lanes[-12:]])
    assert slots.free == 0
    slots.give_back(a_job(16, 16), 3.0)
    slots.cancel(1, {1: 1})
    with slots.claim(1.0 + budgets.SHARED_FOR) as want:
        assert want == 2


STEPS = st.sampled_from(["take", "answer", "timeout", "wait", "reserve", "cancel", "use"])


@given(st.lists(st.tuples(st.integers(0, 5), STEPS), max_size=200))
def test_the_pools_hold_exactly_the_requests_in_flight_and_the_reserved_slots(steps: list[tuple[int, str]]) -> None:
    slots, held, reserved, now = some_slots(), Counter[int](), Counter[int](), 0.0
    for no, step in steps:
        now += 0.3
        job = a_job(no, no % 2)
        if step == "take":
            slots.take([job], now)
            held[no] += 1
        elif step == "wait":
            slots.silence(now)
        elif step == "reserve":
            reserved.update(slots.reserve(no % 2, {no: 1}, now))
        elif step in ("cancel", "use") and reserved[no]:
            reserved[no] -= 1
            held[no] += step == "use"
            slots.use(job, now) if step == "use" else slots.cancel(no % 2, {no: 1})
        elif step in ("answer", "timeout") and held[no]:
            slots.give_back(job, now, answered=step == "answer", timed_out=step == "timeout")
            held[no] -= 1
        both = held + reserved
        found = slots.budgets(now)
        assert slots.used == both.total()
        assert found.held_by_lane == both
        by_app = Counter(found.held_by_app) + Counter(found.silent_by_app)
        assert by_app == Counter({app: sum(both[n] for n in both if n % 2 == app) for app in (0, 1)}) + Counter()
        assert slots.total - slots.free == sum(both[n] for n in found.windows or {})
        assert set(slots._since) <= {n for n in held if held[n]}
