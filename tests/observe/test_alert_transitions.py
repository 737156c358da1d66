"""When an alert fires and ends, by the state machine alone; properties that hold whatever the rules read."""

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


def test_what_is_well_and_never_fired_changes_nothing() -> None:
    assert judge([reading(severity=None, lingering=None)], known()) == []
    assert judge([reading(severity=None)], known()) == []  # near the threshold is not above it
    assert judge([], known()) == []


def test_a_rule_without_a_duration_fires_at_once() -> None:
    (change,) = judge([reading()], known())
    assert change == Fire(reading=reading(), severity=WARNING, began_at=AT)


def test_what_knows_since_when_it_is_began_then() -> None:
    began = AT - timedelta(minutes=7)
    seen = replace(reading(AlertName.CIRCUIT_OPEN, subject="ep_1"), since=began)
    (change,) = judge([seen], known())
    assert change == Fire(reading=seen, severity=WARNING, began_at=began)
    (ahead,) = judge([replace(seen, since=AT + timedelta(seconds=3))], known())  # by a clock that was set back since
    assert isinstance(ahead, Fire)
    assert ahead.began_at == AT


def test_one_with_a_duration_must_last() -> None:
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
def test_what_did_not_last_begins_anew(now_reads: list[Reading]) -> None:
    waiting = Pending(name="backlog", subject="", began_at=AT - timedelta(seconds=50))
    assert judge(now_reads, known(pending=[waiting])) == [Forget(name="backlog", subject="")]


def test_it_rises_at_once_and_says_so() -> None:
    change = only_update(judge([reading(severity=CRITICAL, lingering=CRITICAL)], known(alert())))
    assert (change.alert.severity, change.worse) == (CRITICAL, True)


def test_it_falls_only_when_it_is_well_below() -> None:
    high = alert(severity=CRITICAL)
    change = only_update(judge([reading(severity=WARNING, lingering=CRITICAL)], known(high)))
    assert (change.alert.severity, change.worse) == (CRITICAL, False)
    change = only_update(judge([reading(severity=WARNING, lingering=WARNING)], known(high)))
    assert (change.alert.severity, change.worse) == (WARNING, False)


def test_it_goes_on_while_it_lingers_and_forgets_that_it_seemed_over() -> None:
    almost = replace(alert(), clear_since=AT - timedelta(seconds=100))
    change = only_update(judge([reading(severity=None, value=9)], known(almost)))
    assert (change.alert.clear_since, change.alert.value, change.alert.text) == (None, 9, "text")


def test_it_is_resolved_when_it_was_over_for_long_enough() -> None:
    firing = alert()
    change = only_update(judge([reading(severity=None, lingering=None)], known(firing)))
    assert (change.alert.clear_since, change.alert.text) == (AT, "as it was")
    almost = only_update(judge([], known(change.alert, now=AT + timedelta(seconds=119))))
    assert almost.alert.clear_since == AT
    (end,) = judge([], known(change.alert, now=AT + timedelta(seconds=120)))
    assert isinstance(end, Resolve)
    assert end.alert.resolved_at == AT + timedelta(seconds=120)


def test_a_rule_that_no_longer_exists_is_resolved() -> None:
    (end,) = judge([], known(replace(alert(), name="a rule of yesterday")))
    assert isinstance(end, Resolve)


def test_of_too_many_those_that_fire_already_stay_and_the_rest_is_one() -> None:
    many = [reading(AlertName.CIRCUIT_OPEN, subject=f"ep_{number}", value=number) for number in range(50)]
    firing = [replace(alert(AlertName.CIRCUIT_OPEN, subject=f"ep_{number}"), id=number) for number in range(5)]
    changes = judge(many, known(*firing))
    fired = [change.reading for change in changes if isinstance(change, Fire)]
    assert sum(isinstance(change, Update) for change in changes) == 5
    assert len(fired) == MAX_SINGLE - 5 + 1
    (rest,) = [each for each in fired if each.subject == OTHERS]
    assert rest.value == 50 - MAX_SINGLE
    assert {each.subject for each in fired} == {OTHERS} | {f"ep_{number}" for number in range(35, 50)}


def test_as_one_of_the_told_ends_none_of_the_others_is_told_as_new() -> None:
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
def test_firing_and_resolved_take_turns_whatever_is_read(
    seen: list[tuple[Severity | None, Severity | None, int]], name: AlertName
) -> None:
    """Never fired twice in a row, never before it lasted, never resolved before it settled."""
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
