"""Isolation: the latency of healthy endpoints beside one endpoint that hangs and has a large backlog.

Each round has one run with the failing endpoint and one without it. Each run has a new database and a steady flow of messages
to the healthy endpoints, one application each. A wait is the time from a message's acceptance (COMMIT has returned) to its
arrival. Requests to the failing endpoint hang until the deadline of 30 s, or get a response after `--answers` seconds.

met: the p99 of the healthy endpoints is at most 1.5 times that of the run without the failing endpoint (medians of the
rounds), and the failing lane never uses more slots of the worker than its share.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import asyncpg
import uvloop
from msgspec import Struct
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from bench.ground import BODY, application, database, load_backlog, opened, worker
from bench.witness import Account, Answer, Witness
from hookline.clock import monotonic
from hookline.config import load
from hookline.model.catalogue import Application
from hookline.store import Store
from tests.support import factory
from tests.support.processes import environment

HEALTHY, SICK = "healthy", "sick"
WITHIN = 1.5
PATIENCE = 60.0  # maximum seconds to wait for the last messages
TICK = 0.002  # seconds between two transactions of the flow


class Run(Struct, frozen=True, kw_only=True):
    engine: str
    sick: bool
    waits: list[float]  # milliseconds, sorted
    most_sick: int  # maximum number of requests in flight to the failing endpoint
    sick_requests: int

    def share(self, part: float) -> float:
        return self.waits[min(len(self.waits) - 1, int(len(self.waits) * part))]


def main() -> None:
    options = _options()
    console = Console()
    runs: list[Run] = []
    busy = []
    for number in range(options.rounds):
        busy.append(f"{os.getloadavg()[0]:.1f}")
        for engine in options.engines:
            for sick in (False, True) if number % 2 == 0 else (True, False):
                with database(engine) as url:
                    runs.append(uvloop.run(run(url, engine, sick, options, console)))
    console.print(f"load of the machine before each round: {', '.join(busy)}; {os.cpu_count()} processors")
    console.print(_table(runs))
    verdicts = [_verdict(engine, [run for run in runs if run.engine == engine]) for engine in options.engines]
    for met, text in verdicts:
        console.print(f"{'met' if met else 'NOT MET'}: {text}", highlight=False)
    sys.exit(not all(met for met, _ in verdicts))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.isolation", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    both = ["sqlite", "postgres"]
    parser.add_argument("--engines", nargs="+", choices=both, default=both)
    parser.add_argument("--endpoints", type=int, default=200, help="healthy endpoints (200)")
    parser.add_argument(
        "--backlog", type=int, default=100_000, help="messages that wait for the failing endpoint (100,000)"
    )
    parser.add_argument("--rate", type=int, default=200, help="messages per second to the healthy endpoints (200)")
    parser.add_argument("--seconds", type=float, default=60.0, help="seconds of each run (60)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of all measurements, interleaved (3)")
    parser.add_argument("--answers", type=float, help="seconds after which the failing endpoint answers 200 (never)")
    return parser.parse_args()


# ── one run ──


async def run(url: str, engine: str, sick: bool, options: argparse.Namespace, console: Console) -> Run:
    env = environment(url, HOOKLINE_REQUEST_TIMEOUT="30s", HOOKLINE_LEASE="60s")
    with Witness() as witness:
        witness.answer(Answer(part=SICK, hang=options.answers is None, delay=options.answers or 0.0))
        async with _opened(url, env) as store:
            apps = [await application(store, witness.url(f"{HEALTHY}/{n}")) for n in range(options.endpoints)]
            if sick:
                await load_backlog(store, [await application(store, witness.url(SICK))], options.backlog, console)
            await settled(url)
            async with worker(store, env):
                await warm(store, apps, witness)
                name = f"{engine} {'with' if sick else 'without'} the failing endpoint"
                accepted = await accept(store, apps, options.rate, options.seconds, name, console)
                await until(witness, len(apps) + len(accepted))
        account = witness.account()
    return Run(
        engine=engine,
        sick=sick,
        waits=waits_of(account, accepted),
        most_sick=account.most.get(SICK, 0),
        sick_requests=sum(arrival.part == SICK for arrival in account.arrivals),
    )


@asynccontextmanager
async def _opened(url: str, env: dict[str, str]) -> AsyncIterator[Store]:
    store = await opened(url, env)
    yield store
    await store.close()


async def settled(url: str) -> None:
    """Make PostgreSQL finish writing the backlog, so that this work does not slow down the measured run."""
    if url.startswith("postgres"):
        session = await asyncpg.connect(url)
        await session.execute("CHECKPOINT")
        await session.execute("VACUUM ANALYZE")
        await session.close()


async def warm(store: Store, apps: Sequence[Application], witness: Witness) -> None:
    await store.pipeline.ingest([factory.new_message(app.no, payload=BODY) for app in apps])
    await until(witness, len(apps))


async def accept(
    store: Store, apps: Sequence[Application], rate: int, seconds: float, name: str, console: Console
) -> dict[str, float]:
    """Publish a steady flow of messages, and return when each was accepted. Due messages share one transaction."""
    chance = random.Random(1)
    accepted: dict[str, float] = {}
    total = int(rate * seconds)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,}"), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, refresh_per_second=1) as progress:
        task = progress.add_task(name, total=total)
        start = monotonic()
        while len(accepted) < total:
            due = min(total, int((monotonic() - start) * rate)) - len(accepted)
            messages = [factory.new_message(chance.choice(apps).no, payload=BODY) for _ in range(due)]
            if messages:
                await store.pipeline.ingest(messages)
                accepted |= dict.fromkeys((message.id for message in messages), monotonic())
                progress.update(task, completed=len(accepted))
            await asyncio.sleep(TICK)
    return accepted


async def until(witness: Witness, count: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while await asyncio.to_thread(witness.count, HEALTHY) < count:
            await asyncio.sleep(0.05)  # another process receives them, so there is no event to wait for


def waits_of(account: Account, accepted: dict[str, float]) -> list[float]:
    """Return the sorted waits in milliseconds. A message that arrived before its COMMIT returned counts as 0."""
    first: dict[str, float] = {}
    for arrival in account.arrivals:
        first.setdefault(arrival.message_id, arrival.at)
    return sorted(max(0.0, first[message] - at) * 1000 for message, at in accepted.items())


# ── results ──


def _table(runs: Sequence[Run]) -> Table:
    table = Table(
        "waits of healthy endpoints, ms", "p50", "p90", "p99", "max", "p99 of each round", "most failing in flight"
    )
    for engine, sick in dict.fromkeys((run.engine, run.sick) for run in sorted(runs, key=lambda run: run.engine)):
        found = [run for run in runs if (run.engine, run.sick) == (engine, sick)]
        medians = [f"{statistics.median(run.share(part) for run in found):.1f}" for part in (0.5, 0.9, 0.99, 1.0)]
        rounds = ", ".join(f"{run.share(0.99):.1f}" for run in found)
        most = f"{max(run.most_sick for run in found)} (of {sum(run.sick_requests for run in found)} requests)"
        name = f"{engine}, {'with' if sick else 'without'} the failing endpoint"
        table.add_row(name, *medians, rounds, most if sick else "")
    return table


def _verdict(engine: str, runs: Sequence[Run]) -> tuple[bool, str]:
    without, beside = (statistics.median(run.share(0.99) for run in runs if run.sick == sick) for sick in (False, True))
    most = max(run.most_sick for run in runs)
    config = load(environment("sqlite:///unused.db"))
    met = beside <= WITHIN * without and 0 < most <= config.lane_share
    text = (
        f"{engine}: p99 {beside:.1f} ms beside the failing endpoint, {without:.1f} ms without it: {beside / without:.2f} times "
        f"(at most {WITHIN}); the failing lane used {most} of {config.concurrency} slots at most (its share: {config.lane_share})"
    )
    return met, text


if __name__ == "__main__":
    main()
