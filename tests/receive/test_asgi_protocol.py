"""The ASGI middleware on servers that cancel the application, or raise an error when the client has disconnected."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import litestar
import pytest

from hookline.receive import Verifier
from hookline.receive.idempotency import IdempotencySettings
from hookline.receive.idempotency.asgi import IdempotencyMiddleware
from tests.receive import senders
from tests.receive.web import AsyncKeys, held_keys, logged

Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]

START = {"type": "http.response.start", "status": 200, "headers": [(b"x-a", b"1")]}


def body(content: bytes = b"", *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": content, "more_body": more}


class Client:
    """One client connection, as an ASGI server sees it."""

    def __init__(self, key: str = "k1") -> None:
        self.scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "POST",
            "path": "/pay",
            "query_string": b"",
            "headers": [(b"idempotency-key", key.encode())],
            "extensions": {"http.response.pathsend": {}, "http.response.trailers": {}, "tls": {}},
        }
        self.messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.messages.put_nowait({"type": "http.request", "body": b"{}", "more_body": False})
        self.got: list[dict[str, Any]] = []
        self.is_gone = False

    async def receive(self) -> dict[str, Any]:
        return await self.messages.get()

    async def send(self, message: dict[str, Any]) -> None:
        if self.is_gone:
            raise OSError("the client is gone")
        self.got.append(message)

    def leave(self) -> None:
        self.is_gone = True
        self.messages.put_nowait({"type": "http.disconnect"})

    @property
    def content(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.got)

    @property
    def is_replay(self) -> bool:
        return (b"idempotency-replayed", b"true") in self.got[0]["headers"]


@pytest.fixture
async def keys(keys_file: str) -> AsyncIterator[AsyncKeys]:
    store = AsyncKeys(keys_file)
    yield store
    await store.aclose()


async def run(app: Any, keys: AsyncKeys, client: Client, **settings: Any) -> None:
    await IdempotencyMiddleware(app, keys, IdempotencySettings(**settings))(client.scope, client.receive, client.send)


async def ended(semaphore: Any) -> None:
    assert await asyncio.to_thread(semaphore.acquire, timeout=30)


async def test_lifespan_and_websocket_calls_are_passed_on(keys: AsyncKeys) -> None:
    seen: list[Any] = []

    async def app(*call: Any) -> None:
        seen.append(call)

    middleware = IdempotencyMiddleware(app, keys)
    calls = [({"type": kind}, object(), object()) for kind in ("lifespan", "websocket", "http.push")]
    for call in calls:
        await middleware(*call)  # type: ignore[arg-type]
    assert seen == calls  # The application gets the same objects.


@pytest.mark.parametrize("path", ["/hooks", "/hooks\n", "//hooks/x", "/free"])
async def test_a_websocket_does_not_bypass_the_signature(keys: AsyncKeys, path: str) -> None:
    """A WebSocket handshake cannot be signed. Where only signed requests are accepted, it is answered with 403."""
    seen: list[Any] = []
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["path"])

    async def send(message: Any) -> None:
        sent.append(message["type"])

    async def receive() -> Any:
        raise AssertionError("never called")

    settings = IdempotencySettings(verifier=Verifier(senders.WHSEC), only=["/hooks"])
    await IdempotencyMiddleware(app, keys, settings)({"type": "websocket", "path": path}, receive, send)
    assert (seen, sent) == (["/free"], []) if path == "/free" else ([], ["websocket.close"])


async def test_a_mount_of_litestar_does_not_bypass_the_signature(keys: AsyncKeys) -> None:
    """A mount in Litestar accepts every path with its prefix, and passes the rest of the path to the mounted
    application."""
    ran: list[str] = []

    @litestar.post("/pay", status_code=200)
    async def pay() -> dict[str, str]:
        ran.append("pay")
        return {}

    mounted = litestar.Litestar([litestar.asgi("/hooks", is_mount=True, copy_scope=True)(litestar.Litestar([pay]))])
    settings = IdempotencySettings(verifier=Verifier(senders.WHSEC), only=["/hooks"])
    for path in ("/hooks/pay", "/hookspay"):
        client = Client()
        client.scope |= {
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "scheme": "http",
            "server": ("a", 80),
        }
        await IdempotencyMiddleware(mounted, keys, settings)(client.scope, client.receive, client.send)
        assert client.got[0]["status"] == 401, path
    assert ran == []


async def test_the_answer_is_stored_before_its_last_chunk_is_sent(keys: AsyncKeys, keys_file: str) -> None:
    states: list[tuple[bytes, tuple[int, int]]] = []

    class Noting(Client):
        async def send(self, message: dict[str, Any]) -> None:
            states.append((message.get("body", b"start"), held_keys(keys_file)))

    async def whole(scope: Any, receive: Receive, send: Send) -> None:
        await send(START)
        await send(body(b"whole"))

    async def parts(scope: Any, receive: Receive, send: Send) -> None:
        await send(START)
        await send(body(b"first", more=True))
        await send(body(b"last", more=True))
        await send(body())

    async def announced(scope: Any, receive: Receive, send: Send) -> None:
        await send(START | {"headers": [(b"Content-Length", b"9")]})
        await send(body(b"first", more=True))
        await send(body(b"last", more=True))
        await send(body())

    await run(whole, keys, Noting("k1"))
    assert states == [(b"start", (1, 0)), (b"whole", (1, 0))]
    states.clear()
    await run(parts, keys, Noting("k2"))
    assert states == [(b"start", (1, 1)), (b"first", (1, 1)), (b"last", (1, 1)), (b"", (2, 0))]
    states.clear()
    await run(announced, keys, Noting("k3"))
    assert states == [(b"start", (2, 1)), (b"first", (2, 1)), (b"last", (3, 0)), (b"", (3, 0))]


async def test_a_key_is_released_before_the_failure_is_sent(keys: AsyncKeys, keys_file: str) -> None:
    states: list[tuple[int, int]] = []

    class Noting(Client):
        async def send(self, message: dict[str, Any]) -> None:
            states.append(held_keys(keys_file))

    async def app(scope: Any, receive: Receive, send: Send) -> None:
        await send(START | {"status": 503})
        await send(body(b"later"))

    await run(app, keys, Noting())
    assert states == [(0, 0), (0, 0)]


async def test_a_server_that_cancels_does_not_stop_the_handler(keys: AsyncKeys) -> None:
    entered, go = asyncio.Event(), asyncio.Event()

    async def app(scope: Any, receive: Receive, send: Send) -> None:
        entered.set()
        await go.wait()
        await send(START)
        await send(body(b"done"))

    first, copy = Client(), Client()
    task = asyncio.create_task(run(app, keys, first))
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go.set()
    await ended(keys.seen.finished)
    await run(app, keys, copy)
    assert (copy.content, copy.is_replay, first.got) == (b"done", True, [])


async def test_an_error_of_a_handler_after_the_cancellation_is_logged(keys: AsyncKeys) -> None:
    entered, go = asyncio.Event(), asyncio.Event()

    async def app(scope: Any, receive: Receive, send: Send) -> None:
        entered.set()
        await go.wait()
        raise ZeroDivisionError

    task = asyncio.create_task(run(app, keys, Client()))
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with logged("handler failed after its client went away") as noticed:
        go.set()
        assert await asyncio.to_thread(noticed.wait, 30)


async def test_a_handler_that_is_cancelled_itself_frees_the_key(keys: AsyncKeys, keys_file: str) -> None:
    async def app(scope: Any, receive: Receive, send: Send) -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await run(app, keys, Client())
    await ended(keys.seen.released)
    assert held_keys(keys_file) == (0, 0)


async def test_a_disconnect_is_reported_only_after_the_answer_is_stored(keys: AsyncKeys) -> None:
    heard: list[str] = []

    async def app(scope: Any, receive: Receive, send: Send) -> None:
        heard.append((await receive())["type"])
        listener = asyncio.create_task(receive())  # type: ignore[arg-type]
        client.leave()
        await asyncio.sleep(0)
        assert not listener.done()
        await send(START)
        for part in (b"a", b"b"):
            await send(body(part, more=True))
        await send(body())
        heard.append((await listener)["type"])

    client, copy = Client(), Client()
    await run(app, keys, client)
    await run(app, keys, copy)
    assert (copy.content, copy.is_replay) == (b"ab", True)
    assert heard == ["http.request", "http.disconnect"]


async def test_an_event_stream_is_stored_as_finished_when_it_starts(keys: AsyncKeys) -> None:
    """A stream of server-sent events may never end, so it must stop when its client disconnects."""

    async def app(scope: Any, receive: Receive, send: Send) -> None:
        await send(START | {"headers": [(b"content-type", b"text/event-stream"), (b"x-a", b"1")]})
        await send(body(b"data: 1\n\n", more=True))
        client.leave()
        await send(body(b"data: 2\n\n", more=True))
        raise AssertionError("unreachable")

    client, copy = Client(), Client()
    with pytest.raises(OSError, match="gone"):
        await run(app, keys, client)
    await run(app, keys, copy)
    assert (copy.content, copy.is_replay) == (b"", True)
    assert (b"x-a", b"1") in copy.got[0]["headers"]
    assert (b"idempotency-body-omitted", b"true") in copy.got[0]["headers"]


async def test_a_stream_over_the_size_limit_is_told_of_the_disconnect(keys: AsyncKeys) -> None:
    sent = 0

    async def app(scope: Any, receive: Receive, send: Send) -> None:
        nonlocal sent
        await receive()
        await send(START)
        while True:
            await send(body(b"1234", more=True))
            sent += 1
            if sent == 1:
                client.leave()
            if sent > 3:
                assert (await receive())["type"] == "http.disconnect"

    client, copy = Client(), Client()
    with pytest.raises(OSError, match="gone"):
        await run(app, keys, client, max_response=10)
    assert sent == 2  # The third chunk exceeded the size limit.
    await run(app, keys, copy)
    assert (copy.content, copy.is_replay) == (b"", True)


async def test_a_server_can_cancel_a_stream_over_the_size_limit(keys: AsyncKeys) -> None:
    beyond, stopped = asyncio.Event(), asyncio.Event()

    async def app(scope: Any, receive: Receive, send: Send) -> None:
        await send(START)
        await send(body(b"12345", more=True))
        beyond.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    task = asyncio.create_task(run(app, keys, Client(), max_response=4))
    await beyond.wait()
    task.cancel()
    await asyncio.wait_for(stopped.wait(), 30)


@pytest.mark.parametrize("messages", [[], [START], [START, body(b"half", more=True)]])
async def test_an_incomplete_answer_is_not_stored(keys: AsyncKeys, keys_file: str, messages: list[Any]) -> None:
    async def returns(scope: Any, receive: Receive, send: Send) -> None:
        for message in messages:
            await send(message)

    async def raises(scope: Any, receive: Receive, send: Send) -> None:
        await returns(scope, receive, send)
        raise ZeroDivisionError

    await run(returns, keys, Client())
    assert held_keys(keys_file) == (0, 0)
    with pytest.raises(ZeroDivisionError):
        await run(raises, keys, Client())
    assert held_keys(keys_file) == (0, 0)


async def test_an_error_after_the_answer_does_not_remove_the_stored_answer(keys: AsyncKeys) -> None:
    """Background tasks run after the answer and may raise."""

    async def app(scope: Any, receive: Receive, send: Send) -> None:
        await send(START)
        await send(body(b"done"))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await run(app, keys, Client())
    copy = Client()
    await run(app, keys, copy)
    assert copy.content == b"done"


async def test_no_asgi_extension_bypasses_the_middleware(keys: AsyncKeys) -> None:
    async def app(scope: Any, receive: Receive, send: Send) -> None:
        assert scope["extensions"] == {"tls": {}}
        await send(START)
        await send(body())

    await run(app, keys, Client())


async def test_one_middleware_inside_another(keys: AsyncKeys) -> None:
    """Both middlewares use the same key in the same store. The inner one must not report its own request as in
    progress."""

    async def app(scope: Any, receive: Receive, send: Send) -> None:
        await send(START)
        await send(body((await receive())["body"] * 2))

    first, copy = Client(), Client()
    await run(IdempotencyMiddleware(app, keys), keys, first)
    await run(IdempotencyMiddleware(app, keys), keys, copy)
    assert (first.content, copy.content, copy.is_replay) == (b"{}{}", b"{}{}", True)
