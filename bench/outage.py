"""The load on a real endpoint that was down for 30 s and has thousands of messages waiting.

A real worker process sends real requests, in three runs, each with a new database:

unlimited    the same backlog for an endpoint that was never down: the shortest possible time
exponential  pure exponential backoff (1, 3, 9, 27 s ..., no jitter) and a circuit that never opens
Hookline     the default settings

The endpoint answers 503 at once while it is down, and 200 after `--latency` when it is up. All times count from the first
request with a 200 response. A peak is the largest number of requests within any one second.

met: Hookline's peak in the first 10 s is at least 5 times lower than that of exponential backoff, and its backlog is empty
within twice the time of unlimited sending. Both goals can be met only if unlimited sending takes longer than 8 s: ten
seconds at a fifth of the speed cost eight seconds. `docs/simulations` has the same experiment on a virtual clock, with
more strategies.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import uvloop
from msgspec import Struct
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench.ground import application, database, load_backlog, opened
from bench.simulate.plot import Axis, Curve, Page, chart
from bench.witness import Answer, Witness
from hookline.clock import monotonic
from hookline.store import Store
from tests.support.counts import count
from tests.support.processes import environment, running

PART = "shop"
SOON = 10.0  # seconds in which the first peak is measured
LOWER = 5.0  # factor by which Hookline's peak must be lower than that of exponential backoff
SLOWER = 2.0  # factor by which Hookline's drain may take longer than unlimited sending
PATIENCE = 1800.0  # seconds after which the backlog must be empty

DEFAULTS = {
    "HOOKLINE_REQUEST_TIMEOUT": "30s",
    "HOOKLINE_CONNECT_TIMEOUT": "10s",
    "HOOKLINE_LEASE": "60s",
    "HOOKLINE_RETRY_BASE": "1s",
    "HOOKLINE_RETRY_FACTOR": "3",
    "HOOKLINE_RETRY_CAP": "6h",
    "HOOKLINE_CIRCUIT_COOLDOWN": "60s",
    "HOOKLINE_CIRCUIT_COOLDOWN_CAP": "1h",
    "HOOKLINE_CIRCUIT_SPREAD": "1s",
}
EXPONENTIAL = {
    "HOOKLINE_RETRY_STRATEGY": "fixed",
    "HOOKLINE_RETRY_SCHEDULE": ",".join(f"{3**n}s" for n in range(9)),
    "HOOKLINE_CIRCUIT_THRESHOLD": "1000000",
}
SETTINGS = {"unlimited": DEFAULTS, "exponential": DEFAULTS | EXPONENTIAL, "Hookline": DEFAULTS}


class Run(Struct, frozen=True, kw_only=True):
    mode: str
    refused: int  # number of requests during the outage
    first: float  # seconds from the end of the outage to the first request with a 200 response
    starts: list[float]  # seconds from the first request with a 200 response to each such request

    def peak(self) -> int:
        """Return the largest number of requests within any one second of the first ten seconds."""
        most = first = 0
        for last, at in enumerate(self.starts):
            if at >= SOON:
                break
            while at - self.starts[first] >= 1.0:
                first += 1
            most = max(most, last - first + 1)
        return most

    def drained(self) -> float:
        return self.starts[-1]

    def curve(self) -> list[int]:
        seen = Counter(int(at) for at in self.starts)
        return [seen[second] for second in range(max(seen) + 1)]


def main() -> None:
    options = _options()
    console = Console()
    busy = f"{os.getloadavg()[0]:.1f}"
    runs: list[Run] = []
    for _ in range(options.rounds):
        for mode in SETTINGS:
            with database(options.engine) as url:
                runs.append(uvloop.run(run(url, mode, options, console)))
    console.print(f"load of the machine before: {busy}; {os.cpu_count()} processors")
    console.print(_table(runs, options))
    console.print(_curves(runs[-len(SETTINGS) :]))
    if options.svg:
        options.svg.write_text(_picture(runs[-len(SETTINGS) :], options))
    verdicts = _verdicts(runs)
    for met, text in verdicts:
        console.print(f"{'met' if met else 'NOT MET'}: {text}", highlight=False)
    sys.exit(not all(met for met, _ in verdicts))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.outage", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--engine", choices=["sqlite", "postgres"], default="postgres")
    parser.add_argument("--messages", type=int, default=20_000, help="messages in the backlog (20,000)")
    parser.add_argument("--seconds", type=float, default=30.0, help="seconds of the outage (30)")
    parser.add_argument("--latency", type=float, default=0.1, help="seconds before a 200 response (0.1)")
    parser.add_argument("--rounds", type=int, default=1, help="rounds of all three runs; medians count (1)")
    parser.add_argument("--svg", type=Path, help="write a chart of the last round to this file")
    return parser.parse_args()


# ── one run ──


async def run(url: str, mode: str, options: argparse.Namespace, console: Console) -> Run:
    env = environment(url, **SETTINGS[mode])
    healthy = Answer(part=PART, delay=options.latency)
    with Witness() as witness, tempfile.TemporaryDirectory() as directory:
        witness.answer(healthy if mode == "unlimited" else Answer(part=PART, status=503))
        store = await opened(url, env)
        app = await application(store, witness.url(PART))
        await load_backlog(store, [app], options.messages, console)
        with running(["worker"], env, Path(directory) / "worker.log") as worker:
            if mode != "unlimited":
                await asyncio.sleep(options.seconds)  # the outage
            back = monotonic()
            witness.answer(healthy)
            await _drained(store, mode, options.messages, console)
            worker.stop()
        await store.close()
        arrivals = witness.account().arrivals
    answered = [arrival for arrival in arrivals if arrival.status == 200]
    if len({arrival.message_id for arrival in answered}) != options.messages:
        sys.exit(f"{mode}: not all of {options.messages} messages were delivered")
    return Run(
        mode=mode,
        refused=len(arrivals) - len(answered),
        first=answered[0].at - back,
        starts=[arrival.at - answered[0].at for arrival in answered],
    )


async def _drained(store: Store, mode: str, messages: int, console: Console) -> None:
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, refresh_per_second=2) as progress:
        task = progress.add_task(f"{mode}: delivered", total=messages)
        async with asyncio.timeout(PATIENCE):
            while True:
                counts = await count(store)
                left = counts.pending + counts.scheduled + counts.delivering
                progress.update(task, completed=messages - left)
                if not left:
                    return
                await asyncio.sleep(0.5)  # another process does the work, and counting slows it down


# ── results ──


def _table(runs: Sequence[Run], options: argparse.Namespace) -> Table:
    title = (
        f"{options.messages:,} messages, down {options.seconds:.0f} s, then {options.latency * 1000:.0f} ms an answer"
    )
    columns = ("refused", "first answered after its return", "peak in the next 10 s", "gone after")
    table = Table("", *columns, title=f"{options.engine}: {title}")
    for found in runs:
        back = "" if found.mode == "unlimited" else f"{found.first:.1f} s"
        table.add_row(found.mode, f"{found.refused:,}", back, f"{found.peak():,}/s", f"{found.drained():.1f} s")
    return table


def _curves(runs: Sequence[Run]) -> Table:
    table = Table(
        "second", *(found.mode for found in runs), title="requests in each second from the first answered one"
    )
    curves = [found.curve() for found in runs]
    for second in range(max(map(len, curves))):
        table.add_row(str(second), *(f"{curve[second]:,}" if second < len(curve) else "" for curve in curves))
    return table


def _verdicts(runs: Sequence[Run]) -> list[tuple[bool, str]]:
    peaks = {mode: median(run.peak() for run in runs if run.mode == mode) for mode in SETTINGS}
    drains = {mode: median(run.drained() for run in runs if run.mode == mode) for mode in SETTINGS}
    lower, slower = peaks["exponential"] / peaks["Hookline"], drains["Hookline"] / drains["unlimited"]
    peak = f"peak in the first 10 s: {peaks['Hookline']:,.0f}/s against {peaks['exponential']:,.0f}/s of exponential backoff"
    gone = f"backlog gone {drains['Hookline']:.1f} s after the first good probe, {drains['unlimited']:.1f} s unlimited"
    return [
        (lower >= LOWER, f"{peak}: {lower:.1f} times lower (at least {LOWER:g})"),
        (slower <= SLOWER, f"{gone}: {slower:.2f} times (at most {SLOWER:g})"),
    ]


def _picture(runs: Sequence[Run], options: argparse.Namespace) -> str:
    curves = {found.mode: found.curve() for found in runs}
    styles = {"Hookline": 0, "exponential": 1, "unlimited": 5}
    page = Page(
        name="measured",
        title=f"Measured: {options.messages:,} messages after an outage of {options.seconds:.0f} s",
        description="; ".join(map(_described, runs)),
        x=Axis("seconds since the first request that was answered", 0, float(max(map(len, curves.values())))),
        y=Axis("requests in each second, real worker and real requests", 0, float(max(map(max, curves.values())))),
    )
    return chart(page, [Curve(mode, values, style=styles[mode]) for mode, values in curves.items()])


def _described(found: Run) -> str:
    return f"{found.mode}: {found.peak():,} requests a second at most in the first ten, all gone after {found.drained():.0f} s"


if __name__ == "__main__":
    main()
