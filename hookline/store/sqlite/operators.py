"""Operators, their sessions, guesses and the audit log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from hookline.errors import Conflict, NotFound
from hookline.model import Scope
from hookline.model.audit import AuditEntry, AuditFilter, NewAuditEntry
from hookline.model.operators import Guesses, Lock, NewSession, Operator, Session
from hookline.store import listing
from hookline.store import operators as shared
from hookline.store.protocols import IDLE, Page, Walk
from hookline.store.sqlite.base import Base
from hookline.store.sqlite.catalogue import organization
from hookline.store.sqlite.clock import to_micros
from hookline.store.sqlite.paging import by_text
from hookline.store.sqlite.transaction import READ, Tx

_SECOND = 1_000_000


class Operators(Base):
    async def create_operator(self, new: Operator) -> Operator:
        shared.check(new)
        return await self._write(_create_operator, new)

    async def operator(self, name: str) -> Operator | None:
        return await self._read(_operator, name) if shared.storable(name) else None

    async def operators(self, org_id: str | None, page: Page) -> list[Operator]:
        return await self._read(_operators, org_id, page)

    async def change_operator(self, name: str, *, role: Scope | None = None, password: str | None = None) -> Operator:
        return await self._write(_change_operator, name, role, password)

    async def delete_operator(self, name: str) -> None:
        await self._write(_delete_operator, name)

    async def add_session(self, new: NewSession) -> None:
        await self._write(_add_session, new)

    async def session(self, hashed: bytes) -> Session | None:
        return await self._read(_session, hashed)

    async def touch_session(self, hashed: bytes) -> None:
        await self._write(_touch_session, hashed)

    async def end_session(self, hashed: bytes) -> None:
        await self._write(_end_session, hashed)

    async def end_sessions(self, operator: str) -> int:
        return await self._write(_end_sessions, operator)

    async def take_guess(self, rules: Mapping[bytes, Lock]) -> datetime | None:
        return await self._write(_take_guess, rules)

    async def forgive(self, subjects: Sequence[bytes]) -> None:
        await self._write(_forgive, subjects)

    async def add_audit(self, entries: Sequence[NewAuditEntry]) -> None:
        if entries:
            await self._write(_add_audit, entries)

    async def audit_log(self, where: AuditFilter, page: Page) -> Walk[AuditEntry]:
        return Walk(rows=[]) if shared.impossible(where) else await self._read(_audit_log, where, page)


# ── operators ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _create_operator(tx: Tx, new: Operator) -> Operator:
    if organization(tx, new.org_id) is None:
        raise NotFound("no such organization")
    params = {"name": new.name, "org_id": new.org_id, "role": new.role.value, "password": new.password, "now": tx.now}
    if not tx.run("operator_insert", params):
        raise Conflict(f"there is an operator {new.name!r} already")
    return _known_operator(tx, new.name)


def _operator(tx: Tx, name: str) -> Operator | None:
    row = tx.row("operator", (name,))
    return None if row is None else shared.operator(row, READ)


def _known_operator(tx: Tx, name: str) -> Operator:
    found = _operator(tx, name)
    if found is None:
        raise NotFound(f"no operator {name!r}")
    return found


def _operators(tx: Tx, org_id: str | None, page: Page) -> list[Operator]:
    return [shared.operator(row, READ) for row in by_text(tx, "operators", org_id, page)]


def _change_operator(tx: Tx, name: str, role: Scope | None, password: str | None) -> Operator:
    if role is not None:
        tx.run("operator_role", {"name": name, "role": role.value})
    if password is not None:
        tx.run("operator_password", {"name": name, "password": password, "now": tx.now})
        tx.run("sessions_end", (name,))
    return _known_operator(tx, name)


def _delete_operator(tx: Tx, name: str) -> None:
    if not tx.run("operator_delete", (name,)):
        raise NotFound(f"no operator {name!r}")
    tx.run("sessions_end", (name,))


# ── sessions ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _add_session(tx: Tx, new: NewSession) -> None:
    params = {
        "hash": new.hash,
        "org_id": new.org_id,
        "app_no": new.app_no,
        "role": new.role.value,
        "operator": new.operator,
        "password": new.password,
        "key_id": new.key_id,
        "token": new.token,
        "token_issued_at": None if new.token_issued_at is None else to_micros(new.token_issued_at),
        "now": tx.now,
        "expires_at": tx.now + round(new.lifetime * _SECOND),
    }
    if new.password is not None and tx.row("operator_password_is", params) is None:
        raise NotFound("the operator is gone, or has another password by now")
    tx.run("session_insert", params)


def _session(tx: Tx, hashed: bytes) -> Session | None:
    row = tx.row("session", {"hash": hashed, "now": tx.now, "idle": tx.now - round(IDLE * _SECOND)})
    return None if row is None else shared.session(row, READ)


def _touch_session(tx: Tx, hashed: bytes) -> None:
    tx.run("session_touch", {"hash": hashed, "now": tx.now})


def _end_session(tx: Tx, hashed: bytes) -> None:
    tx.run("session_end", (hashed,))


def _end_sessions(tx: Tx, operator: str) -> int:
    return tx.run("sessions_end", (operator,))


# ── guesses ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _take_guess(tx: Tx, rules: Mapping[bytes, Lock]) -> datetime | None:
    known: dict[bytes, Guesses] = {}
    for subject in rules:
        row = tx.row("guesses", (subject,))
        if row is not None:
            known[subject] = shared.guesses(row, READ)
    until = shared.locked(known, tx.at)
    if until is None:
        counted = shared.counted(rules, known, tx.at)
        tx.many("guess_save", [_guessed(tx, subject, guesses) for subject, guesses in counted.items()])
    return until


def _guessed(tx: Tx, subject: bytes, guesses: Guesses) -> dict[str, Any]:
    return {
        "subject": subject,
        "failures": guesses.failures,
        "since": to_micros(guesses.since),
        "now": tx.now,
        "locked_until": None if guesses.locked_until is None else to_micros(guesses.locked_until),
    }


def _forgive(tx: Tx, subjects: Sequence[bytes]) -> None:
    tx.many("guess_forgive", [(subject,) for subject in subjects])


# ── audit ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _add_audit(tx: Tx, entries: Sequence[NewAuditEntry]) -> None:
    tx.many("audit_add", [{**shared.audited(entry), "now": tx.now} for entry in entries])


def _audit_log(tx: Tx, where: AuditFilter, page: Page) -> Walk[AuditEntry]:
    oldest = None if (at := shared.since(where)) is None else tx.value("audit_far", (to_micros(at),))
    newest = None if (at := shared.until(where)) is None else tx.value("audit_near", (to_micros(at),))
    whole = shared.span(page, oldest, newest)
    end = _end(tx, where, whole, page) if shared.rare(where) else None
    span = shared.ends(whole, page, end)
    params = {
        "org_id": where.org_id,
        "near": span.near,
        "far": span.far,
        "limit": page.limit,
        "app_id": where.app_id,
        "action": where.action,
        "by": where.actor,
        "subject": where.subject,
        "since": None if where.since is None else to_micros(where.since),
        "until": None if where.until is None else to_micros(where.until),
    }
    found = tx.rows("audit_log_back" if page.backwards else "audit_log", params)
    return listing.walked([shared.audit(row, READ) for row in found], page, None if end is None else str(end))


def _end(tx: Tx, where: AuditFilter, span: shared.Span, page: Page) -> int | None:
    params = {"org_id": where.org_id, "near": span.near, "far": span.far, "stride": listing.STRIDE}
    end: int | None = tx.value("audit_end_back" if page.backwards else "audit_end", params)
    return end
