"""Runs uvicorn without its own signal handlers."""

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
    """A server that ignores signals. The command handles them, because it has other parts to stop too."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(
    app: ASGIApp, listener: socket.socket, *, stop: asyncio.Event, grace: float, room: ConnectionLimits | None = None
) -> None:
    """Answer requests until `stop` is set, then finish those in progress. Cancel those that need more than `grace`
    seconds."""
    room = room or ConnectionLimits(limit=within_file_limit())
    config = uvicorn.Config(
        app,
        http=partial(Connection, room=room),  # type: ignore[arg-type]
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # `web/forwarded.py` reads them instead
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
