"""Fixtures: a server with the API and the dashboard on a real socket, for both database engines."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_network
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from hookline import clock, config
from hookline.engine.ingest import GroupCommit
from hookline.model.catalogue import Application, Organization
from hookline.observe.tally import Tally
from hookline.security import tokens
from hookline.security.vault import new_key
from hookline.server import http as server
from hookline.server import sockets as listeners
from hookline.server.web_app import compose, web_context
from hookline.store import Store
from hookline.web import limits
from hookline.web.context import WebContext
from hookline.web.forwarded import Forwarded, Proxies

JWT_SECRET = "a secret that only the tests of the API know"


class Answer:
    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    def __repr__(self) -> str:
        return f"{self.status} {self.headers} {self.body[:500]!r}"

    def json(self, status: int = 200) -> Any:
        assert self.status == status, self
        assert self.headers["content-type"] == "application/json"
        return msgspec.json.decode(self.body)

    def problem(self, status: int, code: str) -> str:
        """Check the status and the code of an error answer, and return its detail."""
        found = self.json(status)
        assert set(found) == {"code", "detail"}
        assert found["code"] == code
        detail: str = found["detail"]
        return detail

    def faults(self) -> list[dict[str, Any]]:
        found = self.json(422)
        assert set(found) == {"detail"}
        faults: list[dict[str, Any]] = found["detail"]
        assert all(set(fault) == {"loc", "msg", "type"} for fault in faults)
        return faults


class Client:
    def __init__(self, address: str, token: str | None = None) -> None:
        self.address = address
        self.token = token

    def holding(self, token: str | None) -> Client:
        return Client(self.address, token)

    async def get(self, path: str, **headers: str) -> Answer:
        return await self.request("GET", path, None, headers)

    async def post(self, path: str, body: object, **headers: str) -> Answer:
        raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
        return await self.request("POST", path, raw, {name.replace("_", "-"): value for name, value in headers.items()})

    async def request(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        return await asyncio.to_thread(self._request, method, path, body, headers)

    def _request(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        given = dict(headers)
        if self.token is not None:
            given["authorization"] = f"Bearer {self.token}"
        connection = http.client.HTTPConnection(self.address, timeout=30)
        try:
            connection.request(method, path, body, given)
            answer = connection.getresponse()
            named = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, named, answer.read())
        finally:
            connection.close()


@pytest.fixture
def patience_with_bad_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the limit of bad tokens, for tests that try hundreds of them. `test_limits.py` tests the limit itself."""
    monkeypatch.setattr(limits, "BAD_TOKENS", 1_000_000)


@pytest.fixture
async def served(store: Store, database_url: str) -> AsyncIterator[WebContext]:
    """The context that the server under test runs with. A test may replace some of its values."""
    settings = config.load(
        {
            "HOOKLINE_DATABASE_URL": database_url,
            "HOOKLINE_JWT_SECRET": JWT_SECRET,
            "HOOKLINE_SECRET_KEY": new_key(),
            "HOOKLINE_MAX_PAYLOAD": "64KiB",
        }
    )
    tally = Tally()
    ingest = GroupCommit(store, tally=tally)
    given = web_context(store, settings, ingest, tally)
    yield given
    await ingest.close()
    await given.schemas.close()


@asynccontextmanager
async def serving(given: WebContext, host: str = "127.0.0.1", *, proxies: Sequence[str] = ()) -> AsyncIterator[str]:
    """Serve the API and the dashboard with the context `given` on a free port. The server trusts the `proxies`. Yield
    the address, such as `127.0.0.1:12345`."""
    listener = listeners.bind(host, 0)
    stop = asyncio.Event()
    app = Forwarded(compose(replace(given, local=listeners.is_local(listener))), Proxies(map(ip_network, proxies)))
    running = asyncio.create_task(server.serve(app, listener, stop=stop, grace=5))
    try:
        yield listeners.address(listener).removeprefix("http://")
    finally:
        stop.set()
        await running


@pytest.fixture
async def address(served: WebContext) -> AsyncIterator[str]:
    async with serving(served) as found:
        yield found


@pytest.fixture
def nobody(address: str) -> Client:
    """A client without a token."""
    return Client(address)


@pytest.fixture
def token(organization: Organization) -> str:
    return tokens.issue(JWT_SECRET, organization.id, now=clock.wall())


@pytest.fixture
def client(nobody: Client, token: str) -> Client:
    """A client with a token of the organization."""
    return nobody.holding(token)


@pytest.fixture
def narrow(nobody: Client, organization: Organization, app: Application) -> Client:
    """A client with a token of one application."""
    return nobody.holding(tokens.issue(JWT_SECRET, organization.id, app_id=app.id, now=clock.wall()))
