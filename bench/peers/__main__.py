"""Hookline measured beside job queues whose workers send the same webhooks.

make peers && python -m bench.peers      about 6 minutes: graphile-worker, pg-boss and BullMQ, each with undici
python -m bench.peers --peers celery     another queue; the names can be combined
python -m bench.peers --seconds 0        only the drain; `--messages 0` measures only the flow

drain   a worker process delivers messages that were enqueued before: deliveries per second between the first and the
        last arrival, and the same over the last 75 % of the arrivals
flow    messages are enqueued at a fixed rate: time from the call that enqueues one (API of Hookline: from the time at
        which the call is due) to its arrival

All run in turn on this machine, each with a new database: one `hookline serve`, or one worker of a queue. Every request
is signed as Standard Webhooks says. PostgreSQL writes each commit to disk before it returns. Redis writes to disk once
a second (appendonly yes, appendfsync everysec, which is its default and what BullMQ recommends), so a crash can lose the
last second.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from bench.flow import CUSTOMERS
from bench.ground import BODY
from bench.peers import queues
from bench.peers.contenders import Contender, Flow, contenders
from bench.peers.results import BASELINE, Results, drain_table, drained, flow_table, flowed
from bench.peers.task import Task, payload

SIZE = 1024  # bytes of a message of the drain
WARM = 2.0  # first seconds of a flow, which are not measured


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    chosen = [queues.QUEUES[name] for name in options.peers]
    if missing := queues.missing(chosen):
        sys.exit(missing)
    console = Console(width=None if sys.stdout.isatty() else 120)
    results = Results(messages=options.messages, processors=os.cpu_count() or 1)
    steps = list(_steps(options, contenders(options.engines, chosen, console), results))
    for number in range(options.rounds):
        results.loads.append(round(os.getloadavg()[0], 2))
        for name, step in steps if number % 2 == 0 else steps[::-1]:
            with console.status(f"round {number + 1} of {options.rounds}: {name}"):
                step()
        if options.json:
            # After each round, so that an interrupted run leaves its results.
            options.json.write_bytes(results.to_json())
    _report(results, console)


# ── options ───────────────────────────────────────────────────────────────────────────────────────────────────────


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add = parser.add_argument
    peers, engines = ["graphile-worker", "pg-boss", "bullmq"], ["postgres", "sqlite"]
    add("--peers", nargs="*", default=peers, choices=list(queues.QUEUES), help=f"job queues ({' '.join(peers)})")
    add("--engines", nargs="*", default=engines, choices=engines, help=f"engines of Hookline ({' '.join(engines)})")
    add("--messages", type=_number(0, 200_000), default=20_000, help="messages of a drain; 0 skips it (20,000)")
    add("--endpoints", type=_number(1, 50), default=8, help="endpoints that share the messages of a drain (8)")
    add("--concurrency", type=_number(1, 1024), default=256, help="requests in flight of a job queue's worker (256)")
    add("--rates", type=_number(1, 2000), nargs="+", default=[50], help="messages a second of each flow (50)")
    add("--seconds", type=_number(0, 60), default=10, help="seconds of each flow; 0 skips it (10)")
    add("--rounds", type=_number(1, 20), default=3, help="rounds of all measurements, interleaved (3)")
    add("--limit", type=_number(1, 600), default=120, help="seconds after which a measurement ends in any case (120)")
    add("--json", type=Path, metavar="FILE", help="write the results of every round to this file")
    return parser.parse_args(arguments)


def _number(least: int, most: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text} is not between {least:,} and {most:,}")
        return int(text)

    return number


# ── the measurements ──────────────────────────────────────────────────────────────────────────────────────────────


def _steps(
    options: argparse.Namespace, chosen: list[Contender], results: Results
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Return the measurements of a round, by the description that is shown meanwhile."""
    for each in chosen:
        if options.messages:
            yield f"{each.name}, drain", partial(_drain, each, _drain_task(options), results)
        for rate in options.rates if options.seconds else []:
            for name, measure in each.flows.items():
                yield f"{name}, {rate:,}/s", partial(_flow, name, measure, _flow_task(options, rate), results)


def _drain_task(options: argparse.Namespace) -> Task:
    return Task(
        messages=options.messages,
        body=payload(SIZE),
        limit=options.limit,
        endpoints=options.endpoints,
        concurrency=options.concurrency,
    )


def _flow_task(options: argparse.Namespace, rate: int) -> Task:
    return Task(
        messages=int(rate * (WARM + options.seconds)),
        body=BODY,
        limit=options.limit + WARM + options.seconds,
        endpoints=CUSTOMERS,
        concurrency=options.concurrency,
        rate=rate,
        warm=WARM,
    )


def _drain(contender: Contender, task: Task, results: Results) -> None:
    arrivals = contender.drain(task)
    results.drains.append(drained(contender.name, arrivals.first.values(), arrivals.twice))


def _flow(name: str, measure: Flow, task: Task, results: Results) -> None:
    called, arrivals = measure(task)
    waits = [(arrivals.first[key] - at) * 1000 for key, at in called.items() if key in arrivals.first]
    results.flows.append(flowed(name, task.rate, waits, lost=len(called) - len(waits), twice=arrivals.twice))


def _report(results: Results, console: Console) -> None:
    loads = ", ".join(f"{load:.1f}" for load in results.loads)
    console.print(f"load of the machine before each round: {loads}; {results.processors} processors")
    console.print("PostgreSQL: each commit is on disk before it returns. Redis: appendonly yes, appendfsync everysec")
    console.print("The tables have medians of the rounds.")
    console.print(
        f"Hookline / this: the medians of {BASELINE} divided by those of the row, in the order of the columns."
    )
    if results.drains:
        console.print(drain_table(results))
    if results.flows:
        console.print(flow_table(results))


if __name__ == "__main__":
    main()
