"""Ingest: messages of many callers are committed in one transaction. A caller gets its answer after COMMIT, never
before.

Messages that arrive during a commit join the next one. So commits grow with the load, and a single caller does not
wait. A batch that a caller sends is a transaction of its own. If several requests have the same idempotency key, only
the first one goes to the store. The others, its twins, wait here without a database connection. A twin with the
same body gets the same answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from contextvars import Context

import structlog
from msgspec.structs import replace

from hookline.clock import monotonic
from hookline.errors import HooklineError, StoreUnavailable
from hookline.model.messages import Accepted, BatchAccepted, IngestStatus, NewBatch, NewMessage
from hookline.observe.tally import Tally
from hookline.store import Store
from hookline.store.patience import CALLER_SECONDS, waiting_at_most
from hookline.store.stages import HandOver, no_hand_over

log = structlog.get_logger()

MAX_PER_COMMIT = 500
MAX_BYTES = 4 * 1024 * 1024  # maximum payload bytes in one commit
MAX_DELIVERIES = 2_000  # maximum deliveries of one commit, estimated from the last message of each application
MAX_WAITING = 20_000  # maximum messages that wait for a commit
MAX_WAITING_BYTES = 256 * 1024 * 1024
PER_MESSAGE = 0.01  # seconds that a caller waits longer for each message of its batch, which may have many deliveries

_Given = NewMessage | NewBatch
_Result = Accepted | BatchAccepted
_Waiting = tuple[_Given, "asyncio.Future[_Result]"]

_TAKEN = (IngestStatus.ACCEPTED, IngestStatus.REPLAYED)


class GroupCommit:
    """Groups messages into commits. Applications take turns, and the size of a commit is limited.

    So an application whose messages go to many endpoints does not delay the others.
    """

    def __init__(
        self,
        store: Store,
        *,
        commits: int = 2,
        tally: Tally | None = None,
        timeout: float = CALLER_SECONDS,
        hand_over: HandOver = no_hand_over,
    ) -> None:
        self._store = store
        self._hand_over = hand_over
        self._timeout = timeout  # maximum seconds that a caller waits for its answer, and that one commit takes
        self._tally = tally or Tally()
        self._waiting: dict[int, deque[_Waiting]] = {}  # by application number; the first application is served next
        # By idempotency key: requests that wait for the result of the first request with this key.
        self._twins: dict[bytes, list[_Waiting]] = {}
        self._count = 0
        self._bytes = 0
        self._last_fanout: dict[int, int] = {}  # by application: number of deliveries of its last message
        self._free = commits  # number of further commits that may run at the same time
        self._tasks: set[asyncio.Task[None]] = set()

    async def submit(self, message: NewMessage) -> Accepted:
        """Accept one message. Raises `StoreUnavailable` if the database is not reachable, or if too many messages or
        bytes wait for a commit."""
        result = await self._submit(message)
        assert isinstance(result, Accepted)
        return result

    async def submit_batch(self, batch: NewBatch) -> BatchAccepted:
        """Accept a caller's batch in one transaction. Raises the errors of `submit` and of
        `store.pipeline.ingest_batch`."""
        result = await self._submit(batch)
        assert isinstance(result, BatchAccepted)
        return result

    async def close(self) -> None:
        """Wait until every submitted message has its answer."""
        await asyncio.gather(*self._tasks)

    async def _submit(self, given: _Given) -> _Result:
        if self._count >= MAX_WAITING or self._bytes >= MAX_WAITING_BYTES:
            raise StoreUnavailable("too many messages wait for the database; try again in a moment")
        answer: asyncio.Future[_Result] = asyncio.get_running_loop().create_future()
        count, size = _size(given)
        self._count += count
        self._bytes += size
        try:
            self._enqueue((given, answer))
            async with asyncio.timeout(self._seconds(given)):
                return await answer
        except TimeoutError:
            raise StoreUnavailable(f"no COMMIT within {self._seconds(given):g} s (HOOKLINE_DATABASE_TIMEOUT)") from None
        finally:
            self._count -= count
            self._bytes -= size

    def _seconds(self, given: _Given) -> float:
        return self._timeout + (PER_MESSAGE * len(given.messages) if isinstance(given, NewBatch) else 0.0)

    def _enqueue(self, waiting: _Waiting) -> None:
        """Add a request to the queue of its application. If an earlier request with the same idempotency key has no
        answer yet, let the new one wait for that answer instead."""
        given = waiting[0]
        key = given.idempotency_key
        if key is not None:
            if key in self._twins:
                self._twins[key].append(waiting)
                return
            self._twins[key] = []
        self._waiting.setdefault(given.app_no, deque()).append(waiting)
        if self._free:
            self._free -= 1
            # The task also commits messages of other callers. So it must not inherit the context variables of this
            # caller.
            task = asyncio.create_task(self._commit_groups(), context=Context())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _commit_groups(self) -> None:
        try:
            while group := self._next_group():
                with waiting_at_most(self._seconds(group[0][0])):
                    await self._commit(group)
        finally:
            self._free += 1

    def _next_group(self) -> list[_Waiting]:
        """Remove the publish requests of the next commit from the queues, and return them.

        The applications take turns, with one request each, until the commit is full. A request with one message shares
        the commit with others. A batch request has a commit of its own. The first request is taken even if it exceeds
        the limits of a commit. A request whose caller has given up is dropped.
        """
        group: list[_Waiting] = []
        size = cost = 0
        while self._waiting and len(group) < MAX_PER_COMMIT:
            app_no, queue = next(iter(self._waiting.items()))
            if self._given_up(*queue[0]):
                self._answer(self._take(app_no, queue), StoreUnavailable("its callers gave up"))
                continue
            given = queue[0][0]
            size += _size(given)[1]
            cost += self._last_fanout.get(app_no, 1)
            alone = isinstance(given, NewBatch)
            if group and (alone or size > MAX_BYTES or cost > MAX_DELIVERIES):
                break
            group.append(self._take(app_no, queue))
            if alone:
                break
        return group

    def _take(self, app_no: int, queue: deque[_Waiting]) -> _Waiting:
        """Remove the first request of an application. An application that has more requests moves
        behind all other applications."""
        first = queue.popleft()
        del self._waiting[app_no]
        if queue:
            self._waiting[app_no] = queue
        return first

    def _given_up(self, given: _Given, answer: asyncio.Future[_Result]) -> bool:
        """Return whether nobody waits for the answer: neither the caller of the request nor the caller of another
        request with the same idempotency key."""
        twins = () if given.idempotency_key is None else self._twins.get(given.idempotency_key, ())
        return answer.done() and all(twin.done() for _, twin in twins)

    async def _commit(self, group: Sequence[_Waiting]) -> None:
        """Commit a group in one transaction. If it fails, commit its halves, so that each caller gets only its own
        error."""
        began = monotonic()
        try:
            results = await self._store_all([given for given, _ in group])
        except StoreUnavailable as error:
            self._store.writable = False
            for waiting in group:
                self._answer(waiting, error)
        except Exception as error:
            if len(group) == 1:
                self._answer(group[0], _error_for_caller(error))
                return
            middle = len(group) // 2
            await self._commit(group[:middle])
            await self._commit(group[middle:])
        else:
            self._store.writable = True
            self._tally.ingested(sum(map(_accepted, results)), monotonic() - began)
            if log.is_enabled_for(logging.DEBUG):
                _log_accepted(results, [given for given, _ in group])
            for waiting, result in zip(group, results, strict=True):
                self._note_fanout(waiting[0].app_no, result)
                self._answer(waiting, result)

    async def _store_all(self, group: Sequence[_Given]) -> Sequence[_Result]:
        if isinstance(group[0], NewBatch):
            return [await self._store.pipeline.ingest_batch(group[0])]
        messages = [given for given in group if isinstance(given, NewMessage)]
        with self._hand_over(messages) as offer:
            return await self._store.pipeline.ingest(messages, offer)

    def _note_fanout(self, app_no: int, result: _Result) -> None:
        answers = result.answers if isinstance(result, BatchAccepted) else (result,)
        deliveries = max((answer.deliveries for answer in answers), default=0)
        if deliveries > 1:
            if len(self._last_fanout) >= MAX_WAITING:
                self._last_fanout.clear()
            self._last_fanout[app_no] = deliveries
        else:
            self._last_fanout.pop(app_no, None)

    def _answer(self, waiting: _Waiting, result: _Result | Exception) -> None:
        first = waiting[0]
        _set(waiting, result)
        if first.idempotency_key is None:
            return
        for twin in self._twins.pop(first.idempotency_key, ()):
            twins_result = _twins_result(first, result, twin[0])
            if twins_result is None:
                self._enqueue(twin)
            else:
                _set(twin, twins_result)


def _twins_result(first: _Given, result: _Result | Exception, twin: _Given) -> _Result | Exception | None:
    """Return the result of `twin`, which has the same idempotency key as `first`, from the result of `first`.

    Return None if `first` was refused and `twin` has another body. `twin` must then be added to the queue. If the
    store was unavailable, `twin` gets the same error as `first`, whatever its body.
    """
    same = first.idempotency_body == twin.idempotency_body
    if isinstance(result, StoreUnavailable):
        return result
    if isinstance(result, Exception) or result.status not in _TAKEN:
        return result if same else None
    if same:
        return replace(result, status=IngestStatus.REPLAYED)
    return replace(result, status=IngestStatus.KEY_REUSED)


def _accepted(result: _Result) -> int:
    """Return the number of new messages in a result."""
    if result.status != IngestStatus.ACCEPTED:
        return 0
    answers = result.answers if isinstance(result, BatchAccepted) else (result,)
    return sum(answer.status == IngestStatus.ACCEPTED for answer in answers)


def _log_accepted(results: Sequence[_Result], group: Sequence[_Given]) -> None:
    """Log each new message."""
    for given, result in zip(group, results, strict=True):
        messages = given.messages if isinstance(given, NewBatch) else (given,)
        answers = result.answers if isinstance(result, BatchAccepted) else (result,)
        if result.status != IngestStatus.ACCEPTED:
            continue
        for message, answer in zip(messages, answers, strict=True):
            if answer.status == IngestStatus.ACCEPTED:
                log.debug(
                    "message_accepted",
                    message=message.id,
                    event_type=message.event_type,
                    event_id=message.event_id,
                    deliveries=answer.deliveries,
                )


def _size(given: _Given) -> tuple[int, int]:
    """Return the number of messages of a publish request, and the sum of their payload bytes."""
    if isinstance(given, NewMessage):
        return 1, len(given.payload)
    return max(1, len(given.messages)), sum(len(message.payload) for message in given.messages)


def _set(waiting: _Waiting, result: _Result | Exception) -> None:
    future = waiting[1]
    if future.done():  # the caller was cancelled
        return
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)


def _error_for_caller(error: Exception) -> HooklineError:
    """Return the error that the caller gets. An unexpected error is logged, and its details stay in the log."""
    if isinstance(error, HooklineError):
        return error
    log.error("ingest_failed", exc_info=error)
    return StoreUnavailable("the message was not accepted; the server's log has the reason")
