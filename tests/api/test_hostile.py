"""Malicious requests: each gets a JSON answer, and none crashes or blocks the server."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, ClassVar

import msgspec
import pytest
from msgspec.structs import replace
from starlette.types import Message
from structlog.testing import capture_logs

from hookline.api import wire
from hookline.errors import Busy, StoreUnavailable
from hookline.model.catalogue import Application, NewApplication
from hookline.security.tokens import issue
from hookline.server import connection, http
from hookline.server import sockets as listeners
from hookline.server.web_app import compose
from hookline.store import Store
from hookline.web.body import BodyMemory
from hookline.web.context import WebContext
from hookline.web.errors import answer
from tests.api.conftest import Client, serving


async def read_to_end(address: str, sent: bytes) -> bytes:
    """Send these bytes and return everything that the server sends until it closes the connection."""
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(sent)
        return await reader.read()
    finally:
        writer.close()


DEEP = b"[" * 20_000 + b"]" * 20_000


@pytest.mark.parametrize(
    ("path", "given"),
    [
        ("/api/v1/event-type", b'{"name": "n", "description": "d", "schemas": {"1": {"more": ' + DEEP + b"}}}"),
        ("/api/v1/app/{app}/msg", b'{"eventType": "t", "payload": ' + DEEP + b"}"),
        ("/api/v1/app/{app}/msg/batch", b'{"messages": [{"eventType": "t", "payload": ' + DEEP + b"}]}"),
    ],
)
async def test_json_that_is_nested_too_deeply(client: Client, app: Application, path: str, given: bytes) -> None:
    assert "nested" in (await client.post(path.format(app=app.id), given)).problem(400, "bad_request")


@pytest.mark.parametrize("path", ["/api/v1/app", "/api/v1/app/{app}/endpoint", "/api/v1/app/{app}/msg"])
async def test_deep_nesting_in_an_unknown_field_is_refused(client: Client, app: Application, path: str) -> None:
    [fault] = (await client.post(path.format(app=app.id), b'{"more": ' + DEEP + b"}")).faults()
    assert fault["msg"] == "unknown field"


async def test_text_that_is_not_utf8(client: Client) -> None:
    assert "UTF-8" in (await client.post("/api/v1/app", b'{"name": "\xff"}')).problem(400, "bad_request")


@pytest.mark.parametrize("code", ["%00", "%1b", "%7f", "%c2%9b", "%0a"])
async def test_control_characters_in_addresses(client: Client, app: Application, code: str) -> None:
    for path in (
        f"/app/a{code}",
        f"/app/a{code}/msg",
        f"/app/{app.id}/endpoint/e{code}",
        f"/app/{app.id}/msg/m{code}",
        f"/app?iterator=app_{code}",
        f"/app/{app.id}/msg?iterator=-msg_{code}",
        f"/app/{app.id}/endpoint?iterator={code}",
    ):
        assert "control character" in (await client.get("/api/v1" + path)).problem(400, "bad_request")


async def test_a_caller_that_disconnects_is_not_logged_as_an_error(served: WebContext, token: str) -> None:
    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(_message: Message) -> None:
        pass

    for path in ("/api/v1/app", "/login"):
        scope: dict[str, Any] = {
            "type": "http",
            "method": "POST",
            "path": path,
            "query_string": b"",
            "headers": [(b"authorization", f"Bearer {token}".encode())],
        }
        with capture_logs() as logged:
            await compose(served)(scope, receive, send)
        assert [entry for entry in logged if entry["event"] != "request"] == []


async def test_a_body_that_never_arrives_times_out(served: WebContext, token: str) -> None:
    head = f"POST /api/v1/app HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\ncontent-length: 50\r\n\r\n{{"
    async with serving(replace(served, body_time=0.05)) as address:
        found = await read_to_end(address, head.encode())
        assert found.startswith(b"HTTP/1.1 408 ")
        assert b"\r\nconnection: close\r\n" in found
        assert b'"code":"request_timeout"' in found


async def test_bodies_that_are_held_back_fill_a_share_of_the_memory_and_no_more(
    served: WebContext, store: Store, app: Application
) -> None:
    """One tenant withholds the last byte of a large body.

    The server does not read that tenant's next body, but it still accepts the bodies of another tenant.
    """
    other = await store.catalogue.create_application(app.org_id, NewApplication(name="other"))
    secret, now = served.token_secret, served.wall()
    tokens = {
        each.id: issue(secret, app.org_id, app_id=each.id, now=now, portal=True, publish=True) for each in (app, other)
    }
    gathering = BodyMemory(limit=400_000, per_tenant=200_000)
    done: list[str] = []

    async with serving(replace(served, gathering=gathering)) as address:

        async def send(name: str, app_id: str, hold: asyncio.Event | None = None) -> None:
            reader, writer = await asyncio.open_connection(*address.split(":"))
            text = msgspec.json.encode({"messages": [{"eventType": "a", "payload": "x" * 120_000}]})
            head = (
                f"POST /api/v1/app/{app_id}/msg/batch HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {tokens[app_id]}\r\n"
            )
            writer.write(f"{head}content-length: {len(text)}\r\nconnection: close\r\n\r\n".encode() + text[:-1])
            if hold is not None:
                await hold.wait()
            writer.write(text[-1:])
            assert (await reader.read()).startswith(b"HTTP/1.1 202 "), name
            writer.close()
            done.append(name)

        hold = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(send("held back", app.id, hold))
            while not gathering._reserved:
                await asyncio.sleep(0)
            tasks.create_task(send("next", app.id))
            await send("another's", other.id)
            assert done == ["another's"]
            hold.set()
    # The server may read the next body while the first one is stored, so either may be answered first.
    assert sorted(done[1:]) == ["held back", "next"]
    assert not gathering._reserved


async def test_a_body_that_waits_too_long_for_memory_is_refused() -> None:
    gathering = BodyMemory(limit=10, per_tenant=10)
    async with gathering.reserve("a", 8, 60):
        with pytest.raises(Busy, match="try again"):
            async with gathering.reserve("a", 3, 0.01):
                raise AssertionError
        async with gathering.reserve("b", 2, 0.01):
            pass
    async with gathering.reserve("a", 1000, 0.01):  # a body larger than any share is read alone
        pass


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nhost: a\r\n"])
async def test_a_request_that_never_arrives_times_out(
    served: WebContext, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    async with serving(served) as address:
        monkeypatch.setattr(connection, "REQUEST_TIME", 0.05)
        assert await read_to_end(address, sent) == b""
        monkeypatch.setattr(connection, "REQUEST_TIME", 60.0)
        reader, writer = await asyncio.open_connection(*address.split(":"))
        writer.write(b"GET /api/v1/health HTTP/1.1\r\nhost: a\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 204 ")
        monkeypatch.setattr(connection, "REQUEST_TIME", 0.05)
        writer.write(b"GET /")  # an incomplete second request
        assert await reader.read() == b""
        writer.close()


async def test_the_rest_of_a_body_is_not_run_as_a_request(address: str, token: str, app: Application) -> None:
    """A packet ends inside the blank line after the head. The server must not run request text hidden in the body."""
    hidden = f"DELETE /api/v1/app/{app.id} HTTP/1.1\r\nhost: a\r\nx: ".encode()
    body = b"\r\nupgrade:" * (len(hidden) // 2) + hidden
    head = b"POST /api/v1/app HTTP/1.1\r\nhost: a\r\nauthorization: Bearer bad\r\ncontent-length: %d\r\n\r\n" % len(
        body
    )
    victim = f"GET /api/v1/app/{app.id} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\n"
    for place in range(1, 4):
        reader, writer = await asyncio.open_connection(*address.split(":"))
        for part in (head[:-place], head[-place:] + body):
            writer.write(part)
            await asyncio.sleep(0.05)  # a pause, so that the server receives the parts separately
        writer.write(f"{victim}connection: close\r\n\r\n".encode())
        found = await reader.read()
        writer.close()
        assert found.startswith(b"HTTP/1.1 401 ")
        assert b"HTTP/1.1 200 " in found, found


@pytest.fixture
def narrow_road(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the server a small send buffer, so that the network takes only a little of an answer at a time."""
    bind = listeners.bind

    def narrow(host: str, port: int) -> socket.socket:
        listener = bind(host, port)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # accepted sockets inherit this option
        return listener

    monkeypatch.setattr(listeners, "bind", narrow)


