"""Silent starts: how many requests a worker may start to silent lanes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.rules.claim.silent_starts import BATCH, MAX_SAVED, RATE, RECENT, RECENT_RATE, SilentStarts

NOW = 10.0
UNTIL_BATCH = BATCH / RATE  # seconds until the rate allows a batch


def used_up() -> SilentStarts:
    starts = SilentStarts()
    for _ in range(sum(starts.offer(NOW))):
        starts.started()
    return starts


def test_a_worker_may_start_a_batch_at_once() -> None:
    assert SilentStarts().offer(NOW) == (BATCH, RECENT)
    assert SilentStarts().pause(NOW) == 0.0


def test_a_claim_starts_requests_to_any_silent_lanes_in_batches() -> None:
    starts = used_up()
    assert starts.offer(NOW) == (0, 0)
    assert starts.pause(NOW) == UNTIL_BATCH
    assert starts.offer(NOW + 0.9 * UNTIL_BATCH) == (0, RECENT)
    assert starts.offer(NOW + 1.1 * UNTIL_BATCH) == (BATCH, RECENT)


def test_unused_starts_are_not_saved() -> None:
    starts = used_up()
    assert starts.offer(NOW + 99) == (BATCH, RECENT)


def test_recent_lanes_get_their_own_starts_while_no_batch_is_allowed() -> None:
    starts = used_up()
    now = NOW + 2.5 / RECENT_RATE
    assert starts.offer(now) == (0, 2)
    starts.started()
    assert starts.offer(now) == (0, 1)
    assert starts.pause(now) == pytest.approx(UNTIL_BATCH - 2.5 / RECENT_RATE)  # these starts did not delay the batch


def test_each_answer_of_a_silent_lane_allows_one_more_start() -> None:
    starts = SilentStarts()
    starts.answered()
    starts.answered()
    assert starts.offer(NOW) == (BATCH + 2, RECENT)
    assert starts.offer(NOW + 5) == (BATCH + 2, RECENT)


def test_answers_are_saved_up_to_a_maximum() -> None:
    starts = SilentStarts()
    for _ in range(3 * MAX_SAVED):
        starts.answered()
    assert starts.offer(NOW) == (MAX_SAVED, RECENT)


@given(st.lists(st.tuples(st.floats(0, 0.02), st.booleans(), st.integers(0, 80)), max_size=60))
def test_starts_never_exceed_the_rate_and_the_answers(steps: list[tuple[float, bool, int]]) -> None:
    starts, now, started, answers = SilentStarts(), NOW, 0, 0
    for wait, answer, want in steps:
        now += wait
        if answer and answers < started:
            starts.answered()
            answers += 1
        paused = starts.pause(now) > 0
        anyone, recent = starts.offer(now)
        assert paused == (anyone == 0)
        for _ in range(min(want, anyone + recent)):
            starts.started()
            started += 1
        assert started <= BATCH + RECENT + (RATE + RECENT_RATE) * (now - NOW) + answers + 1e-6
