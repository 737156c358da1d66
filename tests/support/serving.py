"""A real `hookline serve` for clients of the API: its address, a token and its log."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from hookline import clock, ids
from hookline.security import tokens
from tests.support.ports import free_port
from tests.support.processes import Process, environment, running


class Served(Struct, frozen=True, kw_only=True):
    address: str  # http://127.0.0.1:12345
    token: str  # a token of the organization
    process: Process

    def ended_well(self) -> None:
        """Check that the server stopped with exit code 0 and that no request caused an internal error."""
        code, output = self.process.stop(), self.process.output()
        assert code == 0, output
        assert "Traceback" not in output, output
        assert "request_failed" not in output, output


@contextmanager
def serving(database_url: str, directory: Path, *, role: str = "all", **settings: str) -> Iterator[Served]:
    env = environment(database_url, HOOKLINE_PORT=free_port(), **settings)
    with running(["serve", "--role", role, "--json"], env, directory / "serve.log") as process:
        address = announced(process)
        token = tokens.issue(env["HOOKLINE_JWT_SECRET"], ids.DEFAULT_ORG, now=clock.wall())
        yield Served(address=address, token=token, process=process)


def announced(process: Process, timeout: float = 60) -> str:
    """Return the address that the server prints once it listens. The log is a file, so there is no event to wait for."""
    deadline = time.monotonic() + timeout
    while process.running and time.monotonic() < deadline:
        for line in process.output().splitlines():
            if line.startswith('{"address":'):
                address: str = json.loads(line)["address"]
                return address
        time.sleep(0.05)  # another process does the work
    raise AssertionError(f"`hookline serve` did not start: {process.output()}")
