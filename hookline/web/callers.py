"""Authentication: find the caller of a request, and check what they may do.

These checks keep tenants apart on every route.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Hashable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Generic, TypeVar

import structlog

from hookline import ids
from hookline.errors import NoSuch, SignatureError, StoreUnavailable
from hookline.model.actors import Actor, ActorKind, Scope
from hookline.model.callers import Caller
from hookline.model.catalogue import Application, Organization
from hookline.model.fill import fill
from hookline.security import api_keys, tokens
from hookline.security.tokens import Grant
from hookline.store import Store
from hookline.web.errors import Refused

# Seconds that a lookup stays in the cache. Other processes notice a revoked token or a changed uid within this time.
# Without the cache, each message would cost two more round trips to the database.
REMEMBERED = 2.0
MAX_REMEMBERED = 10_000
TOUCHED = 60.0  # seconds between two updates of a key's last use

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

log = structlog.get_logger(__name__)

_MAY = {Scope.FULL: "do everything", Scope.PUBLISH: "only publish messages", Scope.READ: "only read"}

_NO_MESSAGES = (
    "a portal's token cannot create messages: use an API key, `hookline token --app`, or a portal link with the capability "
    "CreateMessages"
)


class RecentCache(Generic[K, V]):
    """A cache of recent lookups that found an object. Failed lookups are not cached."""

    def __init__(self, monotonic: Callable[[], float], seconds: float = REMEMBERED) -> None:
        self._monotonic = monotonic
        self._seconds = seconds
        self._kept: dict[K, tuple[float, V]] = {}

    def get(self, key: K) -> V | None:
        kept = self._kept.get(key)
        if kept is None or kept[0] < self._monotonic():
            return None
        return kept[1]

    def put(self, key: K, value: V) -> None:
        if len(self._kept) >= MAX_REMEMBERED:
            self._kept.clear()
        self._kept[key] = (self._monotonic() + self._seconds, value)

    def drop(self, key: K) -> None:
        self._kept.pop(key, None)

    def drop_where(self, gone: Callable[[V], bool]) -> None:
        self._kept = {key: kept for key, kept in self._kept.items() if not gone(kept[1])}


class LastUses:
    """Stores when each API key was last used, and when each older secret last verified a token.

    It stores a use at most once in `TOUCHED` seconds, and in the background, so that no request waits.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._noted: RecentCache[str, bool] = RecentCache(monotonic, TOUCHED)
        self._tasks: set[asyncio.Task[None]] = set()

    def note(self, name: str, write: Callable[[], Awaitable[None]], failed: Callable[[str], None]) -> None:
        """Call `write`, unless it was called for this `name` recently. If the store is not available,
        call `failed` with the error."""
        if self._noted.get(name):
            return
        self._noted.put(name, True)
        task = asyncio.create_task(self._write(name, write, failed))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _write(self, name: str, write: Callable[[], Awaitable[None]], failed: Callable[[str], None]) -> None:
        try:
            await write()
        except StoreUnavailable as error:
            self._noted.drop(name)
            failed(str(error))


