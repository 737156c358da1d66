"""Runs POST requests with the same `Idempotency-Key` only once.

The first request acquires a lease on the key in the store, and its response is stored there. Duplicates wait for this
response: in the same process they wait for an event, and in other processes they poll the store. A waiting request
never occupies a database connection. Only successful responses are stored: a failed request changed nothing, so the
next request with the key runs again.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterator

import structlog
from starlette.responses import Response

from hookline.errors import Conflict, StoreUnavailable, VaultError
from hookline.model.actors import KeptAnswer
from hookline.store import Store
from hookline.web.errors import Refused
from hookline.web.invalid_fields import InvalidField

HEADER = "idempotency-key"
MAX_KEY = 256
REPLAYED = {"idempotent-replayed": "true"}

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.5  # seconds between polls for the response of another process

log = structlog.get_logger(__name__)

Work = Callable[[], Awaitable[Response]]


def key_of(given: str, *scope: str) -> bytes:
    """Return the hash under which a key is stored. `scope` is the organization, application, method and path."""
    if not 1 <= len(given) <= MAX_KEY:
        raise _invalid(f"must be 1 to {MAX_KEY} characters long")
    return hashlib.sha256("\0".join([*scope, given]).encode()).digest()


def request_of(query: bytes, body: bytes) -> bytes:
    """Return a hash of the request, which shows whether a key was reused for a different request."""
    return hashlib.sha256(hashlib.sha256(query).digest() + body).digest()


class _InProgress:
    """A request that this process is working on."""

    def __init__(self, request: bytes) -> None:
        self.request = request
        self.finished = asyncio.Event()
        self.answer: KeptAnswer | None = None  # the stored response; None while the request runs, or if it failed


class IdempotentResponses:
    """Stores and replays responses. There is one instance per process."""

    def __init__(self, store: Store, *, wait: float = 10.0, hold: float = 30.0) -> None:
        """`wait`: seconds until a waiting duplicate gets a 409.

        `hold`: seconds of the lease, which is renewed during work.
        """
        self._store = store
        self._wait = wait
        self._hold = hold
        self._in_progress: dict[bytes, _InProgress] = {}

    async def once(self, key: bytes, request: bytes, work: Work) -> Response:
        """Run `work` for the first request with this key, and return its response.

        Later copies of the request get the stored response. `request` is the hash of a request. If the key was used
        for a request with another hash, raise `InvalidField`.

        If `work` raises, or the status of its response is 300 or higher, nothing is stored and the key is free again.
        The next request with the key, also a different one, then runs its own work.
        """
        deadline = asyncio.get_running_loop().time() + self._wait
        while (other := self._in_progress.get(key)) is not None:
            found = await self._wait_for(other, request, deadline)
            if found is not None:
                return _replayed(found)
        own = self._in_progress[key] = _InProgress(request)
        try:
            return await self._run_first(key, own, work)
        finally:
            del self._in_progress[key]
            own.finished.set()

    async def _wait_for(self, other: _InProgress, request: bytes, deadline: float) -> KeptAnswer | None:
        if other.request != request:
            raise reused()
        try:
            async with asyncio.timeout_at(deadline):
                await other.finished.wait()
        except TimeoutError:
            raise _busy() from None
        return other.answer

    async def _run_first(self, key: bytes, own: _InProgress, work: Work) -> Response:
        try:
            found = await self._hold_or_wait(key, own.request)
        except VaultError as fault:
            raise Conflict(f"the stored response for this idempotency key cannot be decrypted: {fault}") from fault
        if found.request != own.request:
            raise reused()
        if found.claim is None:
            own.answer = found
            return _replayed(found)
        response = await self._work(key, found.claim, work)
        if response.status_code < 300:
            own.answer = KeptAnswer(request=own.request, status=response.status_code, response=bytes(response.body))
        return response

    async def _hold_or_wait(self, key: bytes, request: bytes) -> KeptAnswer:
        """Acquire the lease on the key, or wait until another process has stored its response.

        The result has one of three forms. With a `claim`, this request has the lease and must run its work. With a
        `status`, it is the stored response. If its `request` differs from the argument, the key was used for
        a different request. If the other process does not finish in time, raise the error 409.
        """
        access = self._store.access
        found = await access.hold_answer(key, request, self._hold)
        for pause in _pauses(self._wait):
            if found.claim is not None or found.status is not None or found.request != request:
                return found
            await asyncio.sleep(pause)
            found = await access.answer(key) or await access.hold_answer(key, request, self._hold)
        raise _busy()

    async def _work(self, key: bytes, claim: int, work: Work) -> Response:
        """Run the work, and renew the lease while the work runs. If the process is killed, the lease expires."""
        renewing = asyncio.create_task(self._renew(key, claim))
        try:
            response = await work()
        except Exception:
            await self._drop(key, claim)
            raise
        finally:
            renewing.cancel()
        await (self._keep(key, claim, response) if response.status_code < 300 else self._drop(key, claim))
        return response

    async def _renew(self, key: bytes, claim: int) -> None:
        held = True
        while held:
            await asyncio.sleep(self._hold / 3)
            try:
                held = await self._store.access.renew_answer(key, claim, self._hold)
            except StoreUnavailable:
                continue  # try again: the database may be back before the lease expires

    async def _keep(self, key: bytes, claim: int, response: Response) -> None:
        """Store the response.

        The work is done, so a failure to store is only logged. Then a later duplicate may run the work again.
        """
        try:
            if await self._store.access.keep_answer(key, claim, response.status_code, bytes(response.body)):
                return
            cause = "its lease was lost"
        except StoreUnavailable as error:
            cause = str(error)
        log.warning("answer_not_kept", cause=cause)

    async def _drop(self, key: bytes, claim: int) -> None:
        try:
            await self._store.access.drop_answer(key, claim)
        except StoreUnavailable:
            return  # the key becomes free when the lease expires


def _pauses(total: float) -> Iterator[float]:
    pause = FIRST_PAUSE
    while total > 0:
        yield min(pause, total)
        total -= pause
        pause = min(2 * pause, LONGEST_PAUSE)


def _replayed(kept: KeptAnswer) -> Response:
    assert kept.status is not None
    media = "application/json" if kept.response else None
    return Response(kept.response, kept.status, REPLAYED, media_type=media)


def reused() -> InvalidField:
    return _invalid("this key was used for another request")


def _invalid(words: str) -> InvalidField:
    return InvalidField((HEADER,), words, "header")


def _busy() -> Refused:
    return Refused(
        409, "a request with this idempotency key is still in progress; try again in a moment", retry_after=1
    )
