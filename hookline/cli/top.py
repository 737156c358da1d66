"""`top`: the whole fleet on one screen, from any machine that reaches the database."""

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
import typer
from msgspec.structs import replace
from rich.console import Console, Group
from rich.live import Live

from hookline.cli import params, top_view
from hookline.cli.output import Output
from hookline.cli.session import existing_config, run
from hookline.cli.top_view import Picture
from hookline.config import shown_url
from hookline.errors import InvalidInput, StoreUnavailable
from hookline.model.pulses import EVERY, Pulse
from hookline.observe.fleet_overview import WINDOW, overview
from hookline.server import process
from hookline.server import sockets as listeners
from hookline.store.outage import pause
from hookline.store.protocols import Page, Store

MAX_SICK = 8
MAX_ALERTS = 100  # more than fire at once: each rule tells of some twenty by name, and of the rest as one
FRESH = 2.0  # seconds that a counting of what is open is good for
_LATE = timedelta(seconds=2 * EVERY)  # a pulse may be committed after a later one was seen

Every = Annotated[float, typer.Option("--every", help="Seconds between two looks.")]
Once = Annotated[bool, typer.Option("--once", help="Print it once, and end.")]


def top(every: Every = 2.0, once: Once = False, as_json: params.Json = False) -> None:
    """Watch rates, depths, latencies, the sickest endpoints and the alerts of all processes on this database; q ends it.

    hookline top

    hookline top --once --json

    Processes tell what they did every ten seconds; what waits is counted when it is looked at.
    """
    if not 0.2 <= every <= 3600:
        raise InvalidInput("--every takes a number from 0.2 to 3600")
    out = Output(as_json)
    if out.screen and not once:
        run(_watch(every))
    else:
        picture = run(_once())
        out.result(document(picture), people=lambda: _print(picture, out.width))


def _print(picture: Picture, width: int) -> None:
    console = Console(highlight=False, soft_wrap=True)
    for line in top_view.lines(picture, width):
        console.print(line)


async def _once() -> Picture:
    config = existing_config()
    async with process.opened(config, migrate=False) as store:
        return await PulseReader(store, shown_url(config.database_url)).look()


async def _watch(every: float) -> None:
    config = existing_config()
    console = Console(highlight=False)
    async with process.opened(config, migrate=False) as store:
        looker = PulseReader(store, shown_url(config.database_url))
        picture = await looker.look()
        with (
            listeners.stop_on_signals() as done,  # however it ends, the terminal is given back as it was
            _keys(done),
            Live(console=console, screen=True, auto_refresh=False) as live,
        ):
            while not done.is_set():
                live.update(Group(*top_view.screen(picture, console.width, console.height)), refresh=True)
                await pause(every, done)
                picture = await _unless(done, looker, picture)


async def _unless(done: asyncio.Event, looker: PulseReader, before: Picture) -> Picture:
    """The next picture; the one before where the database is away, or nobody looks any more."""
    looking, leaving = asyncio.create_task(looker.look()), asyncio.create_task(done.wait())
    try:
        await asyncio.wait({looking, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return looking.result() if looking.done() else before
    except StoreUnavailable as error:
        return replace(before, trouble=str(error))
    finally:
        for task in (looking, leaving):
            task.cancel()
        await asyncio.wait({looking, leaving})


@contextmanager
def _keys(done: asyncio.Event) -> Iterator[None]:
    """Single keys, without Enter and without their echo."""
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
    """Remembers the pulses of the last minutes, and asks only for those that are new."""

    def __init__(self, store: Store, database: str) -> None:
        self._store = store
        self._database = database
        self._pulses: dict[tuple[datetime, str], Pulse] = {}

    async def look(self) -> Picture:
        now = await self._store.now()
        await self._learn(now)
        seen = overview(list(self._pulses.values()), now, limit=MAX_SICK)
        unwell = await self._store.unhealthy_endpoints([sick.endpoint_no for sick in seen.failing], MAX_SICK)
        return Picture(
            database=self._database,
            overview=seen,
            depths=await self._store.depths(fresh=FRESH),
            alerts=await self._store.alerts(Page(limit=MAX_ALERTS), firing=True),
            unwell={each.endpoint_no: each for each in unwell},
        )

    async def _learn(self, now: datetime) -> None:
        newest = max((at for at, _ in self._pulses), default=now - WINDOW)
        found = await self._store.pulses(max(newest - _LATE, now - WINDOW), now)
        known = {key: pulse for key, pulse in self._pulses.items() if pulse.at > now - WINDOW}
        known |= {(pulse.at, pulse.process): pulse for pulse in found}
        self._pulses = dict(sorted(known.items()))


def document(picture: Picture) -> dict[str, object]:
    """In the API's spelling; endpoints by their ids."""
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
                "endpointId": picture.unwell[sick.endpoint_no].endpoint_id,
                "good": sick.good,
                "failed": sick.failed,
                "circuit": picture.unwell[sick.endpoint_no].circuit.name.lower(),
            }
            for sick in seen.failing
            if sick.endpoint_no in picture.unwell
        ],
        "alerts": [msgspec.to_builtins(alert) for alert in picture.alerts],
    }
