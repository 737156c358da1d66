"""The cost of reading `/metrics` and of sampling the database, with few and with many rows in history and backlog.

Reading is measured in CPU time, with the maximum number of series. Sampling is measured in elapsed time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Awaitable, Callable

import uvloop
from rich.console import Console
from rich.table import Table

from bench.ground import application, database, opened
from hookline.clock import monotonic
from hookline.observe.sampler import Sampler
from hookline.observe.tally import Tally
from hookline.web.metrics import Metrics
from tests.support.bulk import Bulk
from tests.support.processes import environment
from tests.support.raw import Raw, open_raw

_OF = "id, app_no, endpoint_no, message_seq, message_at, message_id, event_type"
EVENT_TYPES = 50


def main() -> None:
    options = _options()
    table = Table("engine", "history", "open", "read, CPU ms", "sample, ms", title="metrics, medians")
    for engine in options.engines:
        with database(engine) as url:
            uvloop.run(measure(engine, url, options.rows, table))
    console = Console()
    console.print(f"load of the machine: {os.getloadavg()[0]:.1f}; {os.cpu_count()} processors")
    console.print(table)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.metrics", description=__doc__)
    parser.add_argument("--engines", nargs="+", default=["sqlite", "postgres"], choices=["sqlite", "postgres"])
    parser.add_argument("--rows", type=int, default=1_000_000, help="finished deliveries, then also open deliveries")
    return parser.parse_args()


async def measure(engine: str, url: str, rows: int, table: Table) -> None:
    env = environment(url)
    store = await opened(url, env)
    await application(store, "http://127.0.0.1:40009/")
    raw = await open_raw(url)
    tally, sampler = busy(), Sampler(store, every=0.0)
    metrics = Metrics(tally, sampler, version="0", engine=engine, fresh=0.0)
    endpoints = await store.catalogue.endpoints_for([1])
    made = Bulk(engine, await raw.now(), endpoints)
    before = 0
    for history, waiting in ((10, 0), (rows, 0), (rows, rows)):
        await fill(raw, made, before, history, waiting)
        before = history
        await sampler.take()
        reading = await median(lambda: metrics.text(as_openmetrics=False), 30, time.process_time)
        sampling = await median(sampler.take, 7, monotonic)
        table.add_row(engine, f"{history:,}", f"{waiting:,}", f"{reading * 1000:.1f}", f"{sampling * 1000:.1f}")
    await raw.close()
    await store.close()


def busy() -> Tally:
    """Return a tally with the maximum number of series."""
    tally = Tally()
    for number in range(EVENT_TYPES):
        for outcome in ("delivered", "retry", "dead"):
            tally.attempt_seconds.observe(0.01, outcome, f"event.{number}")
        tally.lag.observe(0.01, f"event.{number}")
        tally.latency.observe(0.01, f"event.{number}")
        tally.answered("GET", f"/route/{number}", 200, 0.001)
    return tally


async def fill(raw: Raw, made: Bulk, before: int, history: int, waiting: int) -> None:
    key = f"n, {made.app}, {made.lane}, n, {made.ago('n * 0.001')}, {made.message}, 'order.paid'"
    if history > before:
        await raw.execute(
            f"INSERT INTO delivery_done ({_OF}, attempts, sent, finished_at)"
            f" SELECT {key}, 1, 1, {made.ago('n * 0.001')} FROM {made.rows(history)} WHERE n > {before}"
        )
    if waiting:
        await raw.execute(
            f"INSERT INTO delivery ({_OF}, state, due_at, expires_at) {made.forced}"
            f" SELECT {key}, n % 2, {made.ago('n * 0.001')}, {made.ago('-90000')} FROM {made.rows(waiting)}"
        )
    if raw.engine == "postgres":
        await raw.execute("VACUUM ANALYZE")


async def median(work: Callable[[], Awaitable[object]], times: int, clock: Callable[[], float]) -> float:
    taken = []
    for _ in range(times):
        began = clock()
        await work()
        taken.append(clock() - began)
    return statistics.median(taken)


if __name__ == "__main__":
    main()
