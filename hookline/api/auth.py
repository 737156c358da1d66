"""Who is calling, and what they may touch. Every handler starts here, so that tenants stay apart on every route."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Generic, TypeVar

from msgspec import Struct

from hookline import tokens
from hookline.api.errors import Refused
from hookline.errors import NotFound, SignatureError
from hookline.model import Application, Organization
from hookline.store.base import Store

# A revoked token or a renamed uid is noticed after this long; without it each message would cost two more round trips.
REMEMBERED = 2.0
MOST_REMEMBERED = 10_000

K = TypeVar("K")
V = TypeVar("V")


class Caller(Struct, frozen=True, kw_only=True):
    org_id: str
    app: Application | None = None  # the only one that this token reaches


class Recent(Generic[K, V]):
    """What was looked up within the last moments. Only finds are kept, never absences."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._kept: dict[K, tuple[float, V]] = {}

    def get(self, key: K) -> V | None:
        kept = self._kept.get(key)
        if kept is None or kept[0] < self._monotonic():
            return None
        return kept[1]

    def put(self, key: K, value: V) -> None:
        if len(self._kept) >= MOST_REMEMBERED:
            self._kept.clear()
        self._kept[key] = (self._monotonic() + REMEMBERED, value)

    def drop(self, key: K) -> None:
        self._kept.pop(key, None)


class Auth:
    """Reads tokens and finds what they name. One per process."""

    def __init__(
        self, store: Store, secret: str, *, wall: Callable[[], datetime], monotonic: Callable[[], float]
    ) -> None:
        self._store = store
        self._secret = secret
        self._wall = wall
        self._callers: Recent[str, Caller] = Recent(monotonic)
        self._apps: Recent[tuple[str, str], Application] = Recent(monotonic)

    async def caller(self, authorization: str | None) -> Caller:
        """From the `Authorization` header."""
        kind, _, token = (authorization or "").partition(" ")
        if kind.lower() != "bearer" or not token:
            raise Refused(401, "give a token: `Authorization: Bearer ...` (hookline token makes one)")
        return await self.holder(token.strip())

    async def holder(self, token: str) -> Caller:
        known = self._callers.get(token)
        if known is None:
            known = await self._look_up(token)
            self._callers.put(token, known)
        return known

    async def _look_up(self, token: str) -> Caller:
        grant = tokens.read(self._secret, token, self._wall())
        org = await self._store.organization(grant.org_id)
        if org is None:
            raise SignatureError("the token's organization does not exist")
        _check_issued(grant.issued_at, org)
        if grant.app_id is None:
            return Caller(org_id=org.id)
        app = await self._store.application(org.id, grant.app_id)
        if app is None:
            raise SignatureError("the token's application does not exist")
        _check_issued(grant.issued_at, app)
        return Caller(org_id=org.id, app=app)

    def whole_organization(self, caller: Caller) -> None:
        """For routes beyond one application."""
        if caller.app is not None:
            raise Refused(403, "this token is for one application only")

    async def application(self, caller: Caller, ref: str) -> Application:
        """The application that a route names, if this caller may reach it. Another's looks like none."""
        if caller.app is not None:
            if ref not in (caller.app.id, caller.app.uid):
                raise NotFound(f"no application {ref!r}")
            return caller.app
        key = (caller.org_id, ref)
        known = self._apps.get(key)
        if known is None:
            known = await self._store.application(caller.org_id, ref)
            if known is None:
                raise NotFound(f"no application {ref!r}")
            self._apps.put(key, known)
        return known

    def forget(self, caller: Caller, ref: str) -> None:
        """The application turned out to be gone."""
        self._apps.drop((caller.org_id, ref))


def _check_issued(issued_at: datetime, holder: Organization | Application) -> None:
    if holder.tokens_valid_after is not None and issued_at < holder.tokens_valid_after:
        raise SignatureError("this token was revoked")