class Authenticator:
    """Finds the organization and application of a token or an API key. A process has one instance."""

    def __init__(
        self,
        store: Store,
        secret: str,
        *,
        older: Sequence[str] = (),
        wall: Callable[[], datetime],
        monotonic: Callable[[], float],
    ) -> None:
        """`secret` signs new tokens. Tokens signed with an older secret are still valid."""
        self._store = store
        self._secret = secret
        self._secrets = (secret, *older)
        self._wall = wall
        self._callers: RecentCache[str, Caller] = RecentCache(monotonic)
        self._apps: RecentCache[tuple[str, str], Application] = RecentCache(monotonic)
        self._uses = LastUses(monotonic)

    async def caller(self, authorization: bytes) -> Caller:
        """Return the caller that the `Authorization` header names."""
        kind, _, token = authorization.decode("latin-1").partition(" ")
        if kind.lower() != "bearer" or not token:
            raise Refused(401, "give a token: `Authorization: Bearer ...`; `hookline token` makes one")
        return await self.holder(token.strip())

    async def holder(self, token: str) -> Caller:
        """Return the holder of a token or an API key."""
        known = self._callers.get(token)
        if known is None:
            known = await (self._of_key(token) if token.startswith(api_keys.PREFIX) else self._of_token(token))
            self._callers.put(token, known)
        return known

    async def _of_token(self, token: str) -> Caller:
        grant, secret = tokens.read_any(self._secrets, token, self._wall())
        hashed = tokens.hashed(token)
        org = await self._organization(grant)
        if await self._store.access.token_revoked(hashed):
            raise SignatureError("this token was revoked")
        app = await self._only_application(org.id, grant.app_id, "the token's")
        if app is not None:
            _check_issued(grant.issued_at, app)
        if secret != self._secret:
            older = tokens.secret_id(secret)
            self._note_use(older.hex(), partial(self._store.access.secret_seen, older))
        actor = Actor(kind=ActorKind.TOKEN if app is None else ActorKind.APPLICATION_TOKEN)
        return fill(Caller, grant, org_id=org.id, actor=actor, app=app, token=hashed)

    async def _organization(self, grant: Grant) -> Organization:
        org = await self._store.catalogue.organization(grant.org_id)
        if org is None:
            raise SignatureError("the token's organization does not exist")
        _check_issued(grant.issued_at, org)
        return org

    async def enter(self, link: str) -> Caller:
        """Use a sign-in link, which works once.

        The link is never cached, because only the store knows whether it was used.
        """
        grant = tokens.read_link(self._secrets, link, self._wall())
        org = await self._organization(grant)
        used = tokens.hashed(link)
        # Store the used link for a day longer than its lifetime, because the clock of the database may be ahead.
        if not await self._store.access.revoke_token(used, grant.expires_at + timedelta(days=1)):
            raise SignatureError("this link was used before; `hookline token --link` prints another")
        # The session needs a hash of its own, because the hash of the link is now revoked.
        return Caller(
            org_id=org.id,
            actor=Actor(kind=ActorKind.TOKEN),
            token=hashlib.sha256(used).digest(),
            issued_at=grant.issued_at,
        )

    async def _of_key(self, text: str) -> Caller:
        found = await self._store.access.api_key_by_hash(api_keys.hashed(api_keys.check(text)))
        if found is None:
            raise SignatureError("the API key does not exist, or was revoked")
        if found.expires_at is not None and found.expires_at <= self._wall():
            raise SignatureError("the API key has expired")
        app = await self._only_application(found.org_id, found.app_id, "the API key's")
        self._note_use(found.id, partial(self._store.access.touch_api_key, found.id))
        actor = Actor(kind=ActorKind.KEY if app is None else ActorKind.APPLICATION_KEY, name=found.name)
        return fill(Caller, found, actor=actor, app=app, key_id=found.id)

    def _note_use(self, name: str, write: Callable[[], Awaitable[None]]) -> None:
        self._uses.note(name, write, lambda error: log.debug("key_use_not_noted", key=name, error=error))

    async def _only_application(self, org_id: str, app_id: str | None, whose: str) -> Application | None:
        """Return the application that a token or key is limited to, or None if it is for the whole organization."""
        found = None if app_id is None else await self._store.catalogue.application(org_id, app_id)
        if found is None and app_id is not None:
            raise SignatureError(f"{whose} application does not exist")
        return found

    # ── checks of what a caller may do ──

    def allow(self, caller: Caller, needs: str) -> None:
        """Refuse a caller whose scope does not allow the operation. The full scope allows every operation."""
        if caller.scope not in (Scope.FULL, needs):
            raise Refused(403, f"this token or key may {_MAY[caller.scope]}")
        if needs == Scope.PUBLISH and not caller.publishes:
            raise Refused(403, _NO_MESSAGES)

    def whole_organization(self, caller: Caller) -> None:
        """Refuse callers that are limited to one application."""
        if caller.app is not None:
            raise Refused(403, "this token is for one application only")

    def whole_deployment(self, caller: Caller) -> None:
        """Refuse callers of every organization except the default one, which belongs to the operators of the
        deployment."""
        if caller.org_id != ids.DEFAULT_ORG:
            raise Refused(403, "this is about the whole deployment: only its default organization may see it")

    def reach(self, caller: Caller, ref: str) -> None:
        """Raise `NoSuch` if the caller is limited to an application other than `ref`, even if `ref` exists."""
        if caller.app is not None and ref not in (caller.app.id, caller.app.uid):
            raise NoSuch("application", ref)

    async def application(self, caller: Caller, ref: str) -> Application:
        """Return the application that a route names. Raise `NoSuch` if the caller may not see it."""
        self.reach(caller, ref)
        if caller.app is not None:
            return caller.app
        key = (caller.org_id, ref)
        known = self._apps.get(key)
        if known is None:
            known = await self._store.catalogue.application(caller.org_id, ref)
            if known is None:
                raise NoSuch("application", ref)
            self._apps.put(key, known)
        return known

    def forget_application(self, app: Application) -> None:
        """Drop an application from the cache, because this process changed or deleted it."""
        self._apps.drop_where(lambda known: known.no == app.no)
        self._callers.drop_where(lambda known: known.app is not None and known.app.no == app.no)

    def forget_callers(self, gone: Callable[[Caller], bool]) -> None:
        """Drop callers from the cache, because this process revoked their token or key."""
        self._callers.drop_where(gone)


def _check_issued(issued_at: datetime, holder: Organization | Application) -> None:
    if holder.tokens_valid_after is not None and issued_at < holder.tokens_valid_after:
        raise SignatureError("this token was revoked")