class Looks(connection.Connection):
    """A connection whose read timer fires only when the test calls `look`, so that a slow machine changes nothing."""

    made: ClassVar[list[Looks]] = []

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn's own, narrower type
        super().connection_made(transport)
        self.made.append(self)

    @property
    def left(self) -> int:
        return self.transport.get_write_buffer_size()

    def look(self) -> None:
        """Run the read timer now."""
        assert self._read_timer is not None
        self._read_timer._run()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Looks]:
    """All connections of the server, in the order in which they were opened."""
    monkeypatch.setattr(Looks, "made", [])
    monkeypatch.setattr(http, "Connection", Looks)
    monkeypatch.setattr(connection, "READ_TIME", 3600.0)
    return Looks.made


async def untaken(looks: list[Looks], number: int) -> Looks:
    """Wait until the connection `looks[number]` has unread answer bytes, and return it."""
    async with asyncio.timeout(60):
        while len(looks) <= number or looks[number]._read_timer is None:
            await asyncio.sleep(0.01)  # poll, because the server has no event for this
    return looks[number]


@pytest.mark.usefixtures("narrow_road")
@pytest.mark.parametrize("path", ["/docs", "/api/v1/openapi.json"])
async def test_a_connection_with_an_unread_answer_is_closed(served: WebContext, looks: list[Looks], path: str) -> None:
    """By not reading an answer, a caller without a token could hold a connection forever. The server closes it."""
    async with serving(served) as address:
        whole = await Client(address).get(path)
        assert len(whole.body) == int(whole.headers["content-length"])
        reader, writer = await ask(address, path)
        (await untaken(looks, 1)).look()
        assert len(await reader.read()) < len(whole.body)
        writer.close()


