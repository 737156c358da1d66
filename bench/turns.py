"""Fairness between applications: the latency of a quiet application beside one with thousands of busy, healthy endpoints.

Each run has a new database. The busy application has a backlog in every lane. The quiet one publishes a few messages per
second. A wait is the time from a message's acceptance (COMMIT has returned) to its arrival. The run without busy lanes shows
the latency of an idle system.

met: with any number of busy lanes, the quiet application's p50 is at most `--within` milliseconds (median of the rounds).
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
from collections.abc import Sequence

import uvloop
from msgspec import Struct
from rich.console import Console
from rich.table import Table

from bench.ground import BODY, application, database, opened, worker
from bench.isolation import HEALTHY, accept, settled, until, waits_of, warm
from bench.witness import Witness
from hookline.clock import monotonic
from hookline.model.catalogue import Application
from hookline.model.endpoints import Secret
from hookline.signing import new_secret
from hookline.store import Store
from tests.support import factory
from tests.support.processes import environment

BUSY = "busy"
TOGETHER = 8  # endpoints that are created concurrently


class Run(Struct, frozen=True, kw_only=True):
    engine: str
    lanes: int
    waits: list[float]  # milliseconds, sorted
    busy_rate: float  # deliveries per second of the busy application
    left: int  # deliveries left in the backlog of the busy application at the end

    def share(self, part: float) -> float:
        return self.waits[min(len(self.waits) - 1, int(len(self.waits) * part))]


def main() -> None:
    options = _options()
    console = Console()
    runs: list[Run] = []
    for _ in range(options.rounds):
        for engine in options.engines:
            for lanes in options.lanes:
                with database(engine) as url:
                    runs.append(uvloop.run(run(url, engine, lanes, options, console)))
    console.print(_table(runs))
    worst = max(statistics.median(run.share(0.5) for run in found) for found in _cases(runs).values())
    met = worst <= options.within
    console.print(
        f"{'met' if met else 'NOT MET'}: the quiet one waits {worst:.0f} ms at most (p50; {options.within:.0f})"
    )
    sys.exit(not met)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.turns", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    both = ["sqlite", "postgres"]
    parser.add_argument("--engines", nargs="+", choices=both, default=both)
    parser.add_argument("--lanes", nargs="+", type=int, default=[0, 100, 1000, 5000], help="number of busy lanes")
    parser.add_argument(
        "--backlog", type=int, default=100_000, help="waiting deliveries in all busy lanes together (100,000)"
    )
    parser.add_argument("--rate", type=int, default=20, help="messages per second of the quiet application (20)")
    parser.add_argument("--seconds", type=float, default=8.0, help="seconds of each run (8)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of all measurements, interleaved (3)")
    parser.add_argument("--within", type=float, default=60.0, help="limit of the p50 in milliseconds (60)")
    return parser.parse_args()


# ── one run ──


async def run(url: str, engine: str, lanes: int, options: argparse.Namespace, console: Console) -> Run:
    env = environment(url, HOOKLINE_REQUEST_TIMEOUT="30s", HOOKLINE_LEASE="60s")
    with Witness() as witness:
        store = await opened(url, env)
        quiet = await application(store, witness.url(HEALTHY))
        with console.status(f"{engine}, {lanes} busy lanes"):
            backlog = await _busy(store, witness, lanes, options.backlog)
            await settled(url)
            async with worker(store, env):
                await warm(store, [(quiet, HEALTHY)], witness)
                began, before = monotonic(), witness.count(BUSY)
                accepted = await accept(
                    store.pipeline.ingest, [(quiet, HEALTHY)], options.rate, options.seconds, "quiet", console
                )
                sent = witness.count(BUSY)
                rate = (sent - before) / (monotonic() - began)
                await until(witness, 1 + len(accepted))
        account = witness.account()
        await store.close()
    return Run(engine=engine, lanes=lanes, waits=waits_of(account, accepted), busy_rate=rate, left=backlog - sent)


async def _busy(store: Store, witness: Witness, lanes: int, backlog: int) -> int:
    """Create the busy application with its backlog, and return the number of waiting deliveries."""
    if not lanes:
        return 0
    organization = await store.catalogue.save_organization(factory.organization())
    app = await store.catalogue.create_application(organization.id, factory.new_application())
    for first in range(0, lanes, TOGETHER):
        urls = [witness.url(f"{BUSY}/{number}") for number in range(first, min(first + TOGETHER, lanes))]
        await asyncio.gather(*(_endpoint(store, app, url) for url in urls))
    messages = -(-backlog // lanes)
    together = max(1, 10_000 // lanes)
    for first in range(0, messages, together):
        count = min(together, messages - first)
        await store.pipeline.ingest([factory.new_message(app.no, payload=BODY) for _ in range(count)])
    return messages * lanes


async def _endpoint(store: Store, app: Application, url: str) -> None:
    await store.catalogue.create_endpoint(app.no, factory.new_endpoint(url=url, secrets=(Secret(key=new_secret()),)))


# ── results ──


def _cases(runs: Sequence[Run]) -> dict[tuple[str, int], list[Run]]:
    cases: dict[tuple[str, int], list[Run]] = {}
    for run in runs:
        cases.setdefault((run.engine, run.lanes), []).append(run)
    return cases


def _table(runs: Sequence[Run]) -> Table:
    table = Table(
        "waits of the quiet one, ms", "p50", "p90", "p99", "most", "p50 of each round", "busy deliveries/s", "left"
    )
    for (engine, lanes), found in _cases(runs).items():
        medians = [f"{statistics.median(run.share(part) for run in found):.1f}" for part in (0.5, 0.9, 0.99, 1.0)]
        rounds = ", ".join(f"{run.share(0.5):.1f}" for run in found)
        rate = f"{statistics.median(run.busy_rate for run in found):,.0f}"
        table.add_row(f"{engine}, {lanes:,} busy lanes", *medians, rounds, rate, f"{min(run.left for run in found):,}")
    return table


if __name__ == "__main__":
    main()
