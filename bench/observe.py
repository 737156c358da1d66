"""The cost of observability: a worker drains the same backlog with and without logs, counters, pulses and alerts.

seen     a log line for each attempt (JSON, to a file beside the database), counters, pulses, alerts, `/metrics` read every
         five seconds
memory   the same, with the log file in memory, if the machine has /dev/shm
quiet    the same without log lines
blind    none of it

Each round drains one backlog in each mode. The order changes with each round, so that other load on the machine affects all
modes alike. The result is the median over the rounds of a mode's rate divided by the rate of `blind` in the same round.

python -m bench.observe [--messages N] [--rounds N] [--engines sqlite postgres]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import NamedTuple

import uvloop
from rich.console import Console
from rich.table import Table

from bench.ground import application, database, drained, load_backlog, opened
from bench.receiver import BenchReceiver
from hookline.clock import monotonic
from tests.support.ports import free_port
from tests.support.processes import Process, environment, running

MODES = {"seen": "all", "memory": "all", "quiet": "off", "blind": "off"}  # which attempts each mode logs
MOST = 0.10  # largest part of the throughput that observability may cost
MEMORY = Path("/dev/shm")


class Drained(NamedTuple):
    rate: float  # deliveries per second
    cost: float  # CPU time per delivery in µs


def main() -> None:
    options = _options()
    console = Console()
    modes = [mode for mode in MODES if mode != "memory" or MEMORY.is_dir()]
    found: dict[tuple[str, str], list[Drained]] = {}
    for number in range(options.rounds):
        first = number % len(modes)
        for engine in options.engines:
            for mode in modes[first:] + modes[:first]:
                with database(engine) as url:
                    one = uvloop.run(drain(url, mode, options.messages, console))
                found.setdefault((engine, mode), []).append(one)
                console.print(f"{engine}, {mode}: {one.rate:,.0f}/s, {one.cost:.1f} µs each")
    sys.exit(_report(found, options.engines, modes, console))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.observe", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=60_000, help="messages in the backlog (60,000)")
    parser.add_argument("--rounds", type=int, default=8, help="rounds of all measurements, interleaved (8)")
    parser.add_argument("--engines", nargs="+", default=["sqlite", "postgres"], choices=["sqlite", "postgres"])
    return parser.parse_args()


async def drain(url: str, mode: str, messages: int, console: Console) -> Drained:
    """Drain a backlog with one worker process."""
    settings = {"HOOKLINE_LOG_ATTEMPTS": MODES[mode], "HOOKLINE_LOG_FORMAT": "json"}
    port = free_port()
    if mode != "blind":
        settings["HOOKLINE_METRICS_PORT"] = port
    env = environment(url, HOOKLINE_REQUEST_TIMEOUT="30s", HOOKLINE_LEASE="60s", **settings)
    module = "bench.blind" if mode == "blind" else "hookline"
    logs = MEMORY if mode == "memory" else None
    with BenchReceiver() as receiver, tempfile.TemporaryDirectory(dir=logs) as directory:
        store = await opened(url, env)
        apps = [await application(store, f"{receiver.url}/{number}") for number in range(8)]
        await load_backlog(store, apps, messages, console)
        with running(["worker"], env, Path(directory) / "worker.log", module) as process:
            reading = asyncio.create_task(_read_metrics(port)) if mode != "blind" else None
            began = await _arrived(receiver, 1)
            used = _used(process.pid)
            await _arrived(receiver, messages)
            await drained(store)
            seconds = monotonic() - began
            used = _used(process.pid) - used
            if reading is not None:
                reading.cancel()
            process.stop()
        _check(receiver, messages, mode, process)
        await store.close()
    return Drained(messages / seconds, used / messages * 1e6)


def _used(pid: int) -> float:
    """Return the CPU seconds of a process, including all of its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _check(receiver: BenchReceiver, messages: int, mode: str, process: Process) -> None:
    lines = process.output().count('"event":"attempt"')
    if receiver.count != messages or lines != (messages if MODES[mode] == "all" else 0):
        sys.exit(f"{receiver.count} of {messages} arrived, {lines} were logged\n{process.output()[-2000:]}")


async def _arrived(receiver: BenchReceiver, count: int) -> float:
    while receiver.count < count:
        await asyncio.sleep(0.005 if count == 1 else 0.02)
    return monotonic()


async def _read_metrics(port: str) -> None:
    while True:
        await asyncio.to_thread(_read, f"http://127.0.0.1:{port}/metrics")
        await asyncio.sleep(5)


def _read(url: str) -> None:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            answer.read()
    except OSError:
        return  # the server of `/metrics` has not started yet


def _report(found: dict[tuple[str, str], list[Drained]], engines: list[str], modes: list[str], console: Console) -> int:
    table = Table("engine", "mode", "deliveries/s", "of blind", "each", title="medians over the rounds")
    missed = False
    for engine in engines:
        blind = found[engine, "blind"]
        for mode in modes:
            runs = found[engine, mode]
            share = statistics.median(one.rate / beside.rate for one, beside in zip(runs, blind, strict=True))
            rate, cost = statistics.median(one.rate for one in runs), statistics.median(one.cost for one in runs)
            table.add_row(engine, mode, f"{rate:,.0f}", f"{share:.2f}", f"{cost:.1f} µs")
            missed |= mode == "seen" and share < 1 - MOST
    console.print(table)
    console.print("NOT MET" if missed else "met", f": observability costs less than {MOST:.0%}", sep="")
    return int(missed)


if __name__ == "__main__":
    main()