@pytest.mark.usefixtures("narrow_road")
async def test_an_answer_that_is_read_slowly_arrives_whole(
    served: WebContext, looks: list[Looks], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection stays open as long as the client reads the minimum in each period."""
    monkeypatch.setattr(connection, "MIN_READ", 1024)
    async with serving(served) as address:
        reader, writer = await ask(address, "/docs")
        there = await untaken(looks, 0)
        found, before, looked = b"", there.left, 0
        while part := await reader.read(8192):
            found += part
            if 0 < there.left <= before - connection.MIN_READ:
                there.look()
                before, looked = there.left, looked + 1
        head, _, body = found.partition(b"\r\n\r\n")
        assert f"content-length: {len(body)}".encode() in head
        assert looked > 3
        writer.close()


async def ask(address: str, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send a request over a connection whose client reads only a little at a time."""
    narrow = socket.socket()
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    narrow.setblocking(False)
    host, port = address.split(":")
    await asyncio.get_running_loop().sock_connect(narrow, (host, int(port)))
    reader, writer = await asyncio.open_connection(sock=narrow, limit=1024)
    writer.write(f"GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n".encode())
    return reader, writer


def test_the_error_of_an_outage_does_not_describe_the_database() -> None:
    found = answer(StoreUnavailable("PostgreSQL cannot be reached: connection to 10.1.2.3, port 5433 failed"))
    assert found.status_code == 503
    assert b"10.1.2.3" not in found.body
    assert b"try again" in found.body


async def test_an_outage_on_every_page(nobody: Client, store: Store, token: str) -> None:
    await store.close()
    with capture_logs() as logged:
        (await nobody.holding(token).get("/api/v1/app")).problem(503, "unavailable")
        page = await nobody.request("GET", "/", None, {"cookie": "hookline_session=x"})
        customer = await nobody.request("GET", "/portal", None, {"cookie": "hookline_portal_session=x"})
    assert (page.status, customer.status) == (503, 503)
    told = [(entry["event"], entry["log_level"]) for entry in logged if entry["event"] != "request"]
    assert told == [("database_unavailable", "warning")] * 3
    for body in (page.body, customer.body):
        assert logged[0]["error"].encode() not in body


def test_secrets_are_not_part_of_a_text() -> None:
    given = wire.EndpointIn(url="https://a.example", secret="whsec_c2VjcmV0", headers={"x-key": "hunter2"})
    for text in (repr(given), str(given), f"{given!r}", repr([given])):
        assert "https://a.example" in text
        assert "x-key" in text
        assert "c2VjcmV0" not in text
        assert "hunter2" not in text
