"""Throughput and latency on both database engines, compared with the libcurl sender alone.

drain   one worker process delivers a backlog: deliveries per second, from its first request to its last recorded outcome
steady  50 messages per second in an idle system: time from a message's acceptance (COMMIT has returned) to its arrival
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
from pathlib import Path

import uvloop
from rich.console import Console
from rich.table import Table

from bench.ground import BODY, application, database, drained, load_backlog, opened, worker
from bench.receiver import BenchReceiver
from bench.sender import bare_sender
from hookline.clock import monotonic
from tests.support import factory
from tests.support.processes import environment, running
from tests.support.receiver import Receiver

WARM = 20  # messages sent before the measurement starts


def main() -> None:
    options = _options()
    console = Console()
    drains: list[tuple[str, float]] = []
    waits: list[tuple[str, list[float]]] = []
    for _ in range(options.rounds):
        with console.status("bare sender"):
            drains.append(("bare sender", bare_sender(options.messages).per_second))
        for engine in options.engines:
            with database(engine) as url:
                drains.append((engine, uvloop.run(drain(url, options.messages, options.endpoints, console))))
            if options.steady:
                with database(engine) as url:
                    waits.append((engine, uvloop.run(steady(url, options.steady))))
    console.print(_table(drains, waits))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=60_000, help="messages in the backlog (60,000)")
    parser.add_argument("--endpoints", type=int, default=8, help="endpoints that share the backlog (8)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of all measurements, interleaved (3)")
    parser.add_argument(
        "--steady", type=int, default=500, help="messages of the steady flow, 50 per second; 0 skips it (500)"
    )
    parser.add_argument("--engines", nargs="+", default=["sqlite", "postgres"], choices=["sqlite", "postgres"])
    return parser.parse_args()


async def drain(url: str, messages: int, endpoints: int, console: Console) -> float:
    """Return the deliveries per second of one worker process."""
    env = environment(url, HOOKLINE_REQUEST_TIMEOUT="30s", HOOKLINE_LEASE="60s")
    with BenchReceiver() as receiver, tempfile.TemporaryDirectory() as directory:
        store = await opened(url, env)
        apps = [await application(store, f"{receiver.url}/{number}") for number in range(endpoints)]
        await load_backlog(store, apps, messages, console)
        with running(["worker"], env, Path(directory) / "worker.log") as process:
            began = await _arrived(receiver, 1)
            # Query the store only at the end, because counting a backlog slows down the worker that is measured.
            await _arrived(receiver, messages)
            await drained(store)
            seconds = monotonic() - began
            process.stop()
        if receiver.count != messages:
            sys.exit(f"{receiver.count} of {messages} arrived\n{process.output()}")
        await store.close()
    return messages / seconds


async def steady(url: str, messages: int) -> list[float]:
    """Return the milliseconds from acceptance (COMMIT has returned) to arrival of each message. A negative time counts as 0."""
    env = environment(url, HOOKLINE_REQUEST_TIMEOUT="30s", HOOKLINE_LEASE="60s")
    accepted: dict[str, float] = {}
    with Receiver() as receiver:
        store = await opened(url, env)
        app = await application(store, receiver.url)
        async with worker(store, env):
            await store.pipeline.ingest(factory.new_messages(app.no, WARM, payload=BODY))
            await receiver.arrived(WARM, timeout=30)
            start = monotonic()
            for number in range(messages):
                await asyncio.sleep(max(0.0, start + number / 50 - monotonic()))
                message = factory.new_message(app.no, payload=BODY)
                await store.pipeline.ingest([message])
                accepted[message.id] = monotonic()
            arrived = await receiver.arrived(WARM + messages, timeout=30)
        await store.close()
    ids = [(received.headers["webhook-id"], received.at) for received in arrived]
    return [max(0.0, at - accepted[message_id]) * 1000 for message_id, at in ids if message_id in accepted]


async def _arrived(receiver: BenchReceiver, count: int) -> float:
    """Wait until the receiver has `count` requests, and return the time."""
    while receiver.count < count:
        await asyncio.sleep(0.005 if count == 1 else 0.02)
    return monotonic()


def _table(drains: list[tuple[str, float]], waits: list[tuple[str, list[float]]]) -> Table:
    table = Table("what", "deliveries/s", "of the bare sender", "p50 ms", "p99 ms", title="medians over the rounds")
    bare = statistics.median(rate for name, rate in drains if name == "bare sender")
    for name in dict.fromkeys(name for name, _ in drains):
        rate = statistics.median(value for other, value in drains if other == name)
        samples = sorted(sample for other, values in waits if other == name for sample in values)
        p50 = f"{statistics.median(samples):.1f}" if samples else ""
        p99 = f"{samples[int(len(samples) * 0.99)]:.1f}" if samples else ""
        table.add_row(name, f"{rate:,.0f}", f"{rate / bare:.2f}", p50, p99)
    return table


if __name__ == "__main__":
    main()
