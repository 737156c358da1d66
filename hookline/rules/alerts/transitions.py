"""When a rule fires, and when it is over: what was remembered and what was read in, changes out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from hookline.model.alerts import (
    OTHERS,
    Alert,
    Begin,
    Change,
    Fire,
    Forget,
    Reading,
    Remembered,
    Resolve,
    Severity,
    Update,
)
from hookline.rules.alerts.conditions import RULES, rule_of

MAX_TOLD = 20  # of one rule, one by one: if more endpoints fail at once, it is not about the endpoints

_Key = tuple[str, str]


def judge(readings: Iterable[Reading], known: Remembered) -> list[Change]:
    firing = {(alert.name, alert.subject): alert for alert in known.firing}
    seen = {(reading.name.value, reading.subject): reading for reading in _told(readings, firing)}
    pending = {(each.name, each.subject): each.began_at for each in known.pending}
    changes: list[Change] = []
    for key, alert in firing.items():
        changes.append(_go_on(alert, seen.get(key), known.now))
    for key, reading in seen.items():
        if key not in firing:
            changes += _begin(reading, pending.get(key), known.now)
    changes += [Forget(name=name, subject=subject) for name, subject in pending if (name, subject) not in seen]
    return changes


def _begin(reading: Reading, began_at: datetime | None, now: datetime) -> Iterator[Change]:
    """Not firing yet. What has to last is remembered from the first time that it was seen, unless it says since when it is."""
    name, subject = reading.name.value, reading.subject
    if reading.severity is None:
        if began_at is not None:
            yield Forget(name=name, subject=subject)
        return
    lasts = timedelta(seconds=RULES[reading.name].lasts)
    since = min(reading.since or began_at or now, now)  # a clock may have been set back
    if now - since >= lasts:
        yield Fire(reading=reading, severity=reading.severity, began_at=since)
        if began_at is not None:
            yield Forget(name=name, subject=subject)
    elif began_at is None:
        yield Begin(name=name, subject=subject)


def _go_on(alert: Alert, reading: Reading | None, now: datetime) -> Change:
    if reading is None or reading.lingering is None:
        return _clear(alert, now)
    severity = _severity(alert.severity, reading.severity, reading.lingering)
    return Update(
        alert=replace(
            alert,
            severity=severity,
            clear_since=None,
            value=reading.value,
            threshold=reading.threshold,
            text=reading.text,
        ),
        worse=severity.rank > alert.severity.rank,
    )


def _severity(held: Severity, worth: Severity | None, lingering: Severity) -> Severity:
    """It rises at once, and falls only when the value is well below what it rose at."""
    kept = min(held, lingering, key=lambda severity: severity.rank)
    return kept if worth is None else max(kept, worth, key=lambda severity: severity.rank)


def _clear(alert: Alert, now: datetime) -> Change:
    """Over; resolved if it has been over for long enough. What it last saw while it fired stays."""
    since = alert.clear_since or now
    if now - since >= timedelta(seconds=rule_of(alert.name).settles):
        return Resolve(alert=replace(alert, clear_since=since, resolved_at=now))
    return Update(alert=replace(alert, clear_since=since))


# ── many at once ──────────────────────────────────────────────────────────────────────────────────────────────────


def _told(readings: Iterable[Reading], firing: Mapping[_Key, Alert]) -> list[Reading]:
    """Of each rule as many as are told one by one; those that fire already come first. The rest together, as one."""
    by_name: dict[str, list[Reading]] = {}
    for reading in readings:
        by_name.setdefault(reading.name, []).append(reading)
    return [reading for found in by_name.values() for reading in _crowd(found, firing)]


def _crowd(found: Sequence[Reading], firing: Mapping[_Key, Alert]) -> list[Reading]:
    if len(found) <= MAX_TOLD:
        return list(found)

    def place(reading: Reading) -> tuple[bool, bool, float]:
        return (not _fires(reading, firing), reading.severity is None, -reading.value)

    ordered = sorted(found, key=place)
    # While the others fire as one, none of them moves up as one of the told ends: it would be told as if it were new.
    alone = (
        sum(_fires(reading, firing) for reading in ordered) if (ordered[0].name.value, OTHERS) in firing else MAX_TOLD
    )
    told = ordered[: min(alone, MAX_TOLD)]
    rest = [reading for reading in ordered[len(told) :] if reading.severity is not None]
    return [*told, *([_together(rest)] if rest else [])]


def _fires(reading: Reading, firing: Mapping[_Key, Alert]) -> bool:
    return (reading.name.value, reading.subject) in firing


def _together(rest: Sequence[Reading]) -> Reading:
    worst = max(rest, key=lambda reading: reading.value)
    return replace(
        worst,
        subject=OTHERS,
        org_id=None,
        since=None,
        value=float(len(rest)),
        threshold=0.0,
        text=f"{len(rest):,} more of these; one of them: {worst.text}",
    )
