"""`bench`: run the scenarios on temporary databases, and print what they measured."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from typer import Option

from hookline import __version__, clock, config, signing
from hookline.cli.bench import model, picture, postgres, report
from hookline.cli.bench.ground import Engine, Site, Sqlite, environment
from hookline.cli.bench.model import Report, Size
from hookline.cli.bench.receiver import Settings, receiving
from hookline.cli.bench.scenarios import SCENARIOS, Scenario
from hookline.cli.command import Command
from hookline.cli.output import Output
from hookline.cli.serve import run_parts
from hookline.errors import InvalidInput
from hookline.server import logs

ENGINES = ("sqlite", "postgres")
NO_POSTGRES = (
    "SQLite only: no PostgreSQL was found. To measure it too, install PostgreSQL (Debian: apt install postgresql), or "
    "give --database-url with the URL of an empty database."
)


class Choice(Struct, frozen=True):
    """What to measure."""

    show_scenarios: Annotated[bool, Option("--list", help="List the scenarios, and measure nothing.")] = False
    scenarios: Annotated[
        str | None, Option(metavar="NAMES", help="Scenarios, separated by commas. All by default.")
    ] = None
    engines: Annotated[str | None, Option(metavar="NAMES", help="sqlite, postgres, or both, separated by a comma.")] = (
        None
    )
    database_url: Annotated[str | None, Option(metavar="URL", help="An empty PostgreSQL database to use.")] = None
    quick: Annotated[bool, Option("--quick", help="Smaller numbers and one round: under two minutes.")] = False
    full: Annotated[bool, Option("--full", help="1,000,000 held, 5,000,000 in history, and longer measurements.")] = (
        False
    )
    rounds: Annotated[int | None, Option(min=1, max=100, help="Rounds of all scenarios, interleaved.")] = None
    messages: Annotated[int | None, Option(min=100, max=10_000_000, help="Messages of a backlog.")] = None
    seconds: Annotated[float | None, Option(min=0.1, max=3600, help="Seconds of each measurement at a rate.")] = None

    def size(self) -> Size:
        if self.quick and self.full:
            raise InvalidInput("--quick and --full exclude each other")
        size = model.QUICK if self.quick else model.FULL if self.full else model.DEFAULT
        if self.rounds is not None:
            size = replace(size, rounds=self.rounds, longest=None)
        given = {"messages": self.messages, "seconds": self.seconds}
        return replace(size, **{name: value for name, value in given.items() if value is not None})

    def chosen(self) -> list[Scenario]:
        names = _names("--scenarios", self.scenarios, [each.name for each in SCENARIOS])
        return [each for each in SCENARIOS if each.name in names]


class Files(Struct, frozen=True):
    """Where the result goes, and what it is compared with."""

    save: Annotated[Path | None, Option(metavar="FILE", help="Write the result as JSON.")] = None
    svg: Annotated[Path | None, Option(metavar="FILE", help="Draw the result as a picture.")] = None
    against: Annotated[Path | None, Option(metavar="FILE", help="Compare with a run that --save wrote.")] = None

    def check(self) -> Report | None:
        """Return the earlier run. Refuse wrong files now, not after some minutes of measuring."""
        for name, file in (("--save", self.save), ("--svg", self.svg)):
            if file is not None and (file.is_dir() or not os.access(file.absolute().parent, os.W_OK)):
                raise InvalidInput(f"{name} {file}: cannot be written")
        return None if self.against is None else report.read(self.against)

    def write(self, made: Report) -> None:
        if self.save is not None:
            self.save.write_bytes(msgspec.json.format(msgspec.json.encode(report.document(made, None))) + b"\n")
        if self.svg is not None:
            self.svg.write_text(picture.svg(made), encoding="utf-8")


def bench(cmd: Command, choice: Choice, files: Files) -> None:
    """Measure Hookline on this machine: throughput, latency, memory, and the limits of single parts.

    hookline bench --quick                            every scenario, under two minutes

    hookline bench --save before.json                 under ten minutes; later: --against before.json

    hookline bench --scenarios drain,flow --engines postgres

    It uses temporary databases and sends only to this machine. Ctrl-C ends it.
    """
    if choice.show_scenarios:
        _list(cmd.out)
        return
    before = files.check()
    size, scenarios, engines = choice.size(), choice.chosen(), _names("--engines", choice.engines, ENGINES)
    made: list[Report] = []

    async def work() -> None:
        with _cancelled_by_signals():
            async with _engines(choice, engines, cmd.out) as found:
                made.append(await _measure(scenarios, found, size, cmd.out))

    try:
        run_parts(work())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    files.write(made[0])
    cmd.out.result(report.document(made[0], before), as_text=lambda: report.show(cmd.out, made[0], before))


def _list(out: Output) -> None:
    columns = ("scenario", "what it measures")
    out.listing(
        SCENARIOS,
        document=lambda each: {"name": each.name, "engines": each.engines, "measures": each.words},
        columns=columns,
        cells=lambda each: (each.name, each.words),
        empty="",
    )


def _names(option: str, given: str | None, known: Sequence[str]) -> list[str]:
    if given is None:
        return list(known)
    names = [name.strip() for name in given.split(",") if name.strip()]
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise InvalidInput(f"{option} takes {', '.join(known)}, not {', '.join(unknown) or 'nothing'}")
    return names


@contextmanager
def _cancelled_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the run as Ctrl-C does, so that no child process is left."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    numbers = (signal.SIGTERM, signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, task.cancel)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


# ── engines ───────────────────────────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def _engines(choice: Choice, names: Sequence[str], out: Output) -> AsyncIterator[list[Engine]]:
    async with AsyncExitStack() as stack:
        found: list[Engine] = []
        if "sqlite" in names:
            found.append(Sqlite())
        if "postgres" in names:
            server = await _postgres(choice, stack)
            if server is not None:
                found.append(server)
            elif choice.engines is None:
                out.aside(NO_POSTGRES)
            else:
                raise InvalidInput(f"--engines postgres: {NO_POSTGRES.partition(': ')[2]}")
        yield found


async def _postgres(choice: Choice, stack: AsyncExitStack) -> Engine | None:
    if choice.database_url is not None:
        return await postgres.given(choice.database_url)
    place = postgres.binaries()
    return None if place is None else await stack.enter_async_context(postgres.temporary(place))


# ── the run ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def _measure(scenarios: Sequence[Scenario], engines: Sequence[Engine], size: Size, out: Output) -> Report:
    at, began, ledger = clock.wall(), clock.monotonic(), report.Ledger()
    secret = signing.new_secret()
    logs.configure(config.load(environment("sqlite:///unused.db", {"LOG_LEVEL": "error"})))
    jobs = _jobs(scenarios, engines)
    async with receiving(Settings(secret=secret)) as receiver:
        with out.steps(size.rounds * len(jobs)) as step:
            for number in range(size.rounds):
                if too_long(size, number, clock.monotonic() - began):
                    break
                for scenario, engine in jobs if number % 2 == 0 else jobs[::-1]:
                    step(f"{scenario.name}: {report.NAMES[engine.name] if scenario.engines else 'limits'}")
                    site = Site(engine=engine, size=size, receiver=receiver, secret=secret)
                    ledger.add(scenario.name, engine.name if scenario.engines else "", await scenario.run(site))
    return Report(
        version=__version__,
        at=at,
        machine=report.this_machine(),
        engines={engine.name: engine.version for engine in engines},
        size=size,
        seconds=clock.monotonic() - began,
        figures=ledger.figures([each.name for each in SCENARIOS]),
    )


def too_long(size: Size, rounds: int, seconds: float) -> bool:
    """Return whether one more round, as long as the earlier ones, would end too late."""
    return rounds > 0 and size.longest is not None and seconds / rounds * (rounds + 1) > size.longest


def _jobs(scenarios: Sequence[Scenario], engines: Sequence[Engine]) -> list[tuple[Scenario, Engine]]:
    """Return each scenario with each of its engines. A scenario that does not depend on the engine runs once."""
    return [
        (scenario, engine)
        for scenario in scenarios
        for engine in (engines if scenario.engines else engines[:1])
        if not scenario.engines or engine.name in scenario.engines
    ]
