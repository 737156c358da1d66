"""How many requests a claim starts to endpoints that do not answer, or are new to the worker."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.model.deliveries import ClaimBatch, LeasedDelivery, SilentStarts, SlotBudgets
from hookline.model.lanes import Lane
from hookline.model.policy import CircuitPolicy
from hookline.rules.claim.budgets import Slots
from hookline.rules.claim.division import MAX_REFUSED, Division
from hookline.rules.claim.silent_starts import NEW_BURST, NEW_RATE, PER_ANSWER, SLOW_BURST, SLOW_RATE, StartLimits
from tests.unit.test_slot_budgets import a_batch, a_job

NOW = datetime(2031, 5, 7, 11, 13, 17, tzinfo=UTC)
GROUP = timedelta(seconds=SLOW_BURST / SLOW_RATE)


def dividing(starts: SilentStarts | None, *, answering: dict[int, int] | None = None, in_line: int = 0) -> Division:
    budgets = SlotBudgets(
        lane_limit=128,
        windows=answering or {},
        first_window=8,
        silent_free=4096,
        starts=starts,
        in_line={7: in_line},
    )
    return Division(now=NOW, want=512, budgets=budgets, policy=CircuitPolicy())


def lanes(*endpoints: int, failures: int = 0) -> list[Lane]:
    return [Lane(endpoint_no=no, app_no=7, failures=failures) for no in endpoints]


def quotas(division: Division, given: list[Lane]) -> list[int]:
    return [admission.quota for admission in division.admissions(given)]


# ── one claim ──


def test_silent_lanes_share_the_starts_and_lanes_that_answer_do_not_need_them() -> None:
    division = dividing(SilentStarts(new=11, slow=0), answering={3: 128})
    assert quotas(division, lanes(1, 2, 3, 4)) == [8, 3, 128, 0]
    assert division.silent_starts == SilentStarts(new=11, slow=0)


def test_slow_lanes_have_starts_of_their_own() -> None:
    division = dividing(SilentStarts(new=2, slow=5, slow_lanes={11, 13}))
    assert quotas(division, lanes(11, 12, 13)) == [5, 2, 0]
    assert division.silent_starts == SilentStarts(new=2, slow=5)


def test_a_lane_with_failures_is_slow_even_if_the_worker_does_not_know_it() -> None:
    division = dividing(SilentStarts(new=64, slow=3))
    assert quotas(division, lanes(1, failures=1)) == [3]
    assert division.silent_starts == SilentStarts(new=0, slow=3)


def test_without_a_limit_silent_lanes_get_their_windows() -> None:
    assert quotas(dividing(None), lanes(1, 2)) == [8, 8]


def test_refused_lanes_come_back_in_groups_that_may_start_together() -> None:
    refused = dividing(SilentStarts(new=0, slow=0), in_line=SLOW_BURST - 1).admissions(lanes(*range(2000)))
    assert {admission.quota for admission in refused} == {0}
    assert [refused[0].rest_at, refused[1].rest_at, refused[SLOW_BURST + 1].rest_at] == [
        NOW + GROUP,
        NOW + 2 * GROUP,
        NOW + 3 * GROUP,
    ]
    assert refused[-1].rest_at == NOW + MAX_REFUSED


def test_the_rest_of_a_lane_waits_with_the_refused_lanes() -> None:
    (admission,) = dividing(SilentStarts(new=5, slow=0)).admissions(lanes(1))
    assert (admission.quota, admission.rest_at, admission.app_full) == (5, NOW + GROUP, True)


# ── over time ──


def test_time_fills_the_limits_up_to_their_bursts() -> None:
    limits = StartLimits(512)
    assert limits.now(100.0) == SilentStarts(new=NEW_BURST, slow=SLOW_BURST, slow_lanes=frozenset())
    limits.started(SilentStarts(new=NEW_BURST, slow=SLOW_BURST))
    found = limits.now(100.0 + 3 / SLOW_RATE)
    assert (found.new, found.slow) == (3 * NEW_RATE / SLOW_RATE, 3)
    found = limits.now(400.0)
    assert (found.new, found.slow) == (NEW_BURST, SLOW_BURST)


def test_a_clock_that_goes_back_gives_no_starts() -> None:
    limits = StartLimits(512)
    limits.now(100.0)
    limits.started(SilentStarts(new=NEW_BURST, slow=SLOW_BURST))
    assert (limits.now(50.0).new, limits.now(50.0).slow) == (0, 0)


@given(st.integers(0, 2000))
def test_each_answer_allows_more_starts_up_to_the_slots(answers: int) -> None:
    limits = StartLimits(512)
    limits.now(1.0)
    for _ in range(answers):
        limits.answered(3)
    assert limits.now(1.0).slow == min(512, SLOW_BURST + PER_ANSWER * answers)


def served(slots: Slots, *jobs: LeasedDelivery, starts: SilentStarts) -> None:
    batch = ClaimBatch(jobs=list(jobs), now=NOW, next_at=None, starts=starts)
    slots.line_up(batch)
    slots.take(jobs, 1.0)


def a_worker() -> Slots:
    slots = Slots(512, lane_limit=128, app_part=0.75, silent=4096, max_bytes=100_000)
    slots.budgets(1.0)
    return slots


def starts_of(slots: Slots) -> SilentStarts:
    found = slots.budgets(1.0).starts
    assert found is not None
    return found


def test_a_worker_counts_what_a_claim_has_started() -> None:
    slots = a_worker()
    served(slots, a_job(1, 7), a_job(2, 7), a_job(3, 7), starts=SilentStarts(new=2, slow=1))
    assert (starts_of(slots).new, starts_of(slots).slow) == (NEW_BURST - 2, SLOW_BURST - 1)


@pytest.mark.parametrize("answered", [True, False])
def test_a_lane_is_slow_from_a_timeout_until_an_answer(answered: bool) -> None:
    slots = a_worker()
    served(slots, a_job(1, 7), a_job(1, 7), starts=SilentStarts(new=2, slow=0))
    slots.give_back(a_job(1, 7), 1.0, timed_out=True)
    assert starts_of(slots).slow_lanes == {1}
    slots.give_back(a_job(1, 7), 1.0, answered=answered)
    assert starts_of(slots).slow_lanes == (set() if answered else {1})


def test_a_refused_lane_is_slow_and_an_answer_wakes_two_of_its_application() -> None:
    slots = a_worker()
    served(slots, a_job(1, 7), starts=SilentStarts(new=1, slow=0))
    slots.line_up(a_batch(refused={21: 7, 22: 7, 23: 7, 24: 8}))
    assert (starts_of(slots).slow_lanes, slots.budgets(1.0).in_line) == ({21, 22, 23, 24}, {7: 3, 8: 1})
    slots.give_back(a_job(1, 7), 1.0, answered=True)
    assert slots.next_in_line([a_job(1, 7)]) == {21, 22}
