"""The notifications of one channel of a PostgreSQL database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.support.raw import RawPostgres

PATIENCE = 60.0  # maximum seconds to wait for the last notification


@asynccontextmanager
async def notifications(url: str, channel: str) -> AsyncIterator[list[str]]:
    """Collect the notifications sent during the block. The list is complete at the end of the block, because the block
    ends with a marker of our own and waits for it."""
    received: list[str] = []
    last = asyncio.Event()

    def listen(_connection: object, _pid: int, _channel: str, payload: str) -> None:
        if payload == "last":
            last.set()
        else:
            received.append(payload)

    session = await RawPostgres.connect(url)
    await session.connection.add_listener(channel, listen)
    yield received
    await session.execute(f"SELECT pg_notify('{channel}', 'last')")
    await asyncio.wait_for(last.wait(), PATIENCE)
    await session.connection.remove_listener(channel, listen)
    await session.close()
