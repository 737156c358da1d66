"""The outbox: the time from COMMIT to the arrival of the request, and the cost of a publish for its transaction.

latency     50 transactions per second with one event each; measured from the start and from the return of COMMIT
throughput  transactions per second with one INSERT, with and without an event; 1 and 16 clients, interleaved (PostgreSQL)
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sqlite3
import statistics
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import uvloop
from rich.console import Console
from rich.table import Table

from bench.ground import BODY, application, database, opened
from hookline import outbox
from hookline.clock import monotonic
from hookline.outbox import setup
from hookline.store import Store
from tests.support.processes import environment, running
from tests.support.receiver import Receiver

RATE = 50  # transactions per second
WARM = 25  # transactions before the measurement starts
CLIENTS = (1, 16)

Commit = Callable[[int], Awaitable[tuple[float, float]]]  # publishes event number n; times before and after COMMIT
Waits = dict[str, list[tuple[float, float]]]  # milliseconds from the start and from the return of COMMIT


def main() -> None:
    options = _options()
    console = Console()
    waits: Waits = {}
    rates: dict[tuple[str, int], list[float]] = {}
    busy = []
    for _ in range(options.rounds):
        busy.append(f"{os.getloadavg()[0]:.1f}")
        for engine in options.engines:
            with database(engine) as url:
                uvloop.run(latency(engine, url, options.messages, waits))
        if "postgres" in options.engines and options.seconds:
            with database("postgres") as url:
                uvloop.run(throughput(url, options.seconds, rates))
    console.print(f"load of the machine before each round: {', '.join(busy)}; {os.cpu_count()} processors")
    console.print(_latencies(waits))
    if rates:
        console.print(_rates(rates))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.outbox", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    both = ["postgres", "sqlite"]
    parser.add_argument("--engines", nargs="+", choices=both, default=both)
    parser.add_argument(
        "--messages", type=int, default=500, help="messages of each latency measurement, 50 per second (500)"
    )
    parser.add_argument(
        "--seconds", type=float, default=3.0, help="seconds of each throughput measurement; 0 skips it (3)"
    )
    parser.add_argument("--rounds", type=int, default=1, help="rounds of all measurements, interleaved (1)")
    return parser.parse_args()


# ── latency ──


async def latency(engine: str, url: str, messages: int, waits: Waits) -> None:
    if engine == "sqlite":
        with tempfile.TemporaryDirectory(prefix="hookline-bench-") as directory:
            file = Path(directory) / "shop.db"
            async with _delivering(url, HOOKLINE_OUTBOX_URLS=f"sqlite:///{file}") as (receiver, app):
                with _sqlite_shop(file, app) as commit:
                    waits.setdefault("sqlite", []).extend(await _steady(receiver, commit, messages))
        return
    async with _delivering(url) as (receiver, app):
        for name, setting in (("postgres, notified", "on"), ("postgres, polled alone", "off")):
            async with _postgres_shop(url, app, setting) as commit:
                waits.setdefault(name, []).extend(await _steady(receiver, commit, messages))


@asynccontextmanager
async def _delivering(url: str, **settings: str) -> AsyncIterator[tuple[Receiver, str]]:
    """Start a receiver and a worker process. Yield the receiver and the application's id."""
    env = environment(url, HOOKLINE_REQUEST_TIMEOUT="30s", HOOKLINE_LEASE="60s", **settings)
    with Receiver() as receiver, tempfile.TemporaryDirectory() as directory:
        store: Store = await opened(url, env)
        app = await application(store, receiver.url)
        with running(["worker"], env, Path(directory) / "log") as worker:
            yield receiver, app.id
            worker.stop()
        await store.close()


async def _steady(receiver: Receiver, commit: Commit, messages: int) -> list[tuple[float, float]]:
    before = len(receiver.requests) + WARM
    for number in range(WARM):
        await commit(-number)
    await receiver.arrived(before, timeout=60)  # the worker has started
    committed: list[tuple[float, float]] = []
    start = monotonic()
    for number in range(messages):
        await asyncio.sleep(max(0.0, start + number / RATE - monotonic()))
        committed.append(await commit(number))
    arrived = await receiver.arrived(before + messages, timeout=60)
    found = []
    for received in arrived[before:]:
        began, ended = committed[msgspec.json.decode(received.body)["number"]]
        found.append(((received.at - began) * 1000, max(0.0, received.at - ended) * 1000))
    return found


