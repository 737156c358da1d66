"""uvicorn, started and stopped by us, without signal handlers of its own."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from functools import partial

import uvicorn
from starlette.types import ASGIApp

from hookline.server.connection import Connection
from hookline.server.connection_limits import ConnectionLimits, within_file_limit


class _Server(uvicorn.Server):
    """Signals belong to the command, which has more to stop than this server."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(
    app: ASGIApp, listener: socket.socket, *, stop: asyncio.Event, grace: float, room: ConnectionLimits | None = None
) -> None:
    """Answer requests until the stop, then finish those under way."""
    room = room or ConnectionLimits(most=within_file_limit())
    config = uvicorn.Config(
        app,
        http=partial(Connection, room=room),  # type: ignore[arg-type]
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # see `web/forwarded.py`
        timeout_graceful_shutdown=max(1, round(grace)),
    )
    server = _Server(config)
    running = asyncio.create_task(server.serve(sockets=[listener]))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        server.should_exit = True
        await running
    finally:
        stopping.cancel()
        running.cancel()
