"""Connections that can be dropped or closed without waiting for a server that hangs."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import asyncpg
from asyncpg import connect_utils

CLOSE_TIMEOUT = 5.0  # seconds in which the server must confirm that a connection ends
_CANCEL_TIMEOUT = 5.0  # seconds in which the server is asked to end an abandoned statement
_CLOSING = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)


class DroppedConnection(asyncpg.Connection):  # type: ignore[misc]  # asyncpg has no types
    """A connection that is dropped as soon as a statement on it is cancelled or times out.

    By default, the driver waits until the server confirms that the statement has ended. A server that hangs never
    confirms this. A rollback, a release to the pool or a close of the connection would then wait forever.

    This class still asks the server to end the statement, but no caller waits for the answer. Without this request,
    callers that give up and try again would leave more and more slow statements running on the server.
    """

    def _cancel_current_command(self, *_: Any) -> None:
        session = self._protocol
        asking = connect_utils._cancel(
            loop=self._loop,
            addr=self._addr,
            params=self._params,
            backend_pid=session.backend_pid,
            backend_secret=session.backend_secret,
        )
        self._loop.create_task(_ask(asking))
        self._loop.call_soon(self.terminate)  # not now, because the driver uses the connection after this call


async def _ask(asking: Coroutine[None, None, None]) -> None:
    with suppress(*_CLOSING):
        async with asyncio.timeout(_CANCEL_TIMEOUT):
            await asking


async def close(connection: Any) -> None:
    """Close a connection. Do not wait for a server that does not answer."""
    try:
        await connection.close(timeout=CLOSE_TIMEOUT)
    except _CLOSING:
        connection.terminate()


@contextmanager
def cancelled_first() -> Iterator[None]:
    """Raise `CancelledError` if the task was cancelled. A ROLLBACK on a dropped connection fails, and its error would
    replace the cancellation."""
    try:
        yield
    except Exception as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError from error
        raise