def _payload(number: int) -> dict[str, Any]:
    return {"number": number, "order": msgspec.json.decode(BODY)}


@asynccontextmanager
async def _postgres_shop(url: str, app: str, notify: str) -> AsyncIterator[Commit]:
    session = await asyncpg.connect(url, server_settings={"hookline.notify": notify})
    await session.execute("CREATE TABLE IF NOT EXISTS orders (id bigint)")

    async def commit(number: int) -> tuple[float, float]:
        await session.execute("BEGIN")
        await session.execute("INSERT INTO orders VALUES ($1)", number)
        await outbox.publish_async(session, app, "order.paid", _payload(number))
        began = monotonic()
        await session.execute("COMMIT")
        return began, monotonic()

    yield commit
    await session.close()


@contextmanager
def _sqlite_shop(file: Path, app: str) -> Any:
    session = sqlite3.connect(file, isolation_level=None)
    session.executescript("PRAGMA journal_mode = WAL; CREATE TABLE orders (id integer);" + setup.sql("sqlite"))

    async def commit(number: int) -> tuple[float, float]:
        session.execute("BEGIN IMMEDIATE")
        session.execute("INSERT INTO orders VALUES (?)", (number,))
        outbox.publish(session, app, "order.paid", _payload(number))
        began = monotonic()
        session.execute("COMMIT")
        return began, monotonic()

    yield commit
    session.close()


# ── throughput ──


async def throughput(url: str, seconds: float, rates: dict[tuple[str, int], list[float]]) -> None:
    """Measure with a running relay, which also needs CPU time. No endpoint gets the messages."""
    env = environment(url)
    store: Store = await opened(url, env)
    app = await application(store, "http://127.0.0.1:40009/")
    for endpoint in await store.catalogue.endpoints_for(range(1, 10)):
        await store.catalogue.delete_endpoint(endpoint.no)
    with tempfile.TemporaryDirectory() as directory, running(["worker"], env, Path(directory) / "log") as worker:
        for clients in CLIENTS:
            for name, statement in _statements(app.id).items():
                rate = await _rate(url, clients, seconds, statement)
                rates.setdefault((name, clients), []).append(rate)
        worker.stop()
    await store.close()


def _statements(app: str) -> dict[str, str | None]:
    made = outbox.event(app, "order.paid", _payload(1), event_id="X")
    document = msgspec.json.encode([made]).decode().replace("'", "''")
    unnamed = document.replace('"event_id":"X",', "")
    return {"INSERT": None, "INSERT and publish": f"SELECT hookline.publish_events('{unnamed}')"}


async def _rate(url: str, clients: int, seconds: float, publish: str | None) -> float:
    sessions = [await asyncpg.connect(url) for _ in range(clients)]
    await sessions[0].execute("CREATE TABLE IF NOT EXISTS orders (id bigint)")
    done = 0

    async def client(session: asyncpg.Connection) -> None:
        nonlocal done
        while True:
            await session.execute("BEGIN")
            await session.execute("INSERT INTO orders VALUES ($1)", done)
            if publish is not None:
                await session.fetchval(publish)
            await session.execute("COMMIT")
            done += 1

    began = monotonic()
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.gather(*map(client, sessions))
    rate = done / (monotonic() - began)
    for session in sessions:
        session.terminate()
    return rate


# ── tables ──


def _latencies(waits: Waits) -> Table:
    table = Table("from COMMIT's return to arrival, ms", "p50", "p90", "p99", "most", "p50 from its start", "p99")
    for name, found in waits.items():
        begun, ended = (sorted(column) for column in zip(*found, strict=True))
        shares = [_share(ended, 0.5), _share(ended, 0.9), _share(ended, 0.99), ended[-1], _share(begun, 0.5)]
        table.add_row(name, *(f"{share:.1f}" for share in (*shares, _share(begun, 0.99))))
    return table


def _share(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def _rates(rates: dict[tuple[str, int], list[float]]) -> Table:
    table = Table("transactions a second", *(f"{clients} clients" for clients in CLIENTS), title="medians")
    for name in dict.fromkeys(name for name, _ in rates):
        table.add_row(name, *(f"{statistics.median(rates[name, clients]):,.0f}" for clients in CLIENTS))
    return table


if __name__ == "__main__":
    main()
