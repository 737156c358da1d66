"""End a test's PostgreSQL server and remove its directory after the process that started it has ended in any way.

Run as a script with the directory as its argument. Its standard input is a pipe that only the process that started it
holds open.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from pathlib import Path

PATIENCE = 10.0


def postmaster_of(directory: Path) -> int | None:
    """Return the process id in the server's pid file if that process runs."""
    try:
        pid = int((directory / "data" / "postmaster.pid").read_text().split("\n", 1)[0])
        os.kill(pid, 0)
    except (OSError, ValueError):
        return None
    return pid


def clear(directory: Path) -> None:
    """Stop the server of this directory at once, then remove the directory."""
    pid = postmaster_of(directory)
    if pid is not None:
        os.kill(pid, signal.SIGQUIT)
        deadline = time.monotonic() + PATIENCE
        while postmaster_of(directory) is not None and time.monotonic() < deadline:
            time.sleep(0.02)  # the server is not a child process of this one, so there is no event to wait for
    shutil.rmtree(directory, ignore_errors=True)


def main() -> None:
    sys.stdin.buffer.read()
    clear(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
