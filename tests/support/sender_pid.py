"""Find the sender's process of a worker that runs in the test's own process."""

from __future__ import annotations

import os
from pathlib import Path


def sender_pid() -> int:
    """Return the process id of the only child process that runs the sender."""
    [found] = [pid for pid in children(os.getpid()) if "sender.child" in _command(pid)]
    return found


def children(of: int) -> list[int]:
    stats = [(int(entry.name), entry / "stat") for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    found = []
    for pid, stat in stats:
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == of and fields[0] != "Z":
            found.append(pid)
    return found


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
