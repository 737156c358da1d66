"""`demo`: run Hookline with simulated customers, on a temporary database.

This process runs everything: the server, the application that publishes, and the endpoints, which work, fail, hang and
recover. Nothing leaves this machine.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Annotated

from typer import Option

from hookline import clock, config, ids
from hookline.cli import params
from hookline.cli.command import Command
from hookline.cli.demo.scenario import ENDPOINTS
from hookline.cli.demo.traffic import Api, introduce, stream
from hookline.cli.output import Output
from hookline.cli.serve import Role, run_parts, run_server
from hookline.cli.token import sign_in_link
from hookline.config import PREFIX, Config
from hookline.errors import ConfigError
from hookline.security import tokens
from hookline.server import logs, sockets

NO_LINK = "The links that sign in are shown on a terminal, or with --json."

# Retries and circuits are faster than in production, because a user watches the demo for minutes, not days.
SETTINGS = {
    "HOST": "127.0.0.1",
    "ALLOW_NETS": "127.0.0.0/8",
    "REQUEST_TIMEOUT": "3s",
    "CONNECT_TIMEOUT": "2s",
    "LEASE": "15s",
    "RETRY_BASE": "1s",
    "RETRY_FACTOR": "2",
    "RETRY_CAP": "20s",
    "RETRY_MAX_ATTEMPTS": "6",
    "CIRCUIT_COOLDOWN": "20s",
    "CIRCUIT_COOLDOWN_CAP": "60s",
    "ALERT_ENDPOINT_FOR": "3m",
    "PAUSE_DEAD_PER_DAY": "10000",
    "SHUTDOWN_TIMEOUT": "3s",
    "LOG_LEVEL": "error",
}


def demo(
    cmd: Command,
    port: Annotated[
        int, Option("--port", "-p", min=0, max=65535, help="The port. If it is in use, another one.")
    ] = 8071,
    rate: Annotated[float, Option(min=0.1, max=200, help="Messages per second.")] = 6.0,
    lasts: Annotated[str | None, Option("--for", metavar="DURATION", help="Stop after this time, such as 5m.")] = None,
) -> None:
    """Try Hookline with four simulated customers, endpoints that work, fail, hang and recover, and a stream of messages.

    hookline demo

    It uses a temporary database and sends only to this machine. It does not touch your settings and data. Ctrl-C ends it.
    """
    seconds = None if lasts is None else params.read_span("--for", lasts, 86_400).total_seconds()
    run_parts(_demo(cmd.out, port, rate, seconds))


async def _demo(out: Output, port: int, rate: float, seconds: float | None) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="hookline-demo-", ignore_cleanup_errors=True) as directory,
        sockets.stop_on_signals() as stop,
    ):
        given = SETTINGS | {"DATABASE_URL": f"sqlite:///{directory}/hookline.db"}
        settings = config.load({PREFIX + name: value for name, value in given.items()})
        logs.configure(settings)
        async with _receivers() as receivers, _server(settings, port) as address:
            token = tokens.issue(settings.jwt_secret, ids.DEFAULT_ORG, now=clock.wall())
            api = Api(address, token)
            await introduce(api, receivers)
            links = await _links(api, address, receivers, token)
            out.result(links, as_text=lambda: _banner(out, links))
            sys.stdout.flush()
            async with asyncio.TaskGroup() as parts:
                streaming = parts.create_task(stream(api, rate, clock.chance))
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), seconds)
                streaming.cancel()


# ── the endpoints and the server of the demo ──────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def _receivers() -> AsyncIterator[str]:
    """Run the endpoints. They stop after the server, so that its last requests get a response."""
    from hookline.cli.demo.receivers import Receivers
    from hookline.server import http

    listener = sockets.bind("127.0.0.1", 0)
    stop = asyncio.Event()
    app = Receivers(clock.monotonic, clock.chance)
    serving = asyncio.create_task(http.serve(app, listener, stop=stop, grace=1))
    try:
        yield sockets.address(listener)
    finally:
        stop.set()
        await serving


@asynccontextmanager
async def _server(settings: Config, port: int) -> AsyncIterator[str]:
    """Run the API, the dashboard and a worker. Yields their address."""
    listener, leaving, ready = bind(port), asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as parts:
        parts.create_task(run_server(settings, listener, Role.ALL, 1, leaving=leaving, ready=ready.set))
        await ready.wait()
        try:
            yield sockets.address(listener)
        finally:
            leaving.set()


def bind(port: int) -> socket.socket:
    """Bind this port. If it is in use, bind any free port."""
    try:
        return sockets.bind("127.0.0.1", port)
    except ConfigError:
        return sockets.bind("127.0.0.1", 0)


# ── what the demo prints at its start ─────────────────────────────────────────────────────────────────────────────


async def _links(api: Api, address: str, receivers: str, token: str) -> dict[str, str]:
    """Return the addresses and the token that the demo prints. The links to dashboard and portal sign the user in."""
    key = await api.post("/api-key", {"name": "demo", "scope": "full"})
    portal = await api.post("/auth/app-portal-access/globex")
    return {
        "address": address,
        "dashboard": sign_in_link(address, key["key"]),
        "portal": portal["url"],
        "receivers": receivers,
        "token": token,
    }


def _banner(out: Output, links: dict[str, str]) -> None:
    words = "Open this; it signs you in:" if out.human else NO_LINK
    out.line(f"Hookline is running, with simulated customers. {words}")
    out.line()
    out.line(f"  {links['dashboard' if out.human else 'address']}")
    out.line()
    out.line("The endpoints:")
    for endpoint in ENDPOINTS:
        out.line(f"  {endpoint.customer.name:<20}{endpoint.uid:<11}{endpoint.words}")
    out.line()
    if out.human:
        out.line("The portal that the customer Globex sees:")
        out.line(f"  {links['portal']}")
        out.line()
    out.line("The database is temporary. Nothing leaves this machine. Ctrl-C ends it.")
