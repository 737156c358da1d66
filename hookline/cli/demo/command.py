"""`demo`: Hookline with customers who never sleep, on a database that is gone afterwards.

The server is a process of its own, as it is deployed. This one is the world around it: the application that publishes, and the
endpoints, which behave, fail, hang and recover. Nothing leaves this machine.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from msgspec import Struct

from hookline import clock, config, ids
from hookline.cli import params
from hookline.cli.demo.cast import CUSTOMERS
from hookline.cli.demo.traffic import Api, DemoFailed, introduce, stream
from hookline.cli.output import Output
from hookline.config import PREFIX
from hookline.errors import ConfigError
from hookline.server import sockets as listeners

SERVER = (sys.executable, "-P", "-m", "hookline.cli.demo.server", "serve", "--json")
KEPT = "The links that sign in are shown on a terminal, or with --json."
PATIENCE = 10.0  # seconds for the server to end by itself

# Everything happens sooner than it should: who looks has minutes, not days.
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


class Shown(Struct, frozen=True, kw_only=True, rename="camel"):
    """Where to look."""

    address: str
    dashboard: str  # signs in by itself
    portal: str
    receivers: str
    token: str


def demo(
    port: Annotated[int, typer.Option("--port", "-p", min=0, max=65535, help="Another, if it is taken.")] = 8071,
    rate: Annotated[float, typer.Option("--rate", min=0.1, max=200, help="Messages a second.")] = 6.0,
    lasts: Annotated[str | None, typer.Option("--for", metavar="DURATION", help="End by itself: 5m.")] = None,
    as_json: params.Json = False,
) -> None:
    """See it alive: Hookline with four customers, endpoints that behave, fail, hang and recover, and a stream of messages.

    hookline demo

    It works on a temporary database and sends to this machine only; your own settings and data are not touched. Ctrl-C ends it.
    """
    seconds = None if lasts is None else params.read_span("--for", lasts, 86_400).total_seconds()
    asyncio.run(_demo(Output(as_json), port, rate, seconds))


async def _demo(out: Output, port: int, rate: float, seconds: float | None) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="hookline-demo-", ignore_cleanup_errors=True) as directory,
        listeners.stop_on_signals() as stop,
    ):
        async with _received() as receivers, _served(Path(directory), port) as (address, token):
            api = Api(address, token)
            await introduce(api, receivers)
            shown = await _shown(api, address, receivers, token)
            out.result(shown, people=lambda: _banner(out, shown))
            sys.stdout.flush()
            await _until(stop, seconds, asyncio.create_task(stream(api, rate, clock.chance)))


async def _until(stop: asyncio.Event, seconds: float | None, streaming: asyncio.Task[None]) -> None:
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({stopped, streaming}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if streaming.done() and not stop.is_set():
        streaming.result()  # says why
    streaming.cancel()
    await asyncio.wait({streaming})


# ── the parts ─────────────────────────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def _received() -> AsyncIterator[str]:
    """The endpoints, until the server is gone: what it has under way is answered."""
    from hookline.cli.demo.receivers import Receivers
    from hookline.server import http

    listener = listeners.bind("127.0.0.1", 0)
    stop = asyncio.Event()
    app = Receivers(clock.monotonic, clock.chance)
    serving = asyncio.create_task(http.serve(app, listener, stop=stop, grace=1))
    try:
        yield listeners.address(listener)
    finally:
        stop.set()
        await serving


@asynccontextmanager
async def _served(directory: Path, port: int) -> AsyncIterator[tuple[str, str]]:
    """`hookline serve`; its address and a token."""
    from hookline.security import tokens

    pipe = asyncio.subprocess.PIPE
    with _bound(port) as listener:
        env, bound = _environment(directory), listener.fileno()
        child = await asyncio.create_subprocess_exec(
            *SERVER, "--listener", str(bound), env=env, stdin=pipe, stdout=pipe, pass_fds=[bound]
        )
    try:
        address = await _announced(child)
        yield address, tokens.issue(config.load(env).jwt_secret, ids.DEFAULT_ORG, now=clock.wall())
    finally:
        await _end(child)


def _environment(directory: Path) -> dict[str, str]:
    """Nothing of the caller's own deployment."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    given = SETTINGS | {"DATABASE_URL": f"sqlite:///{directory}/hookline.db"}
    return kept | {PREFIX + name: value for name, value in given.items()}


def _bound(port: int) -> socket.socket:
    """To this one, or any. The server inherits it: a port that was only found free could be somebody's when it starts."""
    try:
        return listeners.bind("127.0.0.1", port)
    except ConfigError:
        return listeners.bind("127.0.0.1", 0)


async def _announced(child: asyncio.subprocess.Process) -> str:
    assert child.stdout is not None
    line = await child.stdout.readline()
    if not line:
        raise DemoFailed("the server did not start; its own lines say why")
    found = msgspec.json.decode(line)
    address: str = found["address"]
    return address


async def _end(child: asyncio.subprocess.Process) -> None:
    """A Ctrl-C has reached it too; a signal to us alone has not."""
    if child.returncode is None:
        child.terminate()
    try:
        await asyncio.wait_for(child.wait(), PATIENCE)
    except TimeoutError:
        child.kill()
        await child.wait()


# ── the first output ──────────────────────────────────────────────────────────────────────────────────────────────


async def _shown(api: Api, address: str, receivers: str, token: str) -> Shown:
    key = await api.post("/api-key", {"name": "demo", "scope": "full"})
    portal = await api.post("/auth/app-portal-access/globex")
    return Shown(
        address=address,
        dashboard=f"{address}/login#token={key['key']}",
        portal=portal["url"],
        receivers=receivers,
        token=token,
    )


def _banner(out: Output, shown: Shown) -> None:
    words = "Open this; it signs you in:" if out.human else KEPT
    out.line(f"Hookline is running, with customers who never sleep. {words}")
    out.line()
    out.line(f"  {shown.dashboard if out.human else shown.address}")
    out.line()
    out.line("What plays there:")
    for customer in CUSTOMERS:
        for endpoint in customer.endpoints:
            out.line(f"  {customer.name:<20}{endpoint.uid:<11}{endpoint.words}")
    out.line()
    if out.human:
        out.line("What the customer Globex sees, in their portal:")
        out.line(f"  {shown.portal}")
        out.line()
    out.line("The database is temporary, and nothing leaves this machine. Ctrl-C ends it.")
