"""Whether somebody is who they say: by name and password, by an API key or a token, by the link of a portal."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections import Counter
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import datetime

import msgspec
import structlog
from msgspec import Struct

from hookline.errors import HooklineError, InvalidInput, SignatureError
from hookline.model import Application, Scope
from hookline.model.callers import Caller
from hookline.model.operators import operator_name
from hookline.security import lockout, passwords, tokens
from hookline.security.lockout import Subjects
from hookline.web.context import WebContext
from hookline.web.errors import Refused

LIFETIME = 7 * 86_400.0  # seconds of an operator's session; one that nobody uses ends sooner: `store.base.IDLE`
PORTAL_LIFETIME = 86_400.0  # likewise, of a customer's
MAX_CHECKED = 2  # passwords of strangers at a time: each takes 32 MiB and a core for a moment
MAX_KNOWN_CHECKED = 1  # likewise, from browsers that have a mark
MAX_WAITING = 300  # for each of these; beyond them, people are asked to come back ...
MAX_OF_ONE = 30  # that wait from one address, of IPv6: from one network
LONGEST_WAIT = 25.0  # ... and so are those who have waited for this many seconds: sooner than a proxy would give up
LONGEST_KEY = 4096
NO_PORTAL = "this opens the dashboard of operators, not a portal: sign in at /login"
BUSY = "too many people are signing in at this moment: try again in a few seconds"

log = structlog.get_logger(__name__)


class SignedIn(Struct, frozen=True, kw_only=True):
    """Somebody who may come in."""

    org_id: str
    role: Scope
    lifetime: float  # seconds
    app: Application | None = None
    operator: str | None = None
    password: str | None = None  # as it is kept: the session is not begun if it was changed meanwhile
    key_id: str | None = None
    key_name: str | None = None
    token: bytes | None = None
    token_issued_at: datetime | None = None


class Locked(HooklineError):
    """Too many guesses."""

    def __init__(self, until: datetime, now: datetime) -> None:
        super().__init__(f"too many tries: wait {lockout.wait(until, now)}, then try again")
        self.seconds = max(1, round((until - now).total_seconds()))


class PasswordThreads:
    """Passwords are checked in threads of their own, so many at a time. A request that finds too many others
    waiting, in all or from the same network, or that has waited for too long, is refused."""

    def __init__(self, at_once: int) -> None:
        self._free = asyncio.Semaphore(at_once)
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="passwords")
        self._waiting: Counter[str] = Counter()  # by network; only of those that have somebody waiting

    async def matches(self, password: str, kept: str | None) -> bool:
        """Within a turn."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, passwords.matches, password, kept)

    @asynccontextmanager
    async def taken(self, address: str) -> AsyncIterator[None]:
        await self._wait(lockout.network(address))
        try:
            yield
        finally:
            self._free.release()

    async def _wait(self, network: str) -> None:
        waiting = self._waiting
        if waiting[network] >= MAX_OF_ONE or waiting.total() >= MAX_WAITING:
            raise Refused(429, BUSY, retry_after=5)
        waiting[network] += 1
        try:
            async with asyncio.timeout(LONGEST_WAIT):
                await self._free.acquire()
        except TimeoutError:
            raise Refused(429, BUSY, retry_after=5) from None
        finally:
            waiting[network] -= 1
            if not waiting[network]:
                del waiting[network]


class SignIn:
    def __init__(self, services: WebContext) -> None:
        self._services = services
        self._store = services.store
        self._strangers, self._known = PasswordThreads(MAX_CHECKED), PasswordThreads(MAX_KNOWN_CHECKED)

    async def by_password(self, name: str, password: str, address: str, mark: str) -> SignedIn:
        """`SignatureError` in the same words and after the same time, whether the name or the password is wrong.

        `mark` is what the browser brings, if somebody has signed in from it before: see `lockout.mark`.
        """
        known = _canonical(name)
        found = await self._store.operator(known)
        kept = None if found is None else found.password
        pages = self._services.pages
        own = lockout.renewed(pages.keys, known, kept or "", mark)
        subjects = lockout.password(pages.key, known, address, own, kept or "")
        # Counted within the turn: a request that is sent away is no guess, and many right ones at once do not count together.
        turns = self._known if subjects.marked else self._strangers
        async with turns.taken(address):
            await self._take(subjects, address)
            right = await turns.matches(password, kept)
            if right:
                await self._store.forgive(subjects.forgiven)
        if not right or found is None:
            log.warning("sign_in_refused", address=address, operator=None if found is None else found.name)
            raise SignatureError("the name or the password is wrong")
        return SignedIn(
            org_id=found.org_id, role=found.role, lifetime=LIFETIME, operator=found.name, password=found.password
        )

    async def by_token(self, text: str, address: str) -> SignedIn:
        """A sign-in link, an API key, or a token of an organization or of one application. Nobody guesses one: whoever has a
        good one is let in, whatever others have tried from the same address."""
        auth = self._services.auth
        try:
            caller = await (auth.enter(text) if text.startswith(tokens.LINK_PREFIX) else auth.holder(text))
        except SignatureError:
            await self._take(lockout.token(self._services.pages.key, address), address)
            log.warning("sign_in_refused", address=address, operator=None)
            raise
        self._services.limits.take(caller)
        if caller.scope == Scope.PUBLISH:
            raise SignatureError("this key may only publish messages: it opens no page")
        return self._arrival(caller)

    def _arrival(self, caller: Caller) -> SignedIn:
        longest = LIFETIME if caller.app is None else PORTAL_LIFETIME
        if caller.expires_at is not None:
            longest = min(longest, (caller.expires_at - self._services.wall()).total_seconds())
        return SignedIn(
            org_id=caller.org_id,
            role=caller.scope,
            lifetime=longest,
            app=caller.app,
            key_id=caller.key_id,
            key_name=caller.actor.name,
            token=caller.token,
            token_issued_at=caller.issued_at,
        )

    async def _take(self, subjects: Subjects, address: str) -> None:
        until = await self._store.take_guess(subjects.rules)
        if until is not None:
            log.warning("sign_in_locked", address=address, until=until.isoformat())
            raise Locked(until, await self._store.now())


def _canonical(name: str) -> str:
    """One that no operator can have is looked up and counted like any other."""
    try:
        return operator_name(name)
    except InvalidInput:
        return name.strip().lower()[:200]


def linked(text: str) -> str:
    """The token in a portal's link, in its fragment alone, or as it is."""
    key = text.strip().rpartition("#")[2].removeprefix("key=").removeprefix("token=")
    if len(key) > LONGEST_KEY:
        raise SignatureError("this is no link of ours")
    if key.startswith(tokens.LINK_PREFIX):
        raise SignatureError(NO_PORTAL)
    if "." in key or key.startswith("hk_"):
        return key
    try:
        raw = b64decode(key.encode() + b"=" * (-len(key) % 4), altchars=b"-_", validate=True)
        return msgspec.json.decode(raw, type=_Link).token
    except (ValueError, msgspec.MsgspecError, RecursionError):
        raise SignatureError("the link is cut short, or is none of ours: copy it again, all of it") from None


class _Link(Struct):
    token: str
