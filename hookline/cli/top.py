"""`top`: show all processes of a deployment on one screen, from any machine that reaches the database."""

from __future__ import annotations

import asyncio
import os
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Annotated

import msgspec
from msgspec.structs import replace
from rich.console import Console, Group
from rich.live import Live
from typer import Option

from hookline.cli import top_view
from hookline.cli.command import Command
from hookline.cli.session import existing_config
from hookline.cli.top_view import Picture
from hookline.config import shown_url
from hookline.errors import InvalidInput, StoreUnavailable
from hookline.model.pulses import EVERY, Pulse
from hookline.observe.fleet_overview import WINDOW, overview
from hookline.server import process, sockets
from hookline.store import Page, Store
from hookline.store.outage import pause

MAX_FAILING = 8  # maximum number of failing endpoints that are listed
MAX_ALERTS = 100  # alerts that are read; this is enough, because a rule has at most about twenty alerts
FRESH = 2.0  # seconds for which a count of open deliveries may be reused
# Processes may commit their pulses out of order. So each update reads the pulses of this time span before the newest
# known pulse once more.
_LATE = timedelta(seconds=2 * EVERY)

Every = Annotated[float, Option("--every", help="Seconds between two updates.")]
Once = Annotated[bool, Option("--once", help="Print once and exit.")]


async def top(cmd: Command, every: Every = 2.0, once: Once = False) -> None:
    """Watch rates, backlog, latencies, failing endpoints and alerts of all processes on this database. The key q ends it.

    hookline top

    hookline top --once --json

    Processes report rates and latencies every ten seconds. The backlog is counted at each update.
    """
    if not 0.2 <= every <= 3600:
        raise InvalidInput("--every takes a number from 0.2 to 3600")
    config = existing_config()
    async with process.opened(config, migrate=False) as store:
        reader = PulseReader(store, shown_url(config.database_url))
        picture = await reader.read()
        if cmd.out.screen and not once:
            await _watch(reader, picture, every)
            return
    cmd.out.result(document(picture), as_text=lambda: _print(picture, cmd.out.width))


def _print(picture: Picture, width: int) -> None:
    console = Console(highlight=False, soft_wrap=True)
    for line in top_view.lines(picture, width):
        console.print(line)


async def _watch(reader: PulseReader, picture: Picture, every: float) -> None:
    console = Console(highlight=False)
    with (
        sockets.stop_on_signals() as done,  # so that the terminal is restored after a signal too
        _keys(done),
        Live(console=console, screen=True, auto_refresh=False) as live,
    ):
        while not done.is_set():
            live.update(Group(*top_view.screen(picture, console.width, console.height)), refresh=True)
            await pause(every, done)
            picture = await _next(done, reader, picture)


async def _next(done: asyncio.Event, reader: PulseReader, before: Picture) -> Picture:
    """Read the next picture. If the user ends the command, return `before`. If the database is unavailable, return
    `before` with the error as its `trouble`."""
    reading, leaving = asyncio.create_task(reader.read()), asyncio.create_task(done.wait())
    try:
        await asyncio.wait({reading, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return reading.result() if reading.done() else before
    except StoreUnavailable as error:
        return replace(before, trouble=str(error))
    finally:
        for task in (reading, leaving):
            task.cancel()
        await asyncio.wait({reading, leaving})


@contextmanager
def _keys(done: asyncio.Event) -> Iterator[None]:
    """Read single keys, without Enter and without echo. The key q sets `done`."""
    loop, number = asyncio.get_running_loop(), sys.stdin.fileno()
    if not sys.stdin.isatty():
        yield
        return

    def pressed() -> None:
        given = os.read(number, 64)
        if not given or given[:1] in (b"q", b"Q", b"\x03", b"\x04"):
            done.set()

    before = termios.tcgetattr(number)
    tty.setcbreak(number)
    loop.add_reader(number, pressed)
    try:
        yield
    finally:
        loop.remove_reader(number)
        termios.tcsetattr(number, termios.TCSADRAIN, before)


class PulseReader:
    """Reads the pulses of all processes. It keeps the pulses of the last five minutes. Each update reads only newer
    pulses and, because of `_LATE`, the newest known ones once more."""

    def __init__(self, store: Store, database: str) -> None:
        self._store = store
        self._database = database
        self._pulses: dict[tuple[datetime, str], Pulse] = {}

    async def read(self) -> Picture:
        now = await self._store.now()
        await self._read_pulses(now)
        seen = overview(list(self._pulses.values()), now, limit=MAX_FAILING)
        unhealthy = await self._store.monitoring.unhealthy_endpoints(list(seen.failing), MAX_FAILING)
        return Picture(
            database=self._database,
            overview=seen,
            depths=await self._store.monitoring.depths(fresh=FRESH),
            alerts=await self._store.monitoring.alerts(Page(limit=MAX_ALERTS), firing=True),
            unhealthy={each.endpoint_no: each for each in unhealthy},
        )

    async def _read_pulses(self, now: datetime) -> None:
        newest = max((at for at, _ in self._pulses), default=now - WINDOW)
        found = await self._store.monitoring.pulses(max(newest - _LATE, now - WINDOW), now)
        known = {key: pulse for key, pulse in self._pulses.items() if pulse.at > now - WINDOW}
        known |= {(pulse.at, pulse.process): pulse for pulse in found}
        self._pulses = dict(sorted(known.items()))


def document(picture: Picture) -> dict[str, object]:
    """Return the document of `--json`, with field names in the style of the API."""
    seen, depths = picture.overview, picture.depths
    return {
        "at": seen.at,
        "processes": seen.processes,
        "inFlight": seen.in_flight,
        "slots": seen.slots,
        "rates": {name: {"minute": rate.recent, "fiveMinutes": rate.window} for name, rate in seen.rates.items()},
        "latency": seen.latency,
        "firstAttemptLatency": seen.first_attempt,
        "requestDuration": seen.request,
        "attempts": seen.attempts,
        "results": seen.results,
        "due": depths.due,
        "oldestDueSeconds": depths.backlog_age,
        "held": depths.held,
        "open": depths.states,
        "dead": depths.dead,
        "circuits": depths.circuits,
        "lanes": depths.lanes,
        "outbox": {
            "waiting": depths.outbox_waiting,
            "lagSeconds": max(depths.outbox_lag, seen.outbox_lag),
            "setAside": depths.outbox_set_aside,
        },
        "sickest": [
            {
                "endpointId": picture.unhealthy[no].endpoint_id,
                "good": good,
                "failed": failed,
                "circuit": picture.unhealthy[no].circuit.name.lower(),
            }
            for no, (good, failed) in seen.failing.items()
            if no in picture.unhealthy
        ],
        "alerts": [msgspec.to_builtins(alert) for alert in picture.alerts],
    }
