"""Protocols for authentication and for the audit log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from hookline.model import ApiKey, KeptAnswer, NewApiKey, Scope
from hookline.model.audit import AuditEntry, AuditFilter, NewAuditEntry, Note
from hookline.model.operators import Lock, NewSession, Operator, Session
from hookline.store.protocols.pages import Page, Walk


class ApiKeys(Protocol):
    """Create, find and revoke API keys and tokens."""

    async def create_api_key(self, org_id: str, new: NewApiKey, *, note: Note[ApiKey] | None = None) -> ApiKey:
        """Create an API key. Raises `NotFound` if the organization or the key's application does not exist."""

    async def api_key(self, org_id: str, key_id: str) -> ApiKey | None:
        """Return the API key, or None if it does not exist or was revoked."""

    async def api_keys(self, org_id: str, page: Page) -> list[ApiKey]:
        """Return a page of API keys that were not revoked, ordered by id."""

    async def api_key_by_hash(self, hashed: bytes) -> ApiKey | None:
        """Return the API key with this hash. None: it does not exist, it was revoked, or its application was deleted.
        The key may have expired: the caller must check."""

    async def revoke_api_key(self, org_id: str, key_id: str, *, note: Note[None] | None = None) -> None:
        """Revoke the key permanently. Raises `NotFound` if it does not exist or was already revoked."""

    async def touch_api_key(self, key_id: str) -> None:
        """Set the key's last use to now. The value is written at most once a minute."""

    async def revoke_token(self, hashed: bytes, until: datetime, *, note: Note[bool] | None = None) -> bool:
        """Revoke one token and remember this until the given instant. Return False if it was already revoked. If
        several callers revoke it at once, only one gets True."""

    async def revoke_tokens(
        self, org_id: str, app_no: int | None, before: datetime, *, note: Note[None] | None = None
    ) -> None:
        """Revoke all tokens of the organization, or of one application, that were issued before an instant. Raises
        `NotFound` if the organization or application does not exist."""

    async def token_revoked(self, hashed: bytes) -> bool: ...


class KeptAnswers(Protocol):
    """Store API responses under an idempotency key, so that a repeated request gets the same response."""

    async def hold_answer(self, key: bytes, request: bytes, seconds: float) -> KeptAnswer:
        """Lease the key for a request, or return the request that has it.

        A key is free if no request used it within the idempotency window, or if the same request used it and its lease
        expired.
        """

    async def answer(self, key: bytes) -> KeptAnswer | None:
        """Return the response that is stored under the key, or None if the key is free. Changes nothing."""

    async def renew_answer(self, key: bytes, claim: int, seconds: float) -> bool:
        """Extend the lease on the key. Return False if the lease was lost."""

    async def keep_answer(self, key: bytes, claim: int, status: int, response: bytes) -> bool:
        """Store the response, encrypted, for the idempotency window. Return False, and store nothing, if the lease was
        lost."""

    async def drop_answer(self, key: bytes, claim: int) -> None:
        """Free the key without storing a response."""


class Operators(Protocol):
    """Store dashboard operators, their sessions, failed logins and the audit log."""

    async def create_operator(self, new: Operator, *, note: Note[Operator] | None = None) -> Operator:
        """Create an operator; the database sets `created_at`. Raises `Conflict` if the name is taken, `NotFound` if the
        organization does not exist."""

    async def operator(self, name: str) -> Operator | None: ...
    async def operators(self, org_id: str | None, page: Page) -> list[Operator]:
        """Return a page of operators ordered by name; the iterator is a name. Without `org_id`, the operators of all
        organizations."""

    async def change_operator(
        self, name: str, *, role: Scope | None = None, password: str | None = None, note: Note[Operator] | None = None
    ) -> Operator:
        """Change the role or the password. A new password ends all sessions that began with the old one. Raises
        `NotFound` if there is no such operator."""

    async def delete_operator(self, name: str, *, note: Note[None] | None = None) -> None:
        """Delete the operator and all of the operator's sessions. Raises `NotFound` if there is no such operator."""

    async def add_session(self, new: NewSession, *, note: Note[None] | None = None) -> None:
        """Store a session. Raises `NotFound` if a password hash is given and the operator was deleted or has another
        password now."""

    async def session(self, hashed: bytes) -> Session | None:
        """Return the session. None: it ended, is unknown, was idle for `IDLE` seconds, or its owner is no longer valid
        (deleted operator, revoked or expired API key, revoked token, deleted application). Changes nothing."""

    async def touch_session(self, hashed: bytes) -> None:
        """Set the session's last use to now. The value is written at most once a minute."""

    async def end_session(self, hashed: bytes, *, note: Note[None] | None = None) -> None: ...
    async def end_sessions(self, operator: str, *, note: Note[int] | None = None) -> int:
        """End all sessions of the operator and return their number."""

    async def take_guess(self, rules: Mapping[bytes, Lock]) -> datetime | None:
        """Count a login attempt against each subject before the password is checked. Otherwise parallel attempts would
        bypass the limit.

        If a subject is locked, count nothing and return the end of the longest lock: the caller must not check the
        password. Each subject has its own rule, which must be a pure function.
        """

    async def forgive(self, subjects: Sequence[bytes]) -> None:
        """Forget the failed logins of these subjects after a correct password."""

    async def add_audit(self, entries: Sequence[NewAuditEntry]) -> None:
        """Write entries to the audit log. Long texts are truncated and characters that the database cannot store are
        replaced."""

    async def audit_log(self, where: AuditFilter, page: Page) -> Walk[AuditEntry]:
        """Return a page of audit entries, newest first; the iterator is an entry's number."""
