"""What it costs to be seen: the same backlog drained by a worker that sees everything, and by one that is blind.

seen    a log line for each attempt (JSON, to a file), tally, pulses, alerts, and `/metrics` read every five seconds
quiet   the same without the lines
blind   none of it

The lines go to a file in memory: on the disk that SQLite waits for with every commit, their bytes are part of that wait, which
says more about the disk than about the lines. `--log-on-disk` measures that.

python -m bench.observe [--messages N] [--rounds N] [--engines sqlite postgres] [--log-on-disk]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import urllib.request
from pathlib import Path

import uvloop
from rich.console import Console
from rich.table import Table

from bench.ground import application, database, drained, load_backlog, opened
from bench.receiver import BenchReceiver
from hookline.clock import monotonic
from tests.support.processes import Process, environment, running
from tests.support.serving import free_port

MODES = {"seen": "all", "quiet": "off", "blind": "off"}  # and which attempts are logged
MOST = 0.10  # of the throughput
MEMORY = Path("/dev/shm")  # where there is one


def main() -> None:
    options = _options()
    console = Console()
    rates: dict[tuple[str, str], list[float]] = {}
    logs = MEMORY if MEMORY.is_dir() and not options.log_on_disk else None
    for _ in range(options.rounds):
        for engine in options.engines:
            for mode in MODES:
                with database(engine) as url:
                    rate = uvloop.run(drain(url, mode, options.messages, console, logs))
                rates.setdefault((engine, mode), []).append(rate)
                console.print(f"{engine}, {mode}: {rate:,.0f}/s")
    sys.exit(_told(rates, options.engines, console))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.observe", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=60_000, help="in the backlog (60,000)")
    parser.add_argument("--rounds", type=int, default=5, help="of everything, interleaved (5)")
    parser.add_argument("--engines", nargs="+", default=["sqlite", "postgres"], choices=["sqlite", "postgres"])
    parser.add_argument("--log-on-disk", action="store_true", help="where the database may be too")
    return parser.parse_args()


async def drain(url: str, mode: str, messages: int, console: Console, logs: Path | None) -> float:
    """Deliveries a second of one worker process. `logs` is where its lines go; None: to the disk."""
    settings = {"HOOKLINE_LOG_ATTEMPTS": MODES[mode], "HOOKLINE_LOG_FORMAT": "json"}
    port = free_port()
    if mode != "blind":
        settings["HOOKLINE_METRICS_PORT"] = port
    env = environment(url, HOOKLINE_REQUEST_TIMEOUT="30s", HOOKLINE_LEASE="60s", **settings)
    module = "bench.blind" if mode == "blind" else "hookline"
    with BenchReceiver() as receiver, tempfile.TemporaryDirectory(dir=logs) as directory:
        store = await opened(url, env)
        apps = [await application(store, f"{receiver.url}/{number}") for number in range(8)]
        await load_backlog(store, apps, messages, console)
        with running(["worker"], env, Path(directory) / "worker.log", module) as process:
            reading = asyncio.create_task(_read_metrics(port)) if mode != "blind" else None
            began = await _arrived(receiver, 1)
            await _arrived(receiver, messages)
            await drained(store)
            seconds = monotonic() - began
            if reading is not None:
                reading.cancel()
            process.stop()
        _check(receiver, messages, mode, process)
        await store.close()
    return messages / seconds


def _check(receiver: BenchReceiver, messages: int, mode: str, process: Process) -> None:
    lines = process.said().count('"event":"attempt"')
    if receiver.count != messages or (mode == "seen") != (lines == messages):
        sys.exit(f"{receiver.count} of {messages} arrived, {lines} were logged\n{process.said()[-2000:]}")


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
        return  # not up yet


def _told(rates: dict[tuple[str, str], list[float]], engines: list[str], console: Console) -> int:
    table = Table("engine", "mode", "deliveries/s", "of blind", title="medians over the rounds")
    missed = False
    for engine in engines:
        blind = statistics.median(rates[engine, "blind"])
        for mode in MODES:
            rate = statistics.median(rates[engine, mode])
            table.add_row(engine, mode, f"{rate:,.0f}", f"{rate / blind:.2f}")
        missed |= statistics.median(rates[engine, "seen"]) < (1 - MOST) * blind
    console.print(table)
    console.print("NOT MET" if missed else "met", f": being seen costs less than {MOST:.0%}", sep="")
    return int(missed)


if __name__ == "__main__":
    main()
