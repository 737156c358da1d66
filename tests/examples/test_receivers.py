"""The receivers of examples/ run as their README says. A webhook from a real Hookline has its effect, and a copy of it
has none."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from hookline.signing import new_secret
from tests.support.ports import free_port
from tests.support.processes import PATIENT, environment, running
from tests.support.serving import announced

EXAMPLES = Path(__file__).parents[2] / "examples"
PAID = {"order": 7, "cents": 450}


class Example(Struct, frozen=True, kw_only=True):
    name: str
    run: str  # the README's command that runs the receiver
    port: int  # the default port of the receiver
    engine: str = "sqlite"
    copy_is_marked: bool  # whether the middleware marks the answer to a copy as a replay


EXAMPLE = {
    "flask": Example(name="receiver_flask", run="flask run", port=5000, copy_is_marked=True),
    "fastapi": Example(name="receiver_fastapi", run="uvicorn app:app", port=8000, copy_is_marked=False),
    "fastapi-postgres": Example(
        name="receiver_fastapi", run="uvicorn app:app", port=8000, engine="postgres", copy_is_marked=False
    ),
}


@pytest.fixture(params=EXAMPLE)
def example(request: pytest.FixtureRequest) -> Example:
    return EXAMPLE[request.param]


@pytest.fixture
def engine(example: Example) -> str:
    return example.engine


class Place:
    """A copy of one example. It runs the commands of the example's README on free ports."""

    def __init__(self, example: Example, directory: Path, database_url: str) -> None:
        self._example = example
        self.directory = directory / example.name
        shutil.copytree(EXAMPLES / example.name, self.directory, ignore=shutil.ignore_patterns("__pycache__", "*.db*"))
        self.port, self.hookline_port = free_port(), free_port()
        (block,) = re.findall(r"^```sh\n(.*?)^```$", (self.directory / "README.md").read_text(), re.M | re.S)
        self._lines = [re.sub(r"\s{2,}#.*", "", line) for line in block.splitlines()]
        self.env = self._environment(database_url)

    def typed(self, start: str) -> list[str]:
        """Return the README's lines that start with `start`."""
        found = [line for line in self._lines if line.startswith(start)]
        assert found, start
        return [
            line.replace(f":{self._example.port}/", f":{self.port}/")
            .replace(":8071/", f":{self.hookline_port}/")
            .replace("--wait 10", "--wait 60")  # A busy machine needs a longer timeout.
            for line in found
        ]

    def sh(self, line: str) -> str:
        done = subprocess.run(
            ["sh", "-c", line], cwd=self.directory, env=self.env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout

    @contextmanager
    def receiving(self) -> Iterator[None]:
        (line,) = self.typed(self._example.run)
        command = [*shlex.split(line), "--port", self.port]
        with (self.directory / "receiver.log").open("wb") as log:
            process = subprocess.Popen(command, cwd=self.directory, env=self.env, stdout=log, stderr=log)
        try:
            self._listens(process)
            yield
        finally:
            process.terminate()
            process.wait(60)

    def _listens(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until the receiver accepts connections. A webhook sent earlier would fail and be retried."""
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", int(self.port))) == 0:
                    return
            assert process.poll() is None, (self.directory / "receiver.log").read_text()
            time.sleep(0.05)  # Another process does the work.

    def _environment(self, database_url: str) -> dict[str, str]:
        theirs = re.compile(r"FLASK_|DATABASE_URL|.*_proxy$", re.IGNORECASE)
        kept = {name: value for name, value in os.environ.items() if not theirs.match(name)}
        hookline_url = f"sqlite:///{self.directory}/hookline.db" if self._example.engine == "sqlite" else database_url
        # A long timeout avoids a second attempt on a busy machine.
        given = environment(hookline_url, HOOKLINE_PORT=self.hookline_port, **PATIENT)
        (exported,) = self.typed("export ")
        assert exported.startswith(
            "export HOOKLINE_ALLOW_NETS=127.0.0.0/8 WEBHOOK_SECRET=whsec_$(openssl rand -base64 32)"
        )
        ours = {"PATH": f"{Path(sys.executable).parent}:{kept['PATH']}", "WEBHOOK_SECRET": new_secret()}
        if self._example.engine == "postgres":
            ours["DATABASE_URL"] = database_url.replace("postgresql://", "postgresql+asyncpg://")
        return kept | {name: value for name, value in given.items() if name.startswith("HOOKLINE_")} | ours


def attempts(place: Place, token: str, count: int) -> list[dict[str, Any]]:
    """Return the delivery attempts, oldest first, as soon as there are `count` of them. The worker sends no
    notification, so the function polls."""
    line = f"curl -sS localhost:{place.hookline_port}/api/v1/app/demo/attempt/msg/order-7 -H 'Authorization: Bearer {token}'"
    deadline = time.monotonic() + 60
    while len(found := msgspec.json.decode(place.sh(line))["data"]) < count and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(found) == count
    return found[::-1]


def test_a_webhook_has_its_effect_and_its_copy_has_none(example: Example, database_url: str, tmp_path: Path) -> None:
    place = Place(example, tmp_path, database_url)
    with running(["serve", "--json"], place.env, tmp_path / "serve.log") as hookline, place.receiving():
        announced(hookline)
        for line in place.typed("hookline ")[1:]:  # The first command is `hookline serve`, which is already running.
            place.sh(line)
        copy, listing = place.typed("curl ")
        place.sh(f"{copy} --fail -sS")

        first, second = attempts(place, place.sh("hookline token").strip(), 2)
        assert (first["responseStatusCode"], second["responseStatusCode"]) == (200, 200)
        assert first["msgId"] == second["msgId"]
        if example.copy_is_marked:
            assert first["response"] == second["response"]
        assert msgspec.json.decode(place.sh(f"{listing} -sS")) == [PAID]


def test_an_unsigned_request_is_refused(example: Example, database_url: str, tmp_path: Path) -> None:
    place = Place(example, tmp_path, database_url)
    with place.receiving():
        url = f"http://127.0.0.1:{place.port}/hooks"
        unsigned = """-H 'webhook-id: msg_1' -d '{"order": 1, "cents": 1}'"""
        sent = f"curl -sS --retry 20 --retry-connrefused {url} {unsigned} -o /dev/null -w '%{{http_code}}'"
        assert place.sh(sent) == "401"
        assert msgspec.json.decode(place.sh(f"curl -sS http://127.0.0.1:{place.port}/payments")) == []
