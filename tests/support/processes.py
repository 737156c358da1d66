"""Start real `hookline` processes for tests, each with its own configuration, and end them by their own id."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from hookline.security.vault import new_key

# Fast settings for tests: short deadlines, short waits, and the shortest lease that these deadlines allow.
QUICK = {
    "HOOKLINE_ALLOW_NETS": "127.0.0.0/8,::1/128",
    "HOOKLINE_REQUEST_TIMEOUT": "1s",
    "HOOKLINE_CONNECT_TIMEOUT": "1s",
    "HOOKLINE_LEASE": "11s",
    "HOOKLINE_RETRY_BASE": "50ms",
    "HOOKLINE_RETRY_FACTOR": "2",
    "HOOKLINE_RETRY_CAP": "1s",
    "HOOKLINE_CIRCUIT_COOLDOWN": "500ms",
    "HOOKLINE_CIRCUIT_COOLDOWN_CAP": "1s",
    "HOOKLINE_CIRCUIT_SPREAD": "300ms",
    "HOOKLINE_SHUTDOWN_TIMEOUT": "5s",
}

# For tests on a busy machine in which a slow request must not be sent twice.
PATIENT = {"HOOKLINE_REQUEST_TIMEOUT": "60s", "HOOKLINE_CONNECT_TIMEOUT": "60s", "HOOKLINE_LEASE": "120s"}


def environment(database_url: str, **settings: str) -> dict[str, str]:
    """Return the environment of a `hookline` process: made-up secrets, and no HOOKLINE_ variable of the caller."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HOOKLINE_")}
    secrets = {"HOOKLINE_JWT_SECRET": "a test's own secret, of more than 32 letters", "HOOKLINE_SECRET_KEY": new_key()}
    return inherited | {"HOOKLINE_DATABASE_URL": database_url} | secrets | QUICK | settings


def children(pid: int) -> list[int]:
    """Return the process ids of the child processes."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def descendants(pid: int) -> list[int]:
    """Return the process ids of the child processes and of their child processes."""
    found = []
    for child in children(pid):
        with suppress(FileNotFoundError, ProcessLookupError):  # the child has ended meanwhile
            found += [child, *descendants(child)]
    return found


@contextmanager
def all_stopped(root: int) -> Iterator[None]:
    """Stop a process and its descendants with SIGSTOP, and let them continue after the block."""
    stopped: list[int] = []
    try:
        # The parent first, so that it starts no further process. The second pass finds the children that the parent was
        # starting when the signal reached it.
        while running := [pid for pid in (root, *descendants(root)) if pid not in stopped]:
            for pid in running:
                stopped.append(pid)
                _stop(pid)
        yield
    finally:
        for pid in reversed(stopped):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def _stop(pid: int) -> None:
    """Send SIGSTOP and wait until the process has stopped. The signal takes effect a moment after it is sent."""
    with suppress(FileNotFoundError, ProcessLookupError):  # the process has ended
        os.kill(pid, signal.SIGSTOP)
        while _state(pid) not in "TZ":
            time.sleep(0.001)  # a process that is no child of this one gives no event to wait for


def _state(pid: int) -> str:
    """Return the letter that the kernel gives the state of a process: T is stopped, Z has ended."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


class Process:
    """One `hookline` command in the background. Its output goes to a file, which is shown when something fails."""

    def __init__(
        self,
        arguments: list[str],
        env: Mapping[str, str],
        log: Path,
        module: str = "hookline",
        *,
        group: bool = False,
        folder: Path | None = None,
    ) -> None:
        """Start the command in `folder`. With `group`, it and its child processes are a process group of their own."""
        self.log = log
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                env=dict(env),
                stdout=output,
                stderr=output,
                start_new_session=group,
                cwd=folder,
            )

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def running(self) -> bool:
        return self._popen.poll() is None

    def kill(self) -> None:
        """Kill the process with SIGKILL, as a power failure would: it finishes nothing."""
        self._popen.send_signal(signal.SIGKILL)
        self._popen.wait(60)

    def end(self) -> None:
        """Kill the process and its workers. Workers left alone would keep working on a database that another test gets."""
        its_children = children(self.pid)
        self.kill()
        for child in its_children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)

    def pause(self) -> None:
        self._popen.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._popen.send_signal(signal.SIGCONT)

    def stop(self, timeout: float = 60) -> int:
        """Stop the process with SIGTERM, as an operator does, and return its exit code."""
        if self.running:
            self._popen.send_signal(signal.SIGCONT)
            self._popen.send_signal(signal.SIGTERM)
        return self._popen.wait(timeout)

    def output(self) -> str:
        return self.log.read_text(errors="replace")


@contextmanager
def running(
    arguments: list[str], env: Mapping[str, str], log: Path, module: str = "hookline", *, folder: Path | None = None
) -> Iterator[Process]:
    process = Process(arguments, env, log, module, folder=folder)
    try:
        yield process
    finally:
        if process.running:
            process.end()
