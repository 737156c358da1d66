"""Regenerate all files in `docs/simulations/`. One endpoint takes 15 seconds, the fleet a few minutes.

python -m bench.simulate [outage|isolation|fleet|all] [--seed N] [--into DIRECTORY]
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from rich.console import Console

from bench.simulate import files
from bench.simulate.fleet import Size
from bench.simulate.outage import Away, Fragile, Limited


def main() -> None:
    parser = argparse.ArgumentParser(description="Run the simulations and write their charts and tables.")
    parser.add_argument("which", nargs="?", choices=("outage", "isolation", "fleet", "all"), default="all")
    parser.add_argument("--seed", type=int, default=files.SEED)
    parser.add_argument(
        "--into", type=Path, default=files.HERE, help="target directory; a new one starts as a copy of docs/simulations"
    )
    options = parser.parse_args()
    console = Console()
    if not options.into.exists():
        shutil.copytree(files.HERE, options.into)
    if options.which in ("outage", "all"):
        for scenario in (Away, Fragile, Limited):
            with console.status(f"one endpoint: {scenario.__name__.lower()}"):
                files.write(*files.outage_files(scenario, options.seed), options.into)
    if options.which in ("isolation", "all"):
        with console.status("healthy endpoints beside endpoints that hang"):
            files.write(*files.isolation_files(options.seed), options.into)
    if options.which in ("fleet", "all"):
        numbers = files.Numbers(
            seed=options.seed,
            whole=files.count_fleet(Size(), options.seed, console),
            small=files.count_fleet(files.SMALL, options.seed),
        )
        (options.into / files.NUMBERS).write_text(files.to_json(numbers))
        files.write(*files.fleet_files(numbers), options.into)
    console.print(f"written to {options.into}")


if __name__ == "__main__":
    main()
