"""The slots of a worker: which lanes hold them, and which lanes wait for them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hookline.model.deliveries import ClaimBatch, LeasedDelivery
from hookline.rules.claim.budgets import Slots

NOW = datetime(2031, 5, 7, 11, 13, 17, tzinfo=UTC)


def a_job(endpoint_no: int, app_no: int) -> LeasedDelivery:
    return LeasedDelivery(
        delivery_id=endpoint_no * 10,
        claim=5,
        message_id="msg_7",
        app_no=app_no,
        endpoint_no=endpoint_no,
        revision=1,
        event_type="order.paid",
        payload=b"{}",
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


def some_slots() -> Slots:
    return Slots(16, lane_limit=4, app_part=0.75)


def test_a_full_lane_waits_for_one_of_its_own_slots() -> None:
    slots = some_slots()
    slots.line_up(a_batch(refused={11: None, 12: None}))
    assert slots.next_in_line([a_job(13, 1)]) == set()
    assert slots.next_in_line([a_job(11, 1), a_job(11, 1)]) == {11}
    slots.leave_line({11})
    assert (slots.next_in_line([a_job(11, 1)]), slots.waiting) == (set(), 1)


def test_a_lane_of_a_large_application_waits_for_any_of_it_and_its_turn() -> None:
    """Each slot that is freed wakes one lane, in the order in which the lanes were refused."""
    slots = some_slots()
    slots.line_up(a_batch(refused={21: 1, 22: 1, 31: 2}))
    slots.line_up(a_batch(refused={23: 1, 21: 1}))
    assert slots.waiting == 4
    woken = slots.next_in_line([a_job(99, 1), a_job(98, 1), a_job(97, 3)])
    assert woken == {21, 22}
    assert slots.next_in_line([a_job(99, 1)]) == {21}  # nothing is removed from the line before it is recorded
    slots.leave_line(woken)
    assert slots.next_in_line([a_job(99, 1), a_job(99, 1), a_job(99, 2)]) == {23, 31}


def test_a_lane_that_got_slots_waits_no_more() -> None:
    slots = some_slots()
    slots.line_up(a_batch(refused={21: 1, 22: 1}))
    slots.line_up(a_batch(a_job(21, 1)))
    assert (slots.waiting, slots.next_in_line([a_job(50, 1), a_job(51, 1)])) == (1, {22})


def test_no_lane_waits_while_no_budget_is_full() -> None:
    slots = some_slots()
    slots.line_up(a_batch(a_job(21, 1)))
    assert (slots.waiting, slots.next_in_line([a_job(21, 1)])) == (0, set())
    slots.leave_line(set())


def test_slots_are_counted_by_lane_and_by_application() -> None:
    slots = some_slots()
    slots.take([a_job(21, 1), a_job(21, 1), a_job(22, 1), a_job(31, 2)])
    slots.give_back(a_job(21, 1))
    slots.give_back(a_job(31, 2))
    budgets = slots.budgets()
    assert (budgets.held_by_lane, budgets.held_by_app, slots.free) == ({21: 1, 22: 1}, {1: 2}, 14)


def test_only_slots_that_an_application_in_line_may_take_are_usable() -> None:
    slots = some_slots()
    slots.take([a_job(21, 1)] * 10)
    assert slots.usable == slots.free == 6
    slots.line_up(a_batch(refused={22: 1}))
    assert (slots.usable, list(slots.apps_in_line)) == (2, [1])
