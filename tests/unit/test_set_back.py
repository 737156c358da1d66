"""Whether a clock was set back, and how far."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from hookline.rules.set_back import TOLERANCE, rebased, set_back

SEEN = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
spans = st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=400))


@given(spans)
def test_a_clock_that_runs_or_jumps_ahead_was_not_set_back(passed: timedelta) -> None:
    assert set_back(SEEN, SEEN + passed) == timedelta()


@given(spans, st.timedeltas(min_value=timedelta(0), max_value=timedelta(seconds=20)))
def test_the_result_is_the_jump_less_the_time_since_the_last_look(jump: timedelta, passed: timedelta) -> None:
    found = set_back(SEEN, SEEN + passed - jump)
    assert found in (timedelta(), jump - passed)
    assert found or jump - passed <= TOLERANCE


@given(spans, spans)
def test_a_wait_keeps_its_length_over_a_jump(jump: timedelta, wait: timedelta) -> None:
    """The worker reckons that it is `SEEN`, and wants a retry after `wait`. The database's clock was set back."""
    now = SEEN - jump
    due = rebased(SEEN + wait, reckoned=SEEN, now=now)
    assert now + wait <= due <= now + wait + TOLERANCE


@given(spans, spans)
def test_a_late_record_changes_nothing(late: timedelta, wait: timedelta) -> None:
    assert rebased(SEEN + wait, reckoned=SEEN, now=SEEN + late) == SEEN + wait
    assert rebased(SEEN + wait, reckoned=None, now=SEEN - late) == SEEN + wait
