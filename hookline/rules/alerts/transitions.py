"""Decide when an alert fires and when it is resolved, from the stored alerts and the new readings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from hookline.model import alerts
from hookline.model.alerts import Alert, Reading, Severity
from hookline.rules.alerts.conditions import RULES, rule_of

# Maximum number of alerts per rule that are about one endpoint each. One combined alert covers all further endpoints.
# If so many endpoints fail at once, the cause is probably not in the endpoints.
MAX_SINGLE = 20

_Key = tuple[str, str]


def judge(readings: Iterable[Reading], known: alerts.Remembered) -> list[alerts.Change]:
    firing = {(alert.name, alert.subject): alert for alert in known.firing}
    seen = {(reading.name.value, reading.subject): reading for reading in _limited(readings, firing)}
    pending = {(each.name, each.subject): each.began_at for each in known.pending}
    changes: list[alerts.Change] = []
    for key, alert in firing.items():
        changes.append(_continue(alert, seen.get(key), known.now))
    for key, reading in seen.items():
        if key not in firing:
            changes += _begin(reading, pending.get(key), known.now)
    changes += [alerts.Forget(name=name, subject=subject) for name, subject in pending if (name, subject) not in seen]
    return changes


def _begin(reading: Reading, began_at: datetime | None, now: datetime) -> Iterator[alerts.Change]:
    """Handle a reading whose alert does not fire yet. It fires when the condition has lasted long enough.

    The condition began at `reading.since` if known, otherwise at the first bad reading.
    """
    name, subject = reading.name.value, reading.subject
    if reading.severity is None:
        if began_at is not None:
            yield alerts.Forget(name=name, subject=subject)
        return
    lasts = timedelta(seconds=RULES[reading.name].lasts)
    since = min(reading.since or began_at or now, now)  # a clock may have been set back
    if now - since >= lasts:
        yield alerts.Fire(reading=reading, severity=reading.severity, began_at=since)
        if began_at is not None:
            yield alerts.Forget(name=name, subject=subject)
    elif began_at is None:
        yield alerts.Begin(name=name, subject=subject)


def _continue(alert: Alert, reading: Reading | None, now: datetime) -> alerts.Change:
    if reading is None or reading.lingering is None:
        return _clear(alert, now)
    severity = _severity(alert.severity, reading.severity, reading.lingering)
    seen = {"value": reading.value, "threshold": reading.threshold, "text": reading.text}
    after = replace(alert, severity=severity, clear_since=None, **seen)
    return alerts.Update(alert=after, worse=severity.rank > alert.severity.rank)


def _severity(held: Severity, worth: Severity | None, lingering: Severity) -> Severity:
    """Return the new severity of an alert that fires with the severity `held`.

    The severity rises to `worth`, that of the current value, at once. Otherwise it falls to `lingering` if that is
    lower (see `Reading.lingering`), but not below `worth`.
    """
    kept = min(held, lingering, key=lambda severity: severity.rank)
    return kept if worth is None else max(kept, worth, key=lambda severity: severity.rank)


def _clear(alert: Alert, now: datetime) -> alerts.Change:
    """Handle an alert whose condition has ended. It is resolved after a waiting time, and keeps its last bad value."""
    since = alert.clear_since or now
    if now - since >= timedelta(seconds=rule_of(alert.name).settles):
        return alerts.Resolve(alert=replace(alert, clear_since=since, resolved_at=now))
    return alerts.Update(alert=replace(alert, clear_since=since))


# ── limiting the number of alerts ─────────────────────────────────────────────────────────────────────────────────


def _limited(readings: Iterable[Reading], firing: Mapping[_Key, Alert]) -> list[Reading]:
    """Return at most `MAX_SINGLE` readings of each rule unchanged. Readings whose alerts fire already are preferred.

    The rule's other readings are combined into one reading. Healthy readings among them are dropped.
    """
    by_name: dict[str, list[Reading]] = {}
    for reading in readings:
        by_name.setdefault(reading.name, []).append(reading)
    return [reading for same_rule in by_name.values() for reading in _limit(same_rule, firing)]


def _limit(readings: Sequence[Reading], firing: Mapping[_Key, Alert]) -> list[Reading]:
    if len(readings) <= MAX_SINGLE:
        return list(readings)

    def place(reading: Reading) -> tuple[bool, bool, float]:
        return (not _fires(reading, firing), reading.severity is None, -reading.value)

    ordered = sorted(readings, key=place)
    # While the combined alert fires, no further endpoint gets an alert of its own. The combined alert reports it.
    combined = (ordered[0].name.value, alerts.OTHERS) in firing
    alone = sum(_fires(reading, firing) for reading in ordered) if combined else MAX_SINGLE
    single = ordered[: min(alone, MAX_SINGLE)]
    rest = [reading for reading in ordered[len(single) :] if reading.severity is not None]
    return [*single, *([_combined(rest)] if rest else [])]


def _fires(reading: Reading, firing: Mapping[_Key, Alert]) -> bool:
    return (reading.name.value, reading.subject) in firing


def _combined(rest: Sequence[Reading]) -> Reading:
    worst = max(rest, key=lambda reading: reading.value)
    text = f"{len(rest):,} more of these; the worst: {worst.text}"
    counted = {"value": float(len(rest)), "threshold": 0.0, "text": text}
    return replace(worst, subject=alerts.OTHERS, org_id=None, since=None, **counted)
