"""The `hookline` command. Only this package reads the environment; other packages get what they need as arguments."""

from __future__ import annotations

import sys
from typing import NoReturn

from hookline.cli import standard_streams

WRONG_USAGE = 2
INTERRUPTED = 130

__all__ = ["main"]


def main() -> None:
    """Run the command. The `try` includes the imports, because Ctrl-C often arrives during the imports."""
    standard_streams.prepare()
    try:
        from hookline.cli.app import start

        start()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except ModuleNotFoundError as missing:
        _report_missing(missing)


def _report_missing(missing: ModuleNotFoundError) -> NoReturn:
    """Say which package is missing. The server's packages are optional, because applications that publish do not need them."""
    package = (missing.name or "").partition(".")[0]
    if package in ("", "hookline"):
        raise missing
    print(
        f"hookline: {package} is not installed: the service and this command need pip install 'hookline[server]'",
        file=sys.stderr,
    )
    sys.exit(WRONG_USAGE)
