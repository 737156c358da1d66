"""Ingest: many callers, one transaction. A caller is answered only once COMMIT has returned.

Whoever comes while a commit is under way joins the next one, so the group grows with the load and a lone caller waits
for nobody. A caller's own batch is a transaction of its own. Of those with one idempotency key only the first goes to the
store; its twins wait here, without a connection, and are told what it was told.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence

import structlog
from msgspec.structs import replace

from hookline.clock import monotonic
from hookline.errors import HooklineError, StoreUnavailable
from hookline.model import Accepted, BatchAccepted, IngestStatus, NewBatch, NewMessage
from hookline.observe.tally import Tally
from hookline.store.protocols import Store

log = structlog.get_logger()

MAX_PER_COMMIT = 500
MAX_BYTES = 4 * 1024 * 1024  # of payloads in one commit
MAX_DELIVERIES = 2_000  # expected of one commit, by what each application's last message fanned out to
MAX_WAITING = 20_000
MAX_WAITING_BYTES = 256 * 1024 * 1024

_Given = NewMessage | NewBatch
_Result = Accepted | BatchAccepted
_Waiting = tuple[_Given, "asyncio.Future[_Result]"]

_TAKEN = (IngestStatus.ACCEPTED, IngestStatus.REPLAYED)


class GroupCommit:
    """Applications take turns, and a commit is bounded by what it costs: one that fans out widely does not hold up the rest."""

    def __init__(self, store: Store, *, commits: int = 2, tally: Tally | None = None) -> None:
        self._store = store
        self._tally = tally or Tally()
        self._waiting: dict[int, deque[_Waiting]] = {}  # by application; the first key is the next to be served
        self._twins: dict[bytes, list[_Waiting]] = {}  # by idempotency key: those behind the one that is at work
        self._count = 0
        self._bytes = 0
        self._fanned: dict[int, int] = {}  # by application: deliveries of its last message
        self._free = commits  # that may be under way at once
        self._tasks: set[asyncio.Task[None]] = set()

    async def submit(self, message: NewMessage) -> Accepted:
        """Accept one message. `StoreUnavailable` if the database is away or too many callers wait for it."""
        result = await self._submit(message)
        assert isinstance(result, Accepted)
        return result

    async def submit_batch(self, batch: NewBatch) -> BatchAccepted:
        """Accept a caller's list in one transaction. Errors as of `submit`, and those of `Store.ingest_batch`."""
        result = await self._submit(batch)
        assert isinstance(result, BatchAccepted)
        return result

    async def close(self) -> None:
        """Wait for what was submitted."""
        await asyncio.gather(*self._tasks)

    async def _submit(self, given: _Given) -> _Result:
        if self._count >= MAX_WAITING or self._bytes >= MAX_WAITING_BYTES:
            raise StoreUnavailable("too many messages wait for the database; try again in a moment")
        answer: asyncio.Future[_Result] = asyncio.get_running_loop().create_future()
        count, size = _size(given)
        self._count += count
        self._bytes += size
        try:
            self._enter((given, answer))
            return await answer
        finally:
            self._count -= count
            self._bytes -= size

    def _enter(self, waiting: _Waiting) -> None:
        """To the queue, or behind the first with the same key."""
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
            task = asyncio.create_task(self._commit_groups())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _commit_groups(self) -> None:
        try:
            while self._waiting:
                await self._commit(self._next_group())
        finally:
            self._free += 1

    def _next_group(self) -> list[_Waiting]:
        """One message of each application in turn, until the commit would cost too much; at least one. A batch is alone."""
        group: list[_Waiting] = []
        size = cost = 0
        while self._waiting and len(group) < MAX_PER_COMMIT:
            app_no, queue = next(iter(self._waiting.items()))
            given = queue[0][0]
            size += _size(given)[1]
            cost += self._fanned.get(app_no, 1)
            alone = isinstance(given, NewBatch)
            if group and (alone or size > MAX_BYTES or cost > MAX_DELIVERIES):
                break
            group.append(queue.popleft())
            del self._waiting[app_no]
            if queue:
                self._waiting[app_no] = queue  # behind the others
            if alone:
                break
        return group

    async def _commit(self, group: Sequence[_Waiting]) -> None:
        """One transaction; a group that fails on what is in it is halved, so that each caller hears only of its own message."""
        began = monotonic()
        try:
            results = await self._store_all([given for given, _ in group])
        except StoreUnavailable as error:
            for waiting in group:
                self._answer(waiting, error)
        except Exception as error:
            if len(group) == 1:
                self._answer(group[0], _told(error))
                return
            middle = len(group) // 2
            await self._commit(group[:middle])
            await self._commit(group[middle:])
        else:
            self._tally.ingested(sum(map(_accepted, results)), monotonic() - began)
            if log.is_enabled_for(logging.DEBUG):
                tell(results, [given for given, _ in group])
            for waiting, result in zip(group, results, strict=True):
                self._learn(waiting[0].app_no, result)
                self._answer(waiting, result)

    async def _store_all(self, group: Sequence[_Given]) -> Sequence[_Result]:
        if isinstance(group[0], NewBatch):
            return [await self._store.ingest_batch(group[0])]
        return await self._store.ingest([given for given in group if isinstance(given, NewMessage)])

    def _learn(self, app_no: int, result: _Result) -> None:
        answers = result.answers if isinstance(result, BatchAccepted) else (result,)
        deliveries = max((answer.deliveries for answer in answers), default=0)
        if deliveries > 1:
            if len(self._fanned) >= MAX_WAITING:
                self._fanned.clear()
            self._fanned[app_no] = deliveries
        else:
            self._fanned.pop(app_no, None)

    def _answer(self, waiting: _Waiting, result: _Result | Exception) -> None:
        first = waiting[0]
        _set(waiting, result)
        if first.idempotency_key is None:
            return
        for twin in self._twins.pop(first.idempotency_key, ()):
            told = _twins_result(first, result, twin[0])
            if told is None:
                self._enter(twin)
            else:
                _set(twin, told)


def _twins_result(first: _Given, result: _Result | Exception, twin: _Given) -> _Result | Exception | None:
    """What the first one's result says of a request with the same key. None: nothing, because the key is still free."""
    same = first.idempotency_body == twin.idempotency_body
    if isinstance(result, StoreUnavailable):
        return result
    if isinstance(result, Exception) or result.status not in _TAKEN:
        return result if same else None
    if same:
        return replace(result, status=IngestStatus.REPLAYED)
    return replace(result, status=IngestStatus.KEY_REUSED)


def _accepted(result: _Result) -> int:
    """How many messages are new by it."""
    answers = result.answers if isinstance(result, BatchAccepted) else (result,)
    return (
        sum(answer.status == IngestStatus.ACCEPTED for answer in answers)
        if result.status == IngestStatus.ACCEPTED
        else 0
    )


def tell(results: Sequence[_Result], group: Sequence[_Given]) -> None:
    """Of each message that is new by it."""
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
    """How many messages, and the bytes of their payloads."""
    if isinstance(given, NewMessage):
        return 1, len(given.payload)
    return max(1, len(given.messages)), sum(len(message.payload) for message in given.messages)


def _set(waiting: _Waiting, result: _Result | Exception) -> None:
    future = waiting[1]
    if future.done():  # the caller has gone away
        return
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)


def _told(error: Exception) -> HooklineError:
    """What the caller hears. A fault of ours is told to the log, and does not stop those who wait behind it."""
    if isinstance(error, HooklineError):
        return error
    log.error("ingest_failed", exc_info=error)
    return StoreUnavailable("the message was not accepted; the log says why")
