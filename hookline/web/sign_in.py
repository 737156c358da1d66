"""Authenticates a person by name and password, by an API key or token, or by a portal link."""

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
from hookline.model.actors import Actor, ActorKind, Scope
from hookline.model.callers import Caller
from hookline.model.operators import operator_name
from hookline.security import lockout, passwords, tokens
from hookline.security.lockout import Subjects
from hookline.web.context import WebContext
from hookline.web.errors import Refused

LIFETIME = 7 * 86_400.0  # seconds that an operator's session lasts; an idle session ends sooner
PORTAL_LIFETIME = 86_400.0  # seconds that a customer's session lasts
CHECK_THREADS = 2  # concurrent password checks for unknown browsers; each needs 32 MiB and one core for a moment
KNOWN_CHECK_THREADS = 1  # concurrent password checks for browsers from which somebody has signed in before
MAX_WAITING = 300  # maximum sign-ins that wait for a free thread of one thread pool, from all addresses together
MAX_WAITING_PER_NETWORK = 30  # maximum waiting sign-ins of one network: an IPv4 address, or a /64 prefix of IPv6
MAX_WAIT = 25.0  # maximum seconds that a sign-in waits; most proxies time out later
MAX_KEY = 4096  # maximum characters of the key or token in a portal link
NO_PORTAL = "this link or key is for the dashboard of operators, not for a portal: sign in at /login"
BUSY = "too many people are signing in at the moment: try again in a few seconds"

log = structlog.get_logger(__name__)


class SignedIn(Struct, frozen=True, kw_only=True):
    """A person whose credentials are valid. A session can be created from it."""

    caller: Caller
    lifetime: float  # seconds
    # The stored hash that the password matched; None if the person used no password. If the stored hash changes before
    # the session is stored, no session is created.
    password: str | None = None


class Locked(HooklineError):
    """Sign-in is locked for a while after too many failed attempts."""

    def __init__(self, until: datetime, now: datetime) -> None:
        super().__init__(f"too many attempts: wait {lockout.wait(until, now)}, then try again")
        self.seconds = max(1, round((until - now).total_seconds()))


class PasswordThreads:
    """Checks passwords in a few threads of its own.

    A sign-in is refused if too many others wait, in total or from the same network, or if it has waited for too long.
    """

    def __init__(self, threads: int) -> None:
        self._free = asyncio.Semaphore(threads)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="passwords")
        self._waiting: Counter[str] = Counter()  # waiting sign-ins by `lockout.network`; an entry is deleted at 0

    async def matches(self, password: str, kept: str | None) -> bool:
        """Compare a password with its stored hash (`kept`), in a thread. The caller must be inside `reserved`."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, passwords.matches, password, kept)

    @asynccontextmanager
    async def reserved(self, address: str) -> AsyncIterator[None]:
        """Wait for a free thread, and reserve it for the password check of one request."""
        await self._wait(lockout.network(address))
        try:
            yield
        finally:
            self._free.release()

    async def _wait(self, network: str) -> None:
        waiting = self._waiting
        if waiting[network] >= MAX_WAITING_PER_NETWORK or waiting.total() >= MAX_WAITING:
            raise Refused(429, BUSY, retry_after=5)
        waiting[network] += 1
        try:
            async with asyncio.timeout(MAX_WAIT):
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
        self._threads, self._known_threads = PasswordThreads(CHECK_THREADS), PasswordThreads(KNOWN_CHECK_THREADS)

    async def by_password(self, name: str, password: str, address: str, mark: str) -> SignedIn:
        """Check name and password. The error and its delay do not show whether the name or the password is wrong.

        `mark` is the cookie that a browser has if somebody signed in from it before (see `lockout.mark`).
        """
        known = _canonical(name)
        found = await self._store.access.operator(known)
        kept = None if found is None else found.password
        pages = self._services.pages
        own = lockout.renewed(pages.keys, known, kept or "", mark)
        subjects = lockout.password(pages.key, known, address, own, kept or "")
        # Count the attempt only after a thread is reserved. A request that is refused as busy must not count as a
        # failed attempt. A correct sign-in counts until its password is checked, so many correct sign-ins at the same
        # time could otherwise reach the limit of failed attempts.
        threads = self._known_threads if subjects.marked else self._threads
        async with threads.reserved(address):
            await self._take(subjects, address)
            correct = await threads.matches(password, kept)
            if correct:
                await self._store.access.forgive(subjects.forgiven)
        if not correct or found is None:
            log.warning("sign_in_refused", address=address, operator=None if found is None else found.name)
            raise SignatureError("the name or the password is wrong")
        actor = Actor(kind=ActorKind.OPERATOR, name=found.name)
        caller = Caller(org_id=found.org_id, actor=actor, scope=found.role)
        return SignedIn(caller=caller, lifetime=LIFETIME, password=found.password)

    async def by_token(self, text: str, address: str) -> SignedIn:
        """Check a sign-in link, an API key, or a token of an organization or of one application.

        Tokens are too long to guess. So a valid token is accepted even if many bad ones came from the same address.
        """
        auth = self._services.auth
        try:
            caller = await (auth.enter(text) if text.startswith(tokens.LINK_PREFIX) else auth.holder(text))
        except SignatureError:
            await self._take(lockout.token(self._services.pages.key, address), address)
            log.warning("sign_in_refused", address=address, operator=None)
            raise
        self._services.limits.take(caller)
        if caller.scope == Scope.PUBLISH:
            raise SignatureError("this key may only publish messages, so it cannot sign in to the dashboard")
        lifetime = LIFETIME if caller.app is None else PORTAL_LIFETIME
        if caller.expires_at is not None:
            lifetime = min(lifetime, (caller.expires_at - self._services.wall()).total_seconds())
        return SignedIn(caller=caller, lifetime=lifetime)

    async def _take(self, subjects: Subjects, address: str) -> None:
        until = await self._store.access.take_guess(subjects.rules)
        if until is not None:
            log.warning("sign_in_locked", address=address, until=until.isoformat())
            raise Locked(until, await self._store.now())


def _canonical(name: str) -> str:
    """Return the normalized name. An invalid name is normalized too, because sign-in attempts are
    counted by name, also for names that no operator can have."""
    try:
        return operator_name(name)
    except InvalidInput:
        return name.strip().lower()[:200]


def token_of_link(text: str) -> str:
    """Return the token of a portal link. The text may be the link, its fragment, or the token itself."""
    key = text.strip().rpartition("#")[2].removeprefix("key=").removeprefix("token=")
    if len(key) > MAX_KEY:
        raise SignatureError("this is not a link of this server")
    if key.startswith(tokens.LINK_PREFIX):
        raise SignatureError(NO_PORTAL)
    if "." in key or key.startswith("hk_"):
        return key
    try:
        raw = b64decode(key.encode() + b"=" * (-len(key) % 4), altchars=b"-_", validate=True)
        return msgspec.json.decode(raw, type=_Link).token
    except (ValueError, msgspec.MsgspecError, RecursionError):
        raise SignatureError(
            "the link is incomplete, or is not a link of this server: copy the whole link again"
        ) from None


class _Link(Struct):
    token: str
