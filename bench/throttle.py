"""The request rate at an endpoint with a throttle of 20 requests per second, a large backlog and several workers.

The first ten seconds after the first request are measured. The limits below may not hold on a busy machine.
`tests/e2e/test_throttle.py` has weaker limits that hold there too.

met: at most 22 requests in any period of one second, and at least 18 per second on average.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import uvloop
from msgspec import Struct
from rich.console import Console
from rich.table import Table

from bench.ground import database, opened
from hookline.clock import monotonic
from tests.e2e.test_throttle import RATE, SETTINGS, all_at_work, endpoints, workers
from tests.support import factory
from tests.support.processes import environment
from tests.support.receiver import Receiver

MOST, LEAST = 22, 18


class Run(Struct, frozen=True, kw_only=True):
    engine: str
    workers: int
    average: float
    busiest: int

    @property
    def met(self) -> bool:
        return self.busiest <= MOST and self.average >= LEAST


def main() -> None:
    options = _options()
    console = Console()
    runs: list[Run] = []
    busy = []
    for _ in range(options.rounds):
        busy.append(f"{os.getloadavg()[0]:.1f}")
        for engine, count in (("postgres", options.workers), ("sqlite", 1)):
            with console.status(f"{engine}, {count} workers"), database(engine) as url:
                runs.append(uvloop.run(run(url, engine, count, options.seconds)))
    console.print(f"load of the machine before each round: {', '.join(busy)}; {os.cpu_count()} processors")
    table = Table("", "workers", "a second on average", "in the busiest second", title=f"a throttle of {RATE} a second")
    for found in runs:
        table.add_row(found.engine, str(found.workers), f"{found.average:.1f}", str(found.busiest))
    console.print(table)
    failed = [found for found in runs if not found.met]
    bounds = f"at most {MOST} in any second and at least {LEAST} on average, over {options.seconds:.0f} s"
    console.print(f"{'NOT MET' if failed else 'met'} in {len(runs) - len(failed)} of {len(runs)} runs: {bounds}")
    sys.exit(bool(failed))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.throttle", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=4, help="workers on PostgreSQL (4); SQLite has one")
    parser.add_argument("--seconds", type=float, default=10.0, help="seconds of each run (10)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, each with both engines (3)")
    return parser.parse_args()


async def run(url: str, engine: str, count: int, seconds: float) -> Run:
    env = environment(url, **SETTINGS)
    store = await opened(url, env)
    with Receiver() as receiver, tempfile.TemporaryDirectory() as directory, workers(count, env, Path(directory)):
        app_no = await endpoints(store, receiver.url)
        slow = await all_at_work(store, app_no, receiver, count)
        await store.pipeline.ingest(factory.new_messages(app_no, int(RATE * (seconds + 5)), event_type="throttled"))
        first = (await receiver.arrived(slow + 1))[-1].at
        await asyncio.sleep(first + seconds - monotonic())
        arrived = [received.at for received in receiver.requests if received.path == "/throttled"]
    await store.close()
    counted = [at for at in arrived if at < first + seconds]
    return Run(engine=engine, workers=count, average=len(counted) / seconds, busiest=most_within(counted, 1.0))


def most_within(instants: Sequence[float], seconds: float) -> int:
    """Return the largest number of instants within any period of `seconds`."""
    most = first = 0
    for last, at in enumerate(instants):
        while at - instants[first] >= seconds:
            first += 1
        most = max(most, last - first + 1)
    return most


if __name__ == "__main__":
    main()
