"""Who may call, and what they did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from hookline.model import ApiKey, KeptAnswer, NewApiKey, Scope
from hookline.model.audit import AuditEntry, AuditFilter, NewAuditEntry, Note
from hookline.model.operators import Lock, NewSession, Operator, Session
from hookline.store.protocols.pages import Page, Walk


class ApiKeys(Protocol):
    """API keys and tokens."""

    async def create_api_key(self, org_id: str, new: NewApiKey, *, note: Note[ApiKey] | None = None) -> ApiKey:
        """`NotFound` if the organization, or its application, does not exist."""

    async def api_key(self, org_id: str, key_id: str) -> ApiKey | None:
        """None if it was revoked."""

    async def api_keys(self, org_id: str, page: Page) -> list[ApiKey]:
        """By id, without those that were revoked."""

    async def api_key_by_hash(self, hashed: bytes) -> ApiKey | None:
        """For whoever presents it: None if it was revoked, or its application was deleted. It may have expired."""

    async def revoke_api_key(self, org_id: str, key_id: str, *, note: Note[None] | None = None) -> None:
        """For good. `NotFound` if there is none, or it was revoked before."""

    async def touch_api_key(self, key_id: str) -> None:
        """It was used now; written at most once a minute."""

    async def revoke_token(self, hashed: bytes, until: datetime, *, note: Note[bool] | None = None) -> bool:
        """This one token is void; remembered until then. False: it was before. Of several callers at once, one gets True."""

    async def token_revoked(self, hashed: bytes) -> bool: ...


class KeptAnswers(Protocol):
    """Answers of the API that are kept under an idempotency key."""

    async def hold_answer(self, key: bytes, request: bytes, seconds: float) -> KeptAnswer:
        """Take the key for a request, under a lease; or see who has it.

        A key is free if nobody had it within the window, or if whoever had it for the same request let the lease lapse.
        """

    async def answer(self, key: bytes) -> KeptAnswer | None:
        """None: it is free. Changes nothing."""

    async def renew_answer(self, key: bytes, claim: int, seconds: float) -> bool:
        """Hold it for longer; False: the lease was lost."""

    async def keep_answer(self, key: bytes, claim: int, status: int, response: bytes) -> bool:
        """The answer, sealed, for as long as keys are remembered; False: the lease was lost, and nothing was kept."""

    async def drop_answer(self, key: bytes, claim: int) -> None:
        """Nothing came of it: the key is free again."""


class Operators(Protocol):
    """Operators, their sessions, guesses and the audit log."""

    async def create_operator(self, new: Operator, *, note: Note[Operator] | None = None) -> Operator:
        """`Conflict` if the name is taken, `NotFound` if the organization does not exist. `created_at` is the database's."""

    async def operator(self, name: str) -> Operator | None: ...
    async def operators(self, org_id: str | None, page: Page) -> list[Operator]:
        """By name, which is the iterator; of every organization, without one."""

    async def change_operator(
        self, name: str, *, role: Scope | None = None, password: str | None = None, note: Note[Operator] | None = None
    ) -> Operator:
        """A new password ends the sessions that were begun with the old one. `NotFound` if there is no such operator."""

    async def delete_operator(self, name: str, *, note: Note[None] | None = None) -> None:
        """With their sessions. `NotFound` if there is none."""

    async def add_session(self, new: NewSession, *, note: Note[None] | None = None) -> None:
        """`NotFound` if a password is given and the operator is gone, or has another by now."""

    async def session(self, hashed: bytes) -> Session | None:
        """None: over, or unknown, or not seen for `IDLE` seconds; or whoever began it is gone (the operator, the API key that was
        revoked or has expired, the token that was revoked in any way, the application). Changes nothing."""

    async def touch_session(self, hashed: bytes) -> None:
        """It was seen now; written at most once a minute."""

    async def end_session(self, hashed: bytes, *, note: Note[None] | None = None) -> None: ...
    async def end_sessions(self, operator: str, *, note: Note[int] | None = None) -> int:
        """All of theirs, everywhere; how many."""

    async def take_guess(self, rules: Mapping[bytes, Lock]) -> datetime | None:
        """Count a guess against each subject before it is looked at, so that many at a time are not free.

        Until when one of them is locked, the longest: then nothing was counted, and the guess must not be looked at. Each
        has a rule of its own, which must be pure.
        """

    async def forgive(self, subjects: Sequence[bytes]) -> None:
        """The guess was right: they are forgotten."""

    async def add_audit(self, entries: Sequence[NewAuditEntry]) -> None:
        """Whatever their texts are: too long ones are cut, and what cannot be stored is replaced."""

    async def audit_log(self, where: AuditFilter, page: Page) -> Walk[AuditEntry]:
        """Newest first; the iterator is a number."""
