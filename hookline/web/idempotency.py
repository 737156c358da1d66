"""One effect for POSTs that come more than once under the same `Idempotency-Key`.

The first takes the key in the store, under a lease; its answer is kept there. Whoever comes meanwhile waits: in the same
process for an event, in another one by looking again, never with a database connection in hand. Only success is kept: an
error has changed nothing, so the next one may try again.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterator

import structlog
from starlette.responses import Response

from hookline.errors import Conflict, StoreUnavailable, VaultError
from hookline.model import KeptAnswer
from hookline.store.protocols import Store
from hookline.web.errors import InvalidHeader, Refused

HEADER = "idempotency-key"
MAX_KEY = 256
REPLAYED = {"idempotent-replayed": "true"}

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.5  # seconds between looks at what another process is doing

log = structlog.get_logger(__name__)

Work = Callable[[], Awaitable[Response]]


def key_of(given: str, *scope: str) -> bytes:
    """The stored form of a key: another organization, application, method or path makes it another one."""
    if not 1 <= len(given) <= MAX_KEY:
        raise InvalidHeader(HEADER, f"must be 1 to {MAX_KEY} characters long")
    return hashlib.sha256("\0".join([*scope, given]).encode()).digest()


def request_of(query: bytes, body: bytes) -> bytes:
    return hashlib.sha256(hashlib.sha256(query).digest() + body).digest()


class _InProgress:
    """One that is under way in this process."""

    def __init__(self, request: bytes) -> None:
        self.request = request
        self.over = asyncio.Event()
        self.answer: KeptAnswer | None = None  # None when it is over: nothing came of it


class IdempotentResponses:
    """One per process."""

    def __init__(self, store: Store, *, wait: float = 10.0, hold: float = 30.0) -> None:
        """`wait`: how long a twin waits before its 409. `hold`: a lease, renewed while the work goes on."""
        self._store = store
        self._wait = wait
        self._hold = hold
        self._going: dict[bytes, _InProgress] = {}

    async def once(self, key: bytes, request: bytes, work: Work) -> Response:
        """The answer of `work`, which runs once for this key and request; `work` raises what is to be an error."""
        until = asyncio.get_running_loop().time() + self._wait
        while (ahead := self._going.get(key)) is not None:
            found = await self._follow(ahead, request, until)
            if found is not None:
                return _again(found)
        going = self._going[key] = _InProgress(request)
        try:
            return await self._lead(key, going, work)
        finally:
            del self._going[key]
            going.over.set()

    async def _follow(self, ahead: _InProgress, request: bytes, until: float) -> KeptAnswer | None:
        if ahead.request != request:
            raise reused()
        try:
            async with asyncio.timeout_at(until):
                await ahead.over.wait()
        except TimeoutError:
            raise _busy() from None
        return ahead.answer

    async def _lead(self, key: bytes, going: _InProgress, work: Work) -> Response:
        try:
            found = await self._hold_or_wait(key, going.request)
        except VaultError as fault:
            raise Conflict(f"the answer to this idempotency key cannot be opened: {fault}") from fault
        if found.request != going.request:
            raise reused()
        if found.claim is None:
            going.answer = found
            return _again(found)
        response = await self._work(key, found.claim, work)
        if response.status_code < 300:
            going.answer = KeptAnswer(request=going.request, status=response.status_code, response=_body(response))
        return response

    async def _hold_or_wait(self, key: bytes, request: bytes) -> KeptAnswer:
        """Ours to do, or answered by another process."""
        found = await self._store.hold_answer(key, request, self._hold)
        for pause in _pauses(self._wait):
            if found.claim is not None or found.status is not None or found.request != request:
                return found
            await asyncio.sleep(pause)
            found = await self._store.answer(key) or await self._store.hold_answer(key, request, self._hold)
        raise _busy()

    async def _work(self, key: bytes, claim: int, work: Work) -> Response:
        """A process that is killed here leaves the lease, which lapses."""
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
                held = await self._store.renew_answer(key, claim, self._hold)
            except StoreUnavailable:
                continue  # the lease may outlive the outage

    async def _keep(self, key: bytes, claim: int, response: Response) -> None:
        """The work is done and its caller hears of it, even where the next one cannot."""
        try:
            if await self._store.keep_answer(key, claim, response.status_code, _body(response)):
                return
            cause = "its lease was lost"
        except StoreUnavailable as error:
            cause = str(error)
        log.warning("answer_not_kept", cause=cause)

    async def _drop(self, key: bytes, claim: int) -> None:
        try:
            await self._store.drop_answer(key, claim)
        except StoreUnavailable:
            return  # the lease lapses


def _pauses(total: float) -> Iterator[float]:
    pause = FIRST_PAUSE
    while total > 0:
        yield min(pause, total)
        total -= pause
        pause = min(2 * pause, LONGEST_PAUSE)


def _again(kept: KeptAnswer) -> Response:
    assert kept.status is not None
    media = "application/json" if kept.response else None
    return Response(kept.response, kept.status, REPLAYED, media_type=media)


def _body(response: Response) -> bytes:
    return bytes(response.body)


def reused() -> InvalidHeader:
    return InvalidHeader(HEADER, "this key was used for another request")


def _busy() -> Refused:
    return Refused(409, "a request with this idempotency key is still under way; try again in a moment", retry_after=1)
