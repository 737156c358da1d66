"""Ingest: many callers, one transaction. A caller is answered only once COMMIT has returned.

Whoever comes while a commit is under way joins the next one, so the group grows with the load and a lone caller waits
for nobody.
"""

from __future__ import annotations

import asyncio
from collections import deque

from hookline.errors import HooklineError, InvalidInput, StoreUnavailable
from hookline.model import Accepted, NewMessage
from hookline.store.base import Store

MOST_PER_COMMIT = 500
MOST_WAITING = 20_000

_Waiting = tuple[NewMessage, "asyncio.Future[Accepted]"]


class Ingest:
    def __init__(self, store: Store, *, commits: int = 2) -> None:
        self._store = store
        self._waiting: deque[_Waiting] = deque()
        self._free = commits  # that may be under way at once
        self._tasks: set[asyncio.Task[None]] = set()

    async def submit(self, message: NewMessage) -> Accepted:
        """Accept one message. `StoreUnavailable` if the database is away or too many callers wait for it."""
        if len(self._waiting) >= MOST_WAITING:
            raise StoreUnavailable("too many messages wait for the database; try again in a moment")
        answer: asyncio.Future[Accepted] = asyncio.get_running_loop().create_future()
        self._waiting.append((message, answer))
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
                group = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_PER_COMMIT))]
                await self._commit(group)
        finally:
            self._free += 1

    async def _commit(self, group: list[_Waiting]) -> None:
        """One transaction; a group that fails on its data is halved, so that each caller hears only of its own message."""
        try:
            accepted = await self._store.ingest([message for message, _ in group])
        except InvalidInput as error:
            if len(group) == 1:
                _answer(group[0], error)
                return
            middle = len(group) // 2
            await self._commit(group[:middle])
            await self._commit(group[middle:])
        except HooklineError as error:
            for waiting in group:
                _answer(waiting, error)
        except BaseException as error:
            for waiting in group:
                _answer(waiting, StoreUnavailable(f"the message was not accepted: {error}"))
            raise
        else:
            for waiting, result in zip(group, accepted, strict=True):
                _answer(waiting, result)


def _answer(waiting: _Waiting, result: Accepted | Exception) -> None:
    future = waiting[1]
    if future.done():  # the caller has gone away
        return
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)
