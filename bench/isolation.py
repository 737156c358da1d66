"""Isolation: the latency of healthy endpoints beside endpoints that hang.

python -m bench.isolation                                    one endpoint that hangs, with 100,000 messages waiting
python -m bench.isolation --failing 1000                     1,000 endpoints that hang, with a few messages each
python -m bench.isolation --failing 1000 --same-application  the same, in the application of the healthy endpoints

Each round has one run with the failing endpoints and one without them. Each run has a new database and a steady flow of
messages to the healthy endpoints. A wait is the time from a message's acceptance (COMMIT has returned) to its arrival.
Requests to a failing endpoint hang until the deadline, or get a response after `--answers` seconds. A single failing endpoint
has its backlog before the flow begins. Many failing endpoints get their messages at the moment in which the flow begins, and
until then the worker has not sent anything to the healthy endpoints. One process accepts and delivers, as `hookline serve`
does. With `--two-processes`, the worker of PostgreSQL is another process, as with `hookline worker`.

met: the p99 of the healthy endpoints is at most 1.5 times that of the run without a failing endpoint (medians of the rounds),
and the failing lane never uses more slots of the worker than its share. With many failing endpoints, at most 2 times.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial

import asyncpg
import uvloop
from msgspec import Struct
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from bench.ground import BODY, application, database, endpoint, load_backlog, opened, worker, worker_here
from bench.witness import Account, Answer, Witness
from hookline.clock import monotonic
from hookline.config import load
from hookline.model.catalogue import Application
from hookline.model.messages import NewMessage
from hookline.store import Store
from hookline.store.stages import HandOver, no_hand_over
from tests.support import factory
from tests.support.processes import environment

HEALTHY, SICK = "healthy", "sick"
WITHIN, WITHIN_MANY = 1.5, 2.0
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
    many = options.failing > 1
    verdicts = [_verdict(engine, [run for run in runs if run.engine == engine], many) for engine in options.engines]
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
    parser.add_argument("--failing", type=int, default=1, help="failing endpoints (1)")
    parser.add_argument("--each", type=int, default=4, help="messages for each of many failing endpoints (4)")
    parser.add_argument("--deadline", type=int, default=30, help="seconds until a request that hangs is ended (30)")
    parser.add_argument(
        "--same-application", action="store_true", help="all endpoints belong to one application, not to one each"
    )
    parser.add_argument("--two-processes", action="store_true", help="run the worker of PostgreSQL in its own process")
    parser.add_argument("--silent", type=int, default=4096, help="HOOKLINE_SILENT_CONCURRENCY (4,096)")
    parser.add_argument("--rate", type=int, default=200, help="messages per second to the healthy endpoints (200)")
    parser.add_argument("--seconds", type=float, default=60.0, help="seconds of each run (60)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of all measurements, interleaved (3)")
    parser.add_argument("--answers", type=float, help="seconds after which the failing endpoint answers 200 (never)")
    return parser.parse_args()


# ── one run ──


async def run(url: str, engine: str, sick: bool, options: argparse.Namespace, console: Console) -> Run:
    deadline, many = options.deadline, options.failing > 1
    env = environment(
        url,
        HOOKLINE_REQUEST_TIMEOUT=f"{deadline}s",
        HOOKLINE_LEASE=f"{deadline + 30}s",
        HOOKLINE_SILENT_CONCURRENCY=str(options.silent),
    )
    with Witness() as witness:
        witness.answer(Answer(part=SICK, hang=options.answers is None, delay=options.answers or 0.0))
        async with _opened(url, env) as store:
            healthy = await _healthy(store, witness, options)
            failing = await _failing(store, witness, healthy[0][0], options) if sick else []
            if sick and not many:
                await load_backlog(store, failing, options.backlog, console)
            await settled(url)
            async with worker(store, env) if options.two_processes else worker_here(store, env) as hand_over:
                await warm(store, healthy if not many else [await _other(store, witness)], witness)
                if many and failing:
                    await store.pipeline.ingest([_message(failing[0], SICK) for _ in range(options.each)])
                name = f"{engine} {'with' if sick else 'without'} the failing endpoint{'s' if many else ''}"
                publish = partial(_publish, store, hand_over or no_hand_over)
                accepted = await accept(publish, healthy, options.rate, options.seconds, name, console)
                await until(witness, len(accepted) + (1 if many else len(healthy)))
        account = witness.account()
    return Run(
        engine=engine,
        sick=sick,
        waits=waits_of(account, accepted),
        most_sick=account.most.get(SICK, 0),
        sick_requests=sum(arrival.part == SICK for arrival in account.arrivals),
    )


Publish = Callable[[Sequence[NewMessage]], Awaitable[object]]
Flow = list[tuple[Application, str]]  # applications, and the channel of the healthy endpoint that gets the message


async def _healthy(store: Store, witness: Witness, options: argparse.Namespace) -> Flow:
    if not options.same_application:
        numbers = range(options.endpoints)
        return [(await application(store, witness.url(f"{HEALTHY}/{n}"), channel=HEALTHY), HEALTHY) for n in numbers]
    app = await application(store, witness.url(f"{HEALTHY}/0"), channel=f"{HEALTHY}0")
    for number in range(1, options.endpoints):
        await endpoint(store, app, witness.url(f"{HEALTHY}/{number}"), channel=f"{HEALTHY}{number}")
    return [(app, f"{HEALTHY}{number}") for number in range(options.endpoints)]


async def _failing(
    store: Store, witness: Witness, healthy: Application, options: argparse.Namespace
) -> list[Application]:
    """Create the failing endpoints. Return their application."""
    app = healthy if options.same_application else await application(store, witness.url(SICK), channel=SICK)
    for _ in range(options.failing - (not options.same_application)):
        await endpoint(store, app, witness.url(SICK), channel=SICK)
    return [app]


async def _other(store: Store, witness: Witness) -> tuple[Application, str]:
    """Create an endpoint whose first request shows that the worker has started."""
    return await application(store, witness.url(f"{HEALTHY}/other"), channel=HEALTHY), HEALTHY


def _message(app: Application, channel: str) -> NewMessage:
    return factory.new_message(app.no, payload=BODY, channels=[channel])


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


async def warm(store: Store, flow: Flow, witness: Witness) -> None:
    await store.pipeline.ingest([_message(*each) for each in flow])
    await until(witness, len(flow))


async def _publish(store: Store, hand_over: HandOver, messages: Sequence[NewMessage]) -> None:
    with hand_over(messages) as offer:
        await store.pipeline.ingest(messages, offer)


async def accept(
    publish: Publish, flow: Flow, rate: int, seconds: float, name: str, console: Console
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
            messages = [_message(*chance.choice(flow)) for _ in range(due)]
            if messages:
                await publish(messages)
                accepted |= dict.fromkeys((message.id for message in messages), monotonic())
                progress.update(task, completed=len(accepted))
            await asyncio.sleep(TICK)
    return accepted


async def until(witness: Witness, count: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while await asyncio.to_thread(witness.count, HEALTHY) < count:
            await asyncio.sleep(0.05)  # another process receives the requests, so there is no event to wait for


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


def _verdict(engine: str, runs: Sequence[Run], many: bool) -> tuple[bool, str]:
    without, beside = (statistics.median(run.share(0.99) for run in runs if run.sick == sick) for sick in (False, True))
    most, within = max(run.most_sick for run in runs), WITHIN_MANY if many else WITHIN
    config = load(environment("sqlite:///unused.db"))
    met = beside <= within * without and most > 0 and (many or most <= config.lane_share)
    ratio = f"{beside / without:.2f} times (at most {within})"
    text = f"{engine}: p99 {beside:.1f} ms beside the failing endpoints, {without:.1f} ms without them: {ratio}"
    if many:
        return met, f"{text}; at most {most} requests to failing endpoints in flight"
    return met, f"{text}; the failing lane used at most {most} slots (its share: {config.lane_share})"


if __name__ == "__main__":
    main()
