"""Whether somebody is who they say: by name and password, by an API key or a token, by the link of a portal."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime

import msgspec
import structlog
from msgspec import Struct

from hookline import lockout, passwords
from hookline.access import Operator, operator_name
from hookline.api.auth import Caller
from hookline.api.errors import Refused
from hookline.api.services import Services
from hookline.errors import HooklineError, InvalidInput, SignatureError
from hookline.lockout import Subjects
from hookline.model import Application, Scope

LIFETIME = 7 * 86_400.0  # seconds of an operator's session; one that nobody uses ends sooner: `store.base.IDLE`
PORTAL_LIFETIME = 86_400.0  # likewise, of a customer's
MOST_CHECKED = 2  # passwords at a time: each takes 32 MiB and a core for a moment
MOST_WAITING = 20  # beyond these, people are asked to come back
LONGEST_KEY = 4096

log = structlog.get_logger(__name__)


class Arrival(Struct, frozen=True, kw_only=True):
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


class SignIn:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._store = services.store
        self._free = asyncio.Semaphore(MOST_CHECKED)
        self._waiting = 0

    async def by_password(self, name: str, password: str, address: str, mark: str) -> Arrival:
        """`SignatureError` in the same words and after the same time, whether the name or the password is wrong.

        `mark` is what the browser brings, if somebody has signed in from it before: see `lockout.mark`.
        """
        known = _canonical(name)
        pages = self._services.pages
        own = lockout.renewed((pages.key, *pages.older_keys), known, mark)
        subjects = lockout.password(pages.key, known, address, own)
        await self._take(subjects, address)
        found = await self._store.operator(known)
        if not await self._matches(password, found) or found is None:
            log.warning("sign_in_refused", address=address, operator=None if found is None else found.name)
            raise SignatureError("the name or the password is wrong")
        await self._store.forgive(subjects.forgiven)
        return Arrival(
            org_id=found.org_id, role=found.role, lifetime=LIFETIME, operator=found.name, password=found.password
        )

    async def by_token(self, text: str, address: str) -> Arrival:
        """An API key or a token, of an organization or of one application. Nobody guesses one: whoever has a good one is let in,
        whatever others have tried from the same address."""
        try:
            caller = await self._services.auth.holder(text)
        except SignatureError:
            await self._take(lockout.token(self._services.pages.key, address), address)
            log.warning("sign_in_refused", address=address, operator=None)
            raise
        self._services.limits.take(caller)
        if caller.scope == Scope.PUBLISH:
            raise SignatureError("this key may only publish messages: it opens no page")
        return self._arrival(caller)

    def _arrival(self, caller: Caller) -> Arrival:
        longest = LIFETIME if caller.app is None else PORTAL_LIFETIME
        if caller.expires_at is not None:
            longest = min(longest, (caller.expires_at - self._services.wall()).total_seconds())
        return Arrival(
            org_id=caller.org_id,
            role=caller.scope,
            lifetime=longest,
            app=caller.app,
            key_id=caller.key_id,
            key_name=caller.key_name,
            token=caller.token,
            token_issued_at=caller.issued_at,
        )

    async def _take(self, subjects: Subjects, address: str) -> None:
        until = await self._store.take_guess(subjects.rules)
        if until is not None:
            log.warning("sign_in_locked", address=address, until=until.isoformat())
            raise Locked(until, await self._store.now())

    async def _matches(self, password: str, operator: Operator | None) -> bool:
        async with self._turn():
            return await asyncio.to_thread(passwords.matches, password, None if operator is None else operator.password)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        if self._waiting >= MOST_WAITING:
            raise Refused(429, "too many people are signing in at this moment: try again", retry_after=5)
        self._waiting += 1
        try:
            async with self._free:
                yield
        finally:
            self._waiting -= 1


def _canonical(name: str) -> str:
    """One that no operator can have is looked up and counted like any other."""
    try:
        return operator_name(name)
    except InvalidInput:
        return name.strip().lower()[:200]


def linked(text: str) -> str:
    """The token in a portal's link, in its fragment alone, or as it is."""
    key = text.strip().rpartition("#")[2].removeprefix("key=")
    if len(key) > LONGEST_KEY:
        raise SignatureError("this is no link of ours")
    if "." in key or key.startswith("hk_"):
        return key
    try:
        raw = b64decode(key.encode() + b"=" * (-len(key) % 4), altchars=b"-_", validate=True)
        return msgspec.json.decode(raw, type=_Link).token
    except (ValueError, msgspec.MsgspecError, RecursionError):
        raise SignatureError("the link is cut short, or is none of ours: copy it again, all of it") from None


class _Link(Struct):
    token: str
