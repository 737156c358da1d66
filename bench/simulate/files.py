"""The generated files of `docs/simulations/`: charts, the fleet's numbers, and the tables in its README."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import msgspec
from msgspec import Struct
from rich.console import Console
from rich.progress import Progress

from bench.simulate import fleet, isolation, pictures
from bench.simulate.fleet import Case, Size, Tally
from bench.simulate.outage import BACKLOGS, Away, Fragile, Scenario, compare, drains
from bench.simulate.plans import PLANS

HERE = Path(__file__).parents[2] / "docs" / "simulations"
README = "README.md"
NUMBERS = "fleet.json"
SEED = 1
# A small fleet that takes seconds. The test suite simulates it and compares the result with the stored numbers.
SMALL = Size(workers=2, endpoints=300, slots=32, share=8, volumes=(500, *[60] * 9, *[10] * 90))


class Numbers(Struct, forbid_unknown_fields=True):
    """The results of the whole fleet and of the small one."""

    seed: int
    whole: dict[Case, Tally]
    small: dict[Case, Tally]


def outage_files(scenario: Scenario, seed: int) -> tuple[dict[str, str], dict[str, str]]:
    """Return the charts by file name, and the tables by their name in the README."""
    outcomes = compare(PLANS, scenario, seed)
    if scenario is Away:
        drawn = {"outage.svg": pictures.outage_load(outcomes), "recovery.svg": pictures.first_seconds(outcomes)}
        drained = pictures.drain_table(drains(BACKLOGS, seed))
        return drawn, {"outage": pictures.outage_table(outcomes), "drains": drained}
    if scenario is Fragile:
        return {"fragile.svg": pictures.fragile_load(outcomes)}, {"fragile": pictures.fragile_table(outcomes)}
    return {"limited.svg": pictures.limited_load(outcomes)}, {"limited": pictures.limited_table(outcomes)}


def isolation_files(seed: int) -> tuple[dict[str, str], dict[str, str]]:
    return {}, {"isolation": pictures.isolation_table(isolation.compare(seed))}


def fleet_files(numbers: Numbers) -> tuple[dict[str, str], dict[str, str]]:
    whole = numbers.whole
    drawn = {"fleet.svg": pictures.fleet_course(whole), "fleet-requests.svg": pictures.fleet_requests(whole)}
    tables = {
        "fleet": pictures.fleet_table(whole),
        "latency": pictures.latency_table(whole),
        "recoveries": pictures.recovery_table(whole[Case.OURS]),
        "probes": pictures.probes_table(whole[Case.OURS]),
    }
    return drawn, tables


def count_fleet(size: Size, seed: int, console: Console | None = None) -> dict[Case, Tally]:
    """Simulate every worker in every case. With a console, two run at a time and a progress bar is shown."""
    runs = [(size, seed, worker, case) for case in Case for worker in case.workers(size)]
    if console is None:
        found = [fleet.simulate(*run) for run in runs]
    else:
        with ProcessPoolExecutor(max_workers=2) as pool, Progress(console=console, transient=True) as progress:
            task = progress.add_task(f"{size.workers * size.endpoints:,} endpoints", total=len(runs))
            futures = [pool.submit(fleet.simulate, *run) for run in runs]
            for future in futures:
                future.add_done_callback(lambda _: progress.advance(task))
            found = [future.result() for future in futures]
    return {
        case: fleet.merge([tally for run, tally in zip(runs, found, strict=True) if run[3] is case]) for case in Case
    }


def to_json(numbers: Numbers) -> str:
    """Encode the numbers with one line per histogram."""
    return msgspec.json.encode(numbers).decode().replace("},", "},\n") + "\n"


def read_numbers(directory: Path = HERE) -> Numbers:
    return msgspec.json.decode((directory / NUMBERS).read_bytes(), type=Numbers)


def filled_in(text: str, tables: Mapping[str, str]) -> str:
    """Return the README with new tables. Each table stands between a start comment and an end comment with its name."""
    for name, table in tables.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        before, found, rest = text.partition(begin)
        _, ended, after = rest.partition(end)
        if not (found and ended):
            raise ValueError(f"the README has no comments for the table {name!r}")
        text = f"{before}{begin}\n{table}\n{end}{after}"
    return text


def write(drawn: Mapping[str, str], tables: Mapping[str, str], directory: Path = HERE) -> None:
    for name, text in drawn.items():
        (directory / name).write_text(text)
    readme = directory / README
    readme.write_text(filled_in(readme.read_text(), tables))
