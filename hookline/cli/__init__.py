"""The `hookline` command: the composition root. Everything else takes what it needs as arguments."""

from __future__ import annotations

import sys
from typing import NoReturn

from hookline.cli import standard_streams

WRONG_USAGE = 2
INTERRUPTED = 130

__all__ = ["main"]


def main() -> None:
    """The imports are most of a short command's time: Ctrl-C must be quiet there too."""
    standard_streams.prepare()
    try:
        from hookline.cli.app import start

        start()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except ModuleNotFoundError as missing:
        _not_installed(missing)


def _not_installed(missing: ModuleNotFoundError) -> NoReturn:
    """An application that publishes has `hookline` alone, and this command with it. A module of our own is never an extra."""
    package = (missing.name or "").partition(".")[0]
    if package in ("", "hookline"):
        raise missing
    print(
        f"hookline: {package} is not installed: the service and this command need pip install 'hookline[server]'",
        file=sys.stderr,
    )
    sys.exit(WRONG_USAGE)
