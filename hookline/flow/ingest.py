"""Ingest: many callers, one transaction. A caller is answered only once COMMIT has returned.

Whoever comes while a commit is under way joins the next one, so the group grows with the load and a lone caller waits
for nobody.
"""

from __future__ import annotations

import asyncio
from collections import deque

import structlog

from hookline.errors import HooklineError, StoreUnavailable
from hookline.model import Accepted, NewMessage
from hookline.store.base import Store

log = structlog.get_logger()

MOST_PER_COMMIT = 500
MOST_BYTES = 4 * 1024 * 1024  # of payloads in one commit
MOST_DELIVERIES = 2_000  # expected of one commit, by what each application's last message fanned out to
MOST_WAITING = 20_000
MOST_WAITING_BYTES = 256 * 1024 * 1024

_Waiting = tuple[NewMessage, "asyncio.Future[Accepted]"]


class Ingest:
    """Applications take turns, and a commit is bounded by what it costs: one that fans out widely does not hold up the rest."""

    def __init__(self, store: Store, *, commits: int = 2) -> None:
        self._store = store
        self._waiting: dict[int, deque[_Waiting]] = {}  # by application; the first key is the next to be served
        self._count = 0
        self._bytes = 0
        self._fanned: dict[int, int] = {}  # by application: deliveries of its last message
        self._free = commits  # that may be under way at once
        self._tasks: set[asyncio.Task[None]] = set()

    async def submit(self, message: NewMessage) -> Accepted:
        """Accept one message. `StoreUnavailable` if the database is away or too many callers wait for it."""
        if self._count >= MOST_WAITING or self._bytes >= MOST_WAITING_BYTES:
            raise StoreUnavailable("too many messages wait for the database; try again in a moment")
        answer: asyncio.Future[Accepted] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(message.app_no, deque()).append((message, answer))
        self._count += 1
        self._bytes += len(message.payload)
        if self._free:
            self._free -= 1
            task = asyncio.create_task(self._commit_groups())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await answer

    async def close(self) -> None:
        """Wait for what was submitted."""
        await asyncio.gather(*self._tasks)

    async def _commit_groups(self) -> None:
        try:
            while self._waiting:
                await self._commit(self._next_group())
        finally:
            self._free += 1

    def _next_group(self) -> list[_Waiting]:
        """One message of each application in turn, until the commit would cost too much; at least one."""
        group: list[_Waiting] = []
        size = cost = 0
        while self._waiting and len(group) < MOST_PER_COMMIT:
            app_no, queue = next(iter(self._waiting.items()))
            size += len(queue[0][0].payload)
            cost += self._fanned.get(app_no, 1)
            if group and (size > MOST_BYTES or cost > MOST_DELIVERIES):
                break
            group.append(queue.popleft())
            del self._waiting[app_no]
            if queue:
                self._waiting[app_no] = queue  # behind the others
        self._count -= len(group)
        self._bytes -= sum(len(message.payload) for message, _ in group)
        return group

    async def _commit(self, group: list[_Waiting]) -> None:
        """One transaction; a group that fails on what is in it is halved, so that each caller hears only of its own message."""
        try:
            accepted = await self._store.ingest([message for message, _ in group])
        except StoreUnavailable as error:
            for waiting in group:
                _answer(waiting, error)
        except Exception as error:
            if len(group) == 1:
                _answer(group[0], _told(error))
                return
            middle = len(group) // 2
            await self._commit(group[:middle])
            await self._commit(group[middle:])
        else:
            for waiting, result in zip(group, accepted, strict=True):
                self._learn(waiting[0].app_no, result.deliveries)
                _answer(waiting, result)

    def _learn(self, app_no: int, deliveries: int) -> None:
        if deliveries > 1:
            if len(self._fanned) >= MOST_WAITING:
                self._fanned.clear()
            self._fanned[app_no] = deliveries
        else:
            self._fanned.pop(app_no, None)


def _answer(waiting: _Waiting, result: Accepted | Exception) -> None:
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
