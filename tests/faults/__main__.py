"""Run drills: faults of every kind against real processes under load, and a proof of what was lost or sent twice.

python -m tests.faults --all                                  every drill on both engines, about 45 minutes
python -m tests.faults kill-worker --engine postgres --seed 7 one drill; the seed repeats its plan of faults
python -m tests.faults --all --write                          also write docs/reliability.md and its pictures
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.faults import report
from tests.faults.catalogue import ALL, BY_NAME
from tests.faults.drill import ENGINES, Drill, NotRun, Outcome, run
from tests.faults.load import Size
from tests.faults.timeline import timeline
from tests.support.postgres import clear_stale

SHOWN = 10  # violations to print of each drill


def main() -> None:
    options, console = _options(), Console()
    if options.list:
        console.print(_listed())
        return
    os.environ.setdefault("PGSSLMODE", "disable")  # the servers of the drills have no TLS
    clear_stale()
    chosen = ALL if options.all else [BY_NAME[name] for name in options.drills]
    console.print(f"load of the machine before: {os.getloadavg()[0]:.1f}; {os.cpu_count()} processors")
    rows, pictures = [], {}
    for drill in chosen:
        for engine in [engine for engine in options.engine or ENGINES if engine in drill.engines]:
            outcomes = _runs(drill, engine, options, console)
            if outcomes:
                rows.append(report.row(outcomes))
                pictures[f"{drill.name}-{engine}"] = timeline(outcomes[-1], drill.name)
            if outcomes and options.write:
                report.write(rows, pictures)  # after each drill, so that an interrupted run leaves its figures
    if rows:
        console.print(report.table(rows))
    sys.exit(any(row.violations for row in rows))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("drills", nargs="*", metavar="DRILL", help="names of drills; --list prints them")
    parser.add_argument("--all", action="store_true", help="run every drill")
    parser.add_argument("--list", action="store_true", help="print the drills")
    parser.add_argument("--engine", action="append", choices=ENGINES, help="only on this engine")
    parser.add_argument("--seed", type=int, default=1, help="repeats the plan of faults (1)")
    parser.add_argument("--runs", type=int, default=1, help="runs of each drill, each with the next seed (1)")
    parser.add_argument("--messages", type=int, help=f"messages of a run ({Size().messages}, or the drill's own)")
    parser.add_argument("--seconds", type=float, help=f"seconds of load ({Size().seconds:.0f}, or the drill's own)")
    parser.add_argument("--short", action="store_true", help="few faults and 400 messages")
    parser.add_argument("--write", action="store_true", help="write the figures to docs/reliability.md")
    options = parser.parse_args()
    unknown = [name for name in options.drills if name not in BY_NAME]
    if unknown or not (options.drills or options.all or options.list):
        parser.error(f"no drill {', '.join(unknown)}: --list prints them" if unknown else "name a drill, or --all")
    return options


def _listed() -> Table:
    table = Table("drill", "fault", "engines")
    for drill in ALL:
        table.add_row(drill.name, drill.fault, ", ".join(drill.engines))
    return table


def _runs(drill: Drill, engine: str, options: argparse.Namespace, console: Console) -> list[Outcome]:
    messages = options.messages or drill.size.messages
    size = Size(
        messages=messages, seconds=options.seconds or drill.size.seconds, batch=max(10, min(200, messages // 160))
    )
    if options.short:
        size = Size(messages=400, seconds=4.0, batch=10)
    outcomes = []
    for seed in range(options.seed, options.seed + options.runs):
        try:
            with console.status(f"{drill.name}, {engine}, seed {seed}"):
                outcome = run(drill, engine, seed=seed, size=size, short=options.short)
        except NotRun as reason:
            console.print(f"{drill.name}, {engine}: not run: {reason}", highlight=False)
            break
        _say(outcome, console)
        outcomes.append(outcome)
    return outcomes


def _say(outcome: Outcome, console: Console) -> None:
    found = outcome.findings
    text = f"{outcome.drill}, {outcome.engine}, seed {outcome.seed}: {outcome.messages:,} messages"
    text += f" in {outcome.seconds:.0f} s, {len(outcome.faults)} faults, {found.lost} lost"
    text += f", {found.gone} gone after a backup" if found.gone else ""
    text += f", {sum(found.duplicates.values())} sent twice, {len(found.violations)} violations"
    console.print(text + (f"; ended by themselves: {outcome.ended}" if outcome.ended else ""), highlight=False)
    for note in outcome.notes:
        console.print(f"  {note}", highlight=False)
    if found.violations:
        for violation in found.violations[:SHOWN]:
            console.print(f"  [red]{violation.promise}[/]: {violation.text}", highlight=False)
        log = Path(tempfile.mkstemp(prefix=f"drill-{outcome.drill}-{outcome.engine}-", suffix=".log")[1])
        log.write_text(outcome.logs)
        console.print(f"  the logs of the processes: {log}", highlight=False)


if __name__ == "__main__":
    main()
