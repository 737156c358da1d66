"""When the state machine fires and resolves an alert. Properties that hold for any sequence of readings."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hookline.model.alerts import (
    OTHERS,
    Alert,
    AlertName,
    Begin,
    Change,
    Fire,
    Forget,
    Pending,
    Reading,
    Remembered,
    Resolve,
    Severity,
    Update,
)
from hookline.rules.alerts.conditions import RULES
from hookline.rules.alerts.transitions import MAX_SINGLE, judge

AT = datetime(2026, 1, 1, tzinfo=UTC)
WARNING, CRITICAL = Severity.WARNING, Severity.CRITICAL


def reading(
    name: AlertName = AlertName.DEAD_LETTERS,
    severity: Severity | None = WARNING,
    lingering: Severity | None = WARNING,
    subject: str = "",
    value: float = 11,
) -> Reading:
    return Reading(
        name=name, subject=subject, value=value, threshold=10, severity=severity, lingering=lingering, text="text"
    )


def alert(name: AlertName = AlertName.DEAD_LETTERS, severity: Severity = WARNING, subject: str = "") -> Alert:
    return Alert(
        id=7,
        name=name.value,
        subject=subject,
        severity=severity,
        began_at=AT - timedelta(hours=1),
        fired_at=AT - timedelta(minutes=59),
        value=1,
        threshold=10,
        text="as it was",
    )


def known(*firing: Alert, pending: Sequence[Pending] = (), now: datetime = AT) -> Remembered:
    return Remembered(now=now, firing=firing, pending=pending)


def only_update(changes: Sequence[Change]) -> Update:
    (change,) = changes
    assert isinstance(change, Update)
    return change


def test_a_healthy_reading_without_an_alert_changes_nothing() -> None:
    assert judge([reading(severity=None, lingering=None)], known()) == []
    assert judge([reading(severity=None)], known()) == []  # a value near the threshold is not above it
    assert judge([], known()) == []


def test_a_rule_without_a_duration_fires_at_once() -> None:
    (change,) = judge([reading()], known())
    assert change == Fire(reading=reading(), severity=WARNING, began_at=AT)


def test_an_alert_begins_when_its_reading_says_that_the_problem_began() -> None:
    began = AT - timedelta(minutes=7)
    seen = replace(reading(AlertName.CIRCUIT_OPEN, subject="ep_1"), since=began)
    (change,) = judge([seen], known())
    assert change == Fire(reading=seen, severity=WARNING, began_at=began)
    # the clock was set back after the problem began
    (ahead,) = judge([replace(seen, since=AT + timedelta(seconds=3))], known())
    assert isinstance(ahead, Fire)
    assert ahead.began_at == AT


def test_a_rule_with_a_duration_fires_only_after_that_duration() -> None:
    seen = reading(AlertName.BACKLOG)
    assert judge([seen], known()) == [Begin(name="backlog", subject="")]
    began = AT - timedelta(seconds=59)
    waiting = Pending(name="backlog", subject="", began_at=began)
    assert judge([seen], known(pending=[waiting])) == []
    fired, forgotten = judge([seen], known(pending=[waiting], now=AT + timedelta(seconds=1)))
    assert fired == Fire(reading=seen, severity=WARNING, began_at=began)
    assert forgotten == Forget(name="backlog", subject="")


@pytest.mark.parametrize(
    "now_reads", [[], [reading(AlertName.BACKLOG, None, WARNING)], [reading(AlertName.BACKLOG, None, None)]]
)
def test_a_problem_that_ends_before_its_duration_is_forgotten(now_reads: list[Reading]) -> None:
    waiting = Pending(name="backlog", subject="", began_at=AT - timedelta(seconds=50))
    assert judge(now_reads, known(pending=[waiting])) == [Forget(name="backlog", subject="")]


def test_the_severity_rises_at_once() -> None:
    change = only_update(judge([reading(severity=CRITICAL, lingering=CRITICAL)], known(alert())))
    assert (change.alert.severity, change.worse) == (CRITICAL, True)


def test_the_severity_falls_only_when_the_value_is_well_below_the_threshold() -> None:
    high = alert(severity=CRITICAL)
    change = only_update(judge([reading(severity=WARNING, lingering=CRITICAL)], known(high)))
    assert (change.alert.severity, change.worse) == (CRITICAL, False)
    change = only_update(judge([reading(severity=WARNING, lingering=WARNING)], known(high)))
    assert (change.alert.severity, change.worse) == (WARNING, False)


def test_an_alert_continues_while_its_value_is_near_the_threshold() -> None:
    almost = replace(alert(), clear_since=AT - timedelta(seconds=100))
    change = only_update(judge([reading(severity=None, value=9)], known(almost)))
    assert (change.alert.clear_since, change.alert.value, change.alert.text) == (None, 9, "text")


def test_an_alert_is_resolved_after_the_problem_was_over_for_long_enough() -> None:
    firing = alert()
    change = only_update(judge([reading(severity=None, lingering=None)], known(firing)))
    assert (change.alert.clear_since, change.alert.text) == (AT, "as it was")
    almost = only_update(judge([], known(change.alert, now=AT + timedelta(seconds=119))))
    assert almost.alert.clear_since == AT
    (end,) = judge([], known(change.alert, now=AT + timedelta(seconds=120)))
    assert isinstance(end, Resolve)
    assert end.alert.resolved_at == AT + timedelta(seconds=120)


def test_an_alert_of_a_removed_rule_is_resolved() -> None:
    (end,) = judge([], known(replace(alert(), name="a rule of yesterday")))
    assert isinstance(end, Resolve)


def test_among_too_many_alerts_the_firing_ones_stay_and_the_rest_become_one() -> None:
    many = [reading(AlertName.CIRCUIT_OPEN, subject=f"ep_{number}", value=number) for number in range(50)]
    firing = [replace(alert(AlertName.CIRCUIT_OPEN, subject=f"ep_{number}"), id=number) for number in range(5)]
    changes = judge(many, known(*firing))
    fired = [change.reading for change in changes if isinstance(change, Fire)]
    assert sum(isinstance(change, Update) for change in changes) == 5
    assert len(fired) == MAX_SINGLE - 5 + 1
    (rest,) = [each for each in fired if each.subject == OTHERS]
    assert rest.value == 50 - MAX_SINGLE
    assert {each.subject for each in fired} == {OTHERS} | {f"ep_{number}" for number in range(35, 50)}


def test_when_one_of_many_alerts_ends_no_other_fires_as_new() -> None:
    still = [reading(AlertName.CIRCUIT_OPEN, subject=f"ep_{number}", value=number) for number in range(1, 50)]
    firing = [replace(alert(AlertName.CIRCUIT_OPEN, subject=f"ep_{number}"), id=number) for number in range(MAX_SINGLE)]
    others = replace(alert(AlertName.CIRCUIT_OPEN, subject=OTHERS), id=99)
    changes = judge(still, known(*firing, others))
    assert [change for change in changes if isinstance(change, Fire)] == []
    (rest,) = [each.alert for each in changes if isinstance(each, Update) and each.alert.subject == OTHERS]
    assert rest.value == len(still) - (MAX_SINGLE - 1)


severities = st.sampled_from([None, WARNING, CRITICAL])


@given(
    st.lists(st.tuples(severities, severities, st.integers(1, 200)), max_size=40),
    st.sampled_from([AlertName.BACKLOG, AlertName.DEAD_LETTERS, AlertName.CIRCUIT_OPEN]),
)
def test_firing_and_resolved_alternate_for_any_readings(
    seen: list[tuple[Severity | None, Severity | None, int]], name: AlertName
) -> None:
    """An alert never fires twice in a row, never fires before its duration, and is never resolved too early."""
    firing: Alert | None = None
    pending: Pending | None = None
    bad_since: datetime | None = None
    good_since: datetime | None = None
    now = AT
    for worth, lingers, seconds in seen:
        now += timedelta(seconds=seconds)
        lingering = max((each for each in (worth, lingers) if each), key=lambda each: each.rank, default=None)
        bad_since = (bad_since or now) if worth else None
        good_since = (good_since or now) if lingering is None else None
        state = known(*([firing] if firing else []), pending=[pending] if pending else [], now=now)
        for change in judge([reading(name, worth, lingering)], state):
            match change:
                case Begin():
                    assert firing is None
                    pending = Pending(name=name.value, subject="", began_at=now)
                case Forget():
                    pending = None
                case Fire():
                    assert firing is None
                    assert bad_since is not None
                    assert (now - bad_since).total_seconds() >= RULES[name].lasts
                    assert change.began_at == bad_since
                    firing = replace(alert(name, change.severity), began_at=change.began_at)
                case Update():
                    assert firing is not None
                    assert change.worse == (change.alert.severity.rank > firing.severity.rank)
                    firing = change.alert
                case Resolve():
                    assert firing is not None
                    assert good_since is not None
                    assert (now - good_since).total_seconds() >= RULES[name].settles
                    firing = None
        assert firing is None or pending is None
