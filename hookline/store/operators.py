"""Operators, sessions, guesses and the audit log as rows: what both engines share."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from msgspec import Struct

from hookline.errors import InvalidInput
from hookline.model import Actor, ActorKind, Scope
from hookline.model.audit import AuditEntry, AuditFilter, NewAuditEntry
from hookline.model.operators import Guesses, Lock, Operator, Session
from hookline.store.protocols import LAST_NUMBER, Page, after_number
from hookline.store.rows import Reading, Row

GUESSES_KEPT = 2 * 86_400  # seconds after the last one: longer than anybody is locked out
MAX_NAME, MAX_TEXT = 300, 2_000  # characters of an entry of the audit log

# A transaction has the instant at which it began: entries may be this much out of order, and never are.
_WAITED = timedelta(hours=1)


def storable(text: str) -> bool:
    """Whether both engines can hold it."""
    return "\x00" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)


def check(new: Operator) -> None:
    if not all(map(storable, (new.name, new.org_id, new.password))):
        raise InvalidInput("the name or the password has a character that cannot be stored")


def operator(row: Row, read: Reading) -> Operator:
    return Operator(
        name=row["name"],
        org_id=row["org_id"],
        role=Scope(row["role"]),
        password=row["password"],
        created_at=read.instant(row["created_at"]),
    )


def session(row: Row, read: Reading) -> Session:
    return Session(
        hash=row["hash"],
        org_id=row["org_id"],
        role=Scope(row["role"]),
        created_at=read.instant(row["created_at"]),
        expires_at=read.instant(row["expires_at"]),
        app_id=row["app_id"],
        operator=row["operator"],
        key_id=row["key_id"],
        key_name=row["key_name"],
        token=row["token"],
    )


# ── guesses ───────────────────────────────────────────────────────────────────────────────────────────────────────


def guesses(row: Row, read: Reading) -> Guesses:
    until = row["locked_until"]
    return Guesses(
        failures=row["failures"],
        since=read.instant(row["since"]),
        locked_until=None if until is None else read.instant(until),
    )


def locked(known: Mapping[bytes, Guesses], now: datetime) -> datetime | None:
    """Until when the longest lock of any of them holds."""
    ends = [each.locked_until for each in known.values() if each.locked_until is not None]
    return max((end for end in ends if end > now), default=None)


def counted(rules: Mapping[bytes, Lock], known: Mapping[bytes, Guesses], now: datetime) -> dict[bytes, Guesses]:
    """Each of them with one guess more."""
    return {subject: lock(known.get(subject), now) for subject, lock in rules.items()}


# ── audit ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def audit(row: Row, read: Reading) -> AuditEntry:
    return AuditEntry(
        id=row["id"],
        at=read.instant(row["at"]),
        org_id=row["org_id"],
        actor=Actor(kind=ActorKind(row["actor"]), name=row["actor_name"]),
        action=row["action"],
        subject=row["subject"],
        app_id=row["app_id"],
        detail=row["detail"],
        address=row["address"],
    )


def audited(entry: NewAuditEntry) -> dict[str, str | None]:
    """Its columns. It is about something that is done: that must be written whatever its texts are."""
    name = entry.actor.name
    return {
        "org_id": entry.org_id,
        "app_id": entry.app_id,
        "actor": entry.actor.kind.value,
        "actor_name": None if name is None else _clean(name, MAX_NAME),
        "action": _clean(entry.action, MAX_NAME),
        "subject": _clean(entry.subject, MAX_NAME),
        "detail": _clean(entry.detail, MAX_TEXT),
        "address": _clean(entry.address, MAX_NAME),
    }


def _clean(text: str, most: int) -> str:
    whole = text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")
    return whole if len(whole) <= most else whole[: most - 1] + "…"


class Span(Struct, frozen=True):
    """From where to where a walk goes, both not part of it."""

    near: int
    far: int


def rare(where: AuditFilter) -> bool:
    """It may match so rarely that the walk must have an end."""
    return any(each is not None for each in (where.app_id, where.action, where.actor, where.subject))


def impossible(where: AuditFilter) -> bool:
    """Nothing can match, as nothing like it can be stored."""
    given = (where.org_id, where.app_id, where.action, where.actor, where.subject)
    return not all(storable(text) for text in given if text is not None)


def since(where: AuditFilter) -> datetime | None:
    """No entry that matches has a smaller number than one before this."""
    return None if where.since is None else where.since - _WAITED


def until(where: AuditFilter) -> datetime | None:
    """No entry that matches has a greater number than one from here on."""
    return None if where.until is None else where.until + _WAITED


def span(page: Page, oldest: int | None, newest: int | None) -> Span:
    """Between these entries; from the iterator."""
    low, high = oldest or 0, newest or LAST_NUMBER
    start = after_number(page.iterator)
    if page.backwards:
        return Span(max(low, start or 0), high)
    return Span(high if start is None else min(high, start), low)


def ends(whole: Span, page: Page, end: int | None) -> Span:
    """As far as that entry, which is part of it."""
    if end is None:
        return whole
    return Span(whole.near, end + 1 if page.backwards else end - 1)
