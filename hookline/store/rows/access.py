"""Rows of operators, sessions, failed logins and the audit log."""

from __future__ import annotations

from hookline.model import Actor, ActorKind
from hookline.model.audit import AuditEntry, NewAuditEntry
from hookline.model.operators import Guesses, Operator, Session
from hookline.store.rows.reading import Reading, Row, struct_of

MAX_NAME, MAX_TEXT = 300, 2_000  # maximum characters of a name and of a text in the audit log


def operator(row: Row, read: Reading) -> Operator:
    return struct_of(Operator, row, read)


def session(row: Row, read: Reading) -> Session:
    return struct_of(Session, row, read)


def guesses(row: Row, read: Reading) -> Guesses:
    return struct_of(Guesses, row, read)


def audit(row: Row, read: Reading) -> AuditEntry:
    return struct_of(AuditEntry, row, read, actor=Actor(kind=ActorKind(row["actor"]), name=row["actor_name"]))


def audit_columns(entry: NewAuditEntry) -> dict[str, str | None]:
    """Return the columns of an audit entry. Unsuitable text is cleaned, never refused: a change must not fail because
    of its audit entry."""
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


def _clean(text: str, limit: int) -> str:
    """Remove characters that the database cannot store, and truncate the text."""
    whole = text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")
    return whole if len(whole) <= limit else whole[: limit - 1] + "…"
