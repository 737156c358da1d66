"""The shops of examples/ run as their README says. The webhook of a paid order arrives, and that of a failed refund is
never sent."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import msgspec
import pytest
from msgspec import Struct
from standardwebhooks import Webhook

from tests.support.processes import PATIENT
from tests.support.receiver import Receiver
from tests.support.serving import Served, serving

EXAMPLES = Path(__file__).parents[2] / "examples"
ADDRESS = re.compile(r"http://127\.0\.0\.1:[1-9]\d*")


class Shop(Struct, frozen=True, kw_only=True):
    name: str
    run: str  # the README's command that runs the shop
    any_port: str  # options that select a free port and a single process
    engine: str = "sqlite"


SHOPS = {
    "flask": Shop(name="flask_shop", run="flask run", any_port="--port 0"),
    "django": Shop(name="django_shop", run="python manage.py runserver", any_port="127.0.0.1:0 --noreload"),
    "fastapi": Shop(name="fastapi_shop", run="uvicorn app:app", any_port="--port 0"),
    "fastapi-postgres": Shop(name="fastapi_shop", run="uvicorn app:app", any_port="--port 0", engine="postgres"),
}


@pytest.fixture(params=SHOPS)
def shop(request: pytest.FixtureRequest) -> Shop:
    return SHOPS[request.param]


@pytest.fixture
def engine(shop: Shop) -> str:
    return shop.engine


class Place:
    """A copy of one example. It runs the commands of the example's README."""

    def __init__(self, shop: Shop, directory: Path, database_url: str) -> None:
        self.shop = shop
        self.directory = directory / shop.name
        shutil.copytree(EXAMPLES / shop.name, self.directory, ignore=shutil.ignore_patterns("__pycache__", "shop.db*"))
        (block,) = re.findall(r"^```sh\n(.*?)^```$", (self.directory / "README.md").read_text(), re.M | re.S)
        self.lines = [line.partition("   #")[0].rstrip() for line in block.splitlines()]
        self.env = _environment()
        if shop.engine == "postgres":
            self.env["SHOP_DATABASE_URL"] = database_url.replace("postgresql://", "postgresql+asyncpg://")

    def settings(self) -> dict[str, str]:
        """Return the variables that the README exports for Hookline, with absolute paths."""
        (exported,) = [line for line in self.lines if line.startswith("export ")]
        given = dict(word.split("=", 1) for word in shlex.split(exported)[1:])
        if self.shop.engine == "postgres":
            del given["HOOKLINE_OUTBOX_URLS"]
            return given
        return given | {"HOOKLINE_OUTBOX_URLS": given["HOOKLINE_OUTBOX_URLS"].replace("///", f"///{self.directory}/")}

    def set_up(self) -> None:
        for line in self.lines:
            if not line.startswith(("export ", "hookline ", "curl ", self.shop.run)):
                done = subprocess.run(shlex.split(line), **self._where(), capture_output=True, text=True, check=False)
                assert done.returncode == 0, done.stdout + done.stderr

    @contextmanager
    def running(self) -> Iterator[str]:
        """Run the shop. Yield its address."""
        assert self.shop.run in self.lines
        command = shlex.split(f"{self.shop.run} {self.shop.any_port}")
        with subprocess.Popen(command, **self._where(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            try:
                yield _announced(process)
            finally:
                process.terminate()

    def curl(self, address: str) -> list[tuple[int, Any]]:
        """Send each request of the README. Return the status and the body of each answer."""
        return [self._curl(line, address) for line in self.lines if line.startswith("curl ")]

    def _curl(self, line: str, address: str) -> tuple[int, Any]:
        words = shlex.split(re.sub(r"localhost:\d+", address, line))
        done = subprocess.run([*words, "-sS", "-w", "\n%{http_code}"], capture_output=True, check=True, env=self.env)
        body, _, status = done.stdout.rpartition(b"\n")
        return int(status), msgspec.json.decode(body)

    def _where(self) -> dict[str, Any]:
        return {"cwd": self.directory, "env": self.env}


def _environment() -> dict[str, str]:
    """Return the environment without variables of Hookline, Flask and Django, and without proxy settings."""
    theirs = re.compile(r"HOOKLINE_|FLASK_|DJANGO_|SHOP_|.*_proxy$", re.IGNORECASE)
    kept = {name: value for name, value in os.environ.items() if not theirs.match(name)}
    return kept | {"PATH": f"{Path(sys.executable).parent}:{kept['PATH']}", "PYTHONUNBUFFERED": "1"}


def _announced(process: subprocess.Popen[bytes]) -> str:
    said = []
    assert process.stdout is not None
    for line in process.stdout:
        said.append(line.decode())
        if found := ADDRESS.search(said[-1]):
            return found[0]
    raise AssertionError("".join(said))


def api(served: Served, path: str, body: object = None) -> Any:
    headers = {"Authorization": f"Bearer {served.token}"}
    data = None if body is None else msgspec.json.encode(body)
    try:
        with urlopen(Request(f"{served.address}/api/v1{path}", data, headers)) as answer:
            return msgspec.json.decode(answer.read())
    except OSError as error:
        raise AssertionError(f"{path}: {error}\n{served.process.output()}") from error


def test_paid_orders_arrive_and_a_failed_refund_does_not(shop: Shop, database_url: str, tmp_path: Path) -> None:
    place = Place(shop, tmp_path, database_url)
    place.set_up()
    with (
        Receiver() as receiver,
        serving(database_url, tmp_path, **PATIENT | place.settings()) as served,
        place.running() as address,
    ):
        api(served, "/app", {"name": "Demo", "uid": "demo"})
        api(served, "/app/demo/endpoint", {"url": receiver.url, "uid": "theirs"})
        paid, refunded, listed = place.curl(address)
        later, again, _ = place.curl(address)

        assert (paid[0], refunded[0], later[0], again[0]) == (201, 503, 201, 503)
        assert [order["refunded"] for order in listed[1]] == [False]
        arrived = receiver.wait_for(2)

        verifier = Webhook(api(served, "/app/demo/endpoint/theirs/secret")["key"])
        bodies = [verifier.verify(each.body, each.headers) for each in arrived]
        assert sorted(each.headers["webhook-event-type"] for each in arrived) == ["order.paid", "order.paid"]
        assert [body["item"] for body in bodies] == ["tea", "tea"]

        messages = api(served, "/app/demo/msg")["data"]
        assert {each["eventId"] for each in messages} == {paid[1]["event"], later[1]["event"]}
        assert api(served, f"/app/demo/msg/{paid[1]['event']}")["eventType"] == "order.paid"
        served.ended_well()
