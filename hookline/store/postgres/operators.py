"""Operators, their sessions, guesses and the audit log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from hookline.errors import Conflict, InvalidInput, NotFound
from hookline.model import Scope
from hookline.model.audit import AuditEntry, AuditFilter, NewAuditEntry
from hookline.model.operators import Guesses, Lock, NewSession, Operator, Session
from hookline.store import listing
from hookline.store import operators as shared
from hookline.store.postgres.base import READ, Part
from hookline.store.postgres.database import DATA_ERRORS, Connection
from hookline.store.protocols import IDLE, Page, Walk


class Operators(Part):
    # ── operators ──

    async def create_operator(self, new: Operator) -> Operator:
        shared.check(new)
        row = await self._db.fetchrow("operator_insert", new.name, new.org_id, new.role.value, new.password)
        if row is not None:
            return shared.operator(row, READ)
        if await self._db.fetchrow("organization", new.org_id) is None:
            raise NotFound("no such organization")
        raise Conflict(f"there is an operator {new.name!r} already")

    async def operator(self, name: str) -> Operator | None:
        row = await self._db.fetchrow("operator", name) if shared.storable(name) else None
        return None if row is None else shared.operator(row, READ)

    async def operators(self, org_id: str | None, page: Page) -> list[Operator]:
        name = "operators_back" if page.backwards else "operators"
        found = await self._db.fetch(name, org_id, page.iterator or "", page.limit)
        return [shared.operator(row, READ) for row in (reversed(found) if page.backwards else found)]

    async def change_operator(self, name: str, *, role: Scope | None = None, password: str | None = None) -> Operator:
        async def work(connection: Connection) -> Operator:
            given = (None if role is None else role.value, password)
            row = await connection.fetchrow(self._sql["operator_change"], name, *given)
            if row is None:
                raise NotFound(f"no operator {name!r}")
            if password is not None:
                await connection.execute(self._sql["sessions_end"], name)
            return shared.operator(row, READ)

        return await self._db.transact(work, calm=True)

    async def delete_operator(self, name: str) -> None:
        async def work(connection: Connection) -> None:
            if await connection.fetchval(self._sql["operator_delete"], name) is None:
                raise NotFound(f"no operator {name!r}")
            await connection.execute(self._sql["sessions_end"], name)

        await self._db.transact(work, calm=True)

    # ── sessions ──

    async def add_session(self, new: NewSession) -> None:
        values = (new.hash, new.org_id, new.app_no, new.role.value, new.operator, new.key_id, new.token)

        async def work(connection: Connection) -> None:
            if new.password is not None:
                checked = (new.operator, new.org_id, new.password)
                if await connection.fetchval(self._sql["operator_password_is"], *checked) is None:
                    raise NotFound("the operator is gone, or has another password by now")
            await connection.execute(self._sql["session_insert"], *values, new.token_issued_at, new.lifetime)

        try:
            await self._db.transact(work, calm=True)
        except DATA_ERRORS as error:
            raise InvalidInput(f"a value cannot be stored: {error}") from error

    async def session(self, hashed: bytes) -> Session | None:
        row = await self._db.fetchrow("session", hashed, IDLE)
        return None if row is None else shared.session(row, READ)

    async def touch_session(self, hashed: bytes) -> None:
        await self._db.execute("session_touch", hashed)

    async def end_session(self, hashed: bytes) -> None:
        await self._db.execute("session_end", hashed)

    async def end_sessions(self, operator: str) -> int:
        ended: int = await self._db.fetchval("sessions_end", operator)
        return ended

    # ── guesses ──

    async def take_guess(self, rules: Mapping[bytes, Lock]) -> datetime | None:
        """First without a lock: who guesses on although they are locked out must cost little, and write nothing."""
        until: datetime | None = await self._db.fetchval("guesses_locked", list(rules))
        if until is not None:
            return until

        async def work(connection: Connection) -> datetime | None:
            held = await connection.fetch(self._sql["guesses_hold"], list(rules))
            now = max(row["now"] for row in held)
            known = {row["subject"]: shared.guesses(row, READ) for row in held if row["failures"]}
            until = shared.locked(known, now)
            if until is None:
                await self._save_guesses(connection, shared.counted(rules, known, now))
            return until

        return await self._db.transact(work, calm=True)

    async def _save_guesses(self, connection: Connection, counted: dict[bytes, Guesses]) -> None:
        await connection.execute(
            self._sql["guesses_save"],
            list(counted),
            [each.failures for each in counted.values()],
            [each.since for each in counted.values()],
            [each.locked_until for each in counted.values()],
        )

    async def forgive(self, subjects: Sequence[bytes]) -> None:
        async def work(connection: Connection) -> None:
            await connection.execute(self._sql["guesses_forgive"], subjects)

        await self._db.alone(work, calm=True)

    # ── audit ──

    async def add_audit(self, entries: Sequence[NewAuditEntry]) -> None:
        if entries:
            written = [tuple(shared.audited(entry).values()) for entry in entries]
            await self._db.execute("audit_add", *map(list, zip(*written, strict=True)))

    async def audit_log(self, where: AuditFilter, page: Page) -> Walk[AuditEntry]:
        if shared.impossible(where):
            return Walk(rows=[])
        oldest = None if (at := shared.since(where)) is None else await self._db.fetchval("audit_far", at)
        newest = None if (at := shared.until(where)) is None else await self._db.fetchval("audit_near", at)
        whole = shared.span(page, oldest, newest)
        end = await self._audit_end(where, whole, page) if shared.rare(where) else None
        span = shared.ends(whole, page, end)
        found = await self._db.fetch(
            "audit_log_back" if page.backwards else "audit_log",
            *(where.org_id, span.near, span.far, page.limit),
            *(where.app_id, where.action, where.actor, where.subject, where.since, where.until),
        )
        return listing.walked([shared.audit(row, READ) for row in found], page, None if end is None else str(end))

    async def _audit_end(self, where: AuditFilter, span: shared.Span, page: Page) -> int | None:
        name = "audit_end_back" if page.backwards else "audit_end"
        end: int | None = await self._db.fetchval(name, where.org_id, span.near, span.far, listing.STRIDE)
        return end
