"""The `hookline` command: the composition root. Everything else takes what it needs as arguments."""

from __future__ import annotations

import sys

INTERRUPTED = 130

__all__ = ["main"]


def main() -> None:
    """The imports are most of a short command's time: Ctrl-C must be quiet there too."""
    try:
        from hookline.cli.app import start

        start()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
