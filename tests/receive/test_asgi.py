"""The middleware on uvicorn, over real sockets."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.endpoints import HTTPEndpoint
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from hookline.errors import InvalidInput
from hookline.receive import Verifier
from hookline.receive.idempotency import IdempotencySettings, from_json, from_webhook
from hookline.receive.idempotency.asgi import IdempotencyMiddleware
from hookline.receive.idempotency.keys import key_of
from hookline.receive.stores.sqlite import AsyncSqliteKeys, SqliteKeys
from tests.receive import senders
from tests.receive.asgi_apps import APPS
from tests.receive.desk import BINARY, LARGE, Desk
from tests.receive.web import (
    PATIENCE,
    AsyncKeys,
    Server,
    asgi_server,
    held_keys,
    let_leases_run_out,
    locked,
    logged,
    outlive_leases,
    read_replies,
)

EVENT = b'{"object": "event", "id": "evt_1", "type": "charge.succeeded"}'

Serve = Callable[..., Server]


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def patience() -> float:
    """Return the seconds that the store waits for a locked file."""
    return PATIENCE


@pytest.fixture
def keys(keys_file: str, patience: float) -> AsyncKeys:
    return AsyncKeys(keys_file, patience)


@pytest.fixture
def serve(desk: Desk, keys: AsyncKeys) -> Iterator[Serve]:
    """Return a function that starts a server with the middleware, for the given framework and settings."""
    with ExitStack() as stack:

        def start(framework: str = "starlette", *, options: dict[str, Any] | None = None, **settings: Any) -> Server:
            app = APPS[framework](desk, keys, IdempotencySettings(**settings))
            return stack.enter_context(asgi_server(app, **(options or {})))

        yield start
        desk.go.set()


@pytest.fixture(params=list(APPS))
def server(serve: Serve, request: pytest.FixtureRequest) -> Server:
    return serve(request.param)


# ── every framework ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_copy_gets_the_first_answer_byte_by_byte(server: Server, desk: Desk) -> None:
    first, copy = server.call("/pay", "k1", b'{"a": 1}'), server.call("/pay", "k1", b'{"a": 1}')
    assert (first.status, first.body, first.is_replay) == (200, b'{"n":1}', False)
    assert (copy.status, copy.body, copy.is_replay) == (200, b'{"n":1}', True)
    assert copy.all("x-plain") == ["1"]
    assert copy.all("link") == first.all("link")
    assert copy.one("content-type") == first.one("content-type")
    assert first.all("set-cookie") != []
    assert copy.all("set-cookie") == []
    assert len(copy.all("date")) == 1
    assert desk.bodies == [b'{"a": 1}']


def test_binary_bodies(server: Server, desk: Desk) -> None:
    replies = [server.call("/binary", "k1", BINARY) for _ in range(2)]
    assert [(reply.status, reply.body, reply.is_replay) for reply in replies] == [
        (201, BINARY, False),
        (201, BINARY, True),
    ]
    assert desk.bodies == [BINARY]


def test_an_answer_without_a_body(server: Server, desk: Desk) -> None:
    replies = [server.call("/empty", "k1") for _ in range(2)]
    assert [(reply.status, reply.body, reply.is_replay) for reply in replies] == [(204, b"", False), (204, b"", True)]
    assert replies[1].all("content-length") == []
    assert desk.effects == 1


def test_a_copy_of_a_running_request_gets_409_and_retry_after(server: Server, desk: Desk) -> None:
    first = server.later("/slow", "k1")
    assert desk.has_entered()
    for _ in range(3):
        busy = server.call("/slow", "k1")
        assert (busy.status, busy.code) == (409, "in_progress")
        assert 1 <= int(busy.one("retry-after")) <= 30
    assert server.call("/slow", "k1", b'{"other": 1}').status == 422
    desk.go.set()
    assert first.reply().status == 200
    copy = server.call("/slow", "k1")
    assert (copy.status, copy.body, copy.is_replay) == (200, first.reply().body, True)  # The answer 409 was not stored.
    assert desk.effects == 1


def test_a_handler_in_a_thread(server: Server, desk: Desk) -> None:
    first = server.later("/sync_pay", "k1")
    assert desk.has_entered()
    assert server.call("/sync_pay", "k1").status == 409
    desk.go.set()
    assert first.reply().status == 200
    assert server.call("/sync_pay", "k1").is_replay


def test_another_request_under_the_same_key(server: Server, desk: Desk) -> None:
    server.call("/pay", "k1", b"a")
    for path, method, body in (("/pay", "POST", b"b"), ("/pay", "PUT", b"a"), ("/pay?x=1", "POST", b"a")):
        reply = server.call(path, "k1", body, method=method)
        assert (reply.status, reply.code, reply.all("retry-after")) == (422, "key_reused", [])
    assert desk.effects == 1


def test_a_handler_that_raises_frees_the_key(server: Server, desk: Desk, keys_file: str) -> None:
    assert [server.call("/fails", "k1").status for _ in range(2)] == [500, 500]
    assert desk.effects == 2
    assert held_keys(keys_file) == (0, 0)


def test_a_server_error_is_not_kept(server: Server, desk: Desk) -> None:
    desk.statuses = [503, 410]
    replies = [server.call("/pay", "k1") for _ in range(3)]
    assert [(reply.status, reply.is_replay) for reply in replies] == [(503, False), (410, False), (410, True)]


def test_a_request_without_a_key_is_passed_on(server: Server, desk: Desk) -> None:
    assert [server.call("/pay").is_replay for _ in range(2)] == [False, False]
    assert [server.call("/pay", "k1", b"", method="GET").is_replay for _ in range(2)] == [False, False]
    assert server.call("/pay", "k1", b"", method="HEAD").status in (200, 405)
    assert desk.effects >= 4


def test_a_streamed_answer(server: Server, desk: Desk) -> None:
    replies = [server.call("/stream?size=4500", "k1") for _ in range(2)]
    assert [reply.body for reply in replies] == [LARGE[:4500]] * 2
    assert [reply.is_replay for reply in replies] == [False, True]
    assert replies[1].one("content-length") == "4500"
    assert desk.effects == 1


@pytest.mark.parametrize("framework", APPS)
def test_an_answer_over_the_size_limit_is_sent_in_full_once_and_replayed_without_its_body(
    framework: str, serve: Serve, desk: Desk
) -> None:
    server = serve(framework, max_response=2000)
    first, copy = (server.call("/stream?size=9000", "k1") for _ in range(2))
    assert first.body == LARGE[:9000]
    assert (copy.status, copy.body, copy.is_replay) == (200, b"", True)
    assert copy.one("idempotency-body-omitted") == "true"
    assert desk.effects == 1


@pytest.mark.parametrize("framework", APPS)
def test_the_handler_gets_the_verified_webhook(framework: str, serve: Serve, desk: Desk) -> None:
    server = serve(framework, verifier=Verifier(senders.WHSEC))
    sent = senders.standard(senders.WHSEC, b'{"order": 7}', str(int(time.time())))
    first, copy = (server.send("POST", "/pay", sent.headers.items(), sent.body) for _ in range(2))
    assert (first.status, copy.is_replay) == (200, True)
    (webhook,) = desk.webhooks
    assert (webhook.id, webhook.json()) == ("msg_2y7Xqm", {"order": 7})
    forged = server.send("POST", "/pay", sent.headers.items(), b'{"order": 8}')
    assert (forged.status, forged.code) == (401, "signature_invalid")
    assert desk.effects == 1


# ── keys and scopes ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_required_key_that_is_missing_is_refused(serve: Serve, desk: Desk) -> None:
    server = serve(required=True)
    assert (reply := server.call("/pay")).status == 400
    assert reply.code == "key_missing"
    assert server.call("/pay", '"quoted"').status == 200
    assert server.call("/pay", "quoted").is_replay
    assert desk.effects == 1


@pytest.mark.parametrize(
    "headers",
    [
        [("Idempotency-Key", "a b")],
        [("Idempotency-Key", "k" * 256)],
        [("Idempotency-Key", "a\x80")],
        [("Idempotency-Key", '"a')],
        [("Idempotency-Key", "a"), ("idempotency-key", "a")],
        [("Idempotency-Key", "a"), ("Idempotency-Key", "b")],
        [("Idempotency-Key", "")],
    ],
)
def test_hostile_keys(serve: Serve, desk: Desk, headers: list[tuple[str, str]]) -> None:
    reply = serve().send("POST", "/pay", headers, b"{}")
    assert (reply.status, reply.code, desk.effects) == (400, "key_malformed", 0)


def test_tenants_do_not_share_keys(serve: Serve, desk: Desk) -> None:
    server = serve(scope=lambda request: request.headers.get("x-tenant", ""))
    for tenant in ("acme", "globex", "acme"):
        server.call("/pay", "k1", headers=[("X-Tenant", tenant)])
    assert desk.effects == 2


def test_the_same_webhook_at_two_endpoints(serve: Serve, desk: Desk) -> None:
    server = serve()
    assert [server.send("POST", path, [("webhook-id", "m1")], b"").status for path in ("/pay", "/binary")] == [200, 201]
    assert desk.effects == 2


def test_a_key_from_the_body(serve: Serve, desk: Desk) -> None:
    server = serve(key=from_json("id"))
    replies = [server.call("/pay", body=body) for body in (b'{"id": "a"}', b'{"id": "b"}', b'{"id": "a"}')]
    assert [reply.is_replay for reply in replies] == [False, False, True]
    assert server.call("/pay", body=b"no JSON").status == 400


def test_stripes_event_id(serve: Serve, desk: Desk) -> None:
    server = serve(verifier=Verifier(senders.TEXT, "stripe"), key=from_webhook)
    for at in (-1, 0):  # Each attempt has a new signature.
        sent = senders.stripe(senders.TEXT, EVENT, str(int(time.time()) + at))
        assert server.send("POST", "/pay", sent.headers.items(), sent.body).status == 200
    assert (desk.effects, desk.webhooks[0].id) == (1, "evt_1")


def test_only_some_paths(serve: Serve, desk: Desk) -> None:
    server = serve(only=("/binary",), verifier=Verifier(senders.WHSEC))
    assert server.call("/pay", "k1").status == 200
    for path in ("/binary", "//binary", "/binary/", "/%62inary", "/binary/x"):
        assert server.call(path, "k1").status == 401
    assert desk.effects == 1


@pytest.mark.parametrize("only", ["/pay", "/shop/pay"])
def test_no_spelling_of_a_path_bypasses_the_verifier(desk: Desk, keys: AsyncKeys, only: str) -> None:
    """uvicorn's h11 accepts the request line `POST pay HTTP/1.1`. Litestar adds the missing slash, and removes the root
    path at any place."""
    app = APPS["litestar"](desk, keys, IdempotencySettings(only=["/nowhere"]))
    settings = IdempotencySettings(only=[only], verifier=Verifier(senders.WHSEC))

    async def mounted(scope: Any, receive: Any, send: Any) -> None:
        await IdempotencyMiddleware(app, keys, settings)({**scope, "root_path": "/shop"}, receive, send)

    with asgi_server(mounted, http="h11", lifespan="off") as server:
        paths = ("/pay", "pay", "/shop/pay", "/shop//pay/", "/x/shop/pay")
        assert [server.call(path, "k1").status for path in paths] == [401] * 5
    assert desk.effects == 0


def test_every_spelling_of_a_path_has_the_same_keys(desk: Desk, keys: AsyncKeys) -> None:
    """The application answers with and without its root path. A request that was handled at one path is no new request
    at the other."""
    app = APPS["litestar"](desk, keys, IdempotencySettings(only=["/nowhere"]))

    async def mounted(scope: Any, receive: Any, send: Any) -> None:
        await IdempotencyMiddleware(app, keys)({**scope, "root_path": "/shop"}, receive, send)

    with asgi_server(mounted, http="h11", lifespan="off") as server:
        replies = [server.call(path, "k1") for path in ("/shop/pay", "/pay", "pay", "/shop//pay", "/x/shop/pay")]
    assert [reply.is_replay for reply in replies] == [False, True, True, True, False]
    # Routers disagree about a root path that is not at the start, so it is not removed.
    assert replies[4].status == 404
    assert desk.effects == 1


def test_a_method_in_small_letters_is_the_same_one(desk: Desk, keys: AsyncKeys) -> None:
    """Starlette's HTTPEndpoint accepts lower-case methods, and uvicorn's h11 passes them on unchanged."""

    class Pay(HTTPEndpoint):
        async def post(self, request: Request) -> Response:
            return PlainTextResponse(str(desk.done(await request.body())))

    app = IdempotencyMiddleware(Starlette(routes=[Route("/pay", Pay)]), keys)
    with asgi_server(app, http="h11", lifespan="off") as server:
        replies = [server.call("/pay", "k1", method=method) for method in ("POST", "post", "Post")]
    assert [(reply.body, reply.is_replay) for reply in replies] == [(b"1", False), (b"1", True), (b"1", True)]


# ── leases ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_handler_that_outlives_its_lease_keeps_the_key(
    serve: Serve, desk: Desk, keys: AsyncKeys, keys_file: str
) -> None:
    server = serve(lease=4)
    first = server.later("/slow", "k1")
    assert desk.has_entered()
    outlive_leases(keys, keys_file)
    assert server.call("/slow", "k1").status == 409
    desk.go.set()
    assert first.reply().status == 200
    assert server.call("/slow", "k1").is_replay
    assert (desk.effects, keys.seen.lost.is_set()) == (1, False)


def test_the_next_copy_runs_after_a_crash(serve: Serve, desk: Desk, keys_file: str) -> None:
    """The dead process left its row in the store, and nobody renews the lease."""
    server = serve()
    server.call("/pay", "k1", b"mine")
    with sqlite3.connect(keys_file) as conn:
        conn.execute("UPDATE hookline_idempotency SET response = NULL, token = x'00'")
    conn.close()
    assert server.call("/pay", "k1", b"mine").status == 409
    let_leases_run_out(keys_file)
    assert server.call("/pay", "k1", b"other").status == 422
    assert (server.call("/pay", "k1", b"mine").status, desk.effects) == (200, 2)
    assert server.call("/pay", "k1", b"mine").is_replay


def test_a_lost_lease_is_logged_and_changes_nothing(
    serve: Serve, desk: Desk, keys: AsyncKeys, keys_file: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = serve(lease=3600)
    first = server.later("/slow", "k1")
    assert desk.has_entered()
    let_leases_run_out(keys_file)
    second = server.later("/slow", "k1")
    assert desk.has_entered()
    desk.go.set()
    answers = {first.reply().body, second.reply().body}
    assert answers == {b'{"n":1}', b'{"n":2}'}
    assert "response not saved: the lease of its idempotency key was lost" in caplog.text
    assert "handler runs again (run 2)" in caplog.text
    assert server.call("/slow", "k1").body == second.reply().body


def test_a_lease_lost_while_it_runs_is_logged(serve: Serve, desk: Desk, keys_file: str) -> None:
    server = serve(lease=0.6)
    first = server.later("/slow", "k1")
    assert desk.has_entered()
    with logged("lost while its handler runs") as noticed:
        with sqlite3.connect(keys_file, timeout=PATIENCE) as conn:
            conn.execute("UPDATE hookline_idempotency SET token = x'00', lease_until = lease_until + 3600000000")
        conn.close()
        assert noticed.wait(PATIENCE)
    desk.go.set()
    assert first.reply().status == 200


# ── clients that disconnect or send too much ──────────────────────────────────────────────────────────────────────


def test_a_client_that_disconnects_gets_the_stored_answer_when_it_retries(
    serve: Serve, desk: Desk, keys: AsyncKeys
) -> None:
    server = serve()
    for path in ("/slow", "/sync_pay"):
        desk.go.clear()
        with server.connect() as connection:
            connection.sendall(_raw(path, b"{}"))
            assert desk.has_entered()
        desk.go.set()
        assert keys.seen.finished.acquire(timeout=PATIENCE)
        assert server.call(path, "k1").is_replay
    assert desk.effects == 2


def test_a_client_that_disconnects_during_a_stream(serve: Serve, desk: Desk, keys: AsyncKeys) -> None:
    server = serve()
    with server.connect() as connection:
        connection.sendall(_raw("/stream?size=16000", b""))
        connection.recv(100)
    assert keys.seen.finished.acquire(timeout=PATIENCE)
    copy = server.call("/stream?size=16000", "k1", b"")
    assert (copy.is_replay, copy.body) == (True, LARGE[:16000])


def test_a_client_that_disconnects_before_its_body_is_complete(serve: Serve, desk: Desk) -> None:
    server = serve()
    with server.connect() as connection:
        connection.sendall(_raw("/pay", b"12345", length=10))
    assert server.call("/pay", "k1").status == 200
    assert desk.bodies == [b"{}"]


def test_a_slow_chunked_body(serve: Serve, desk: Desk) -> None:
    server = serve()
    replies = [
        server.send("POST", "/pay", [("Idempotency-Key", "k1")], body)
        for body in (iter([b"a", b"bc"]), b"abc", iter([b"abc"]))
    ]
    assert [reply.is_replay for reply in replies] == [False, True, True]
    assert desk.bodies == [b"abc"]


@pytest.mark.parametrize("http", ["h11", "httptools"])
def test_a_body_that_is_too_long(serve: Serve, desk: Desk, http: str) -> None:
    server = serve(max_body=1000, options={"http": http})
    assert server.call("/pay", "k1", b"x" * 1000).status == 200
    reply = server.call("/pay", "k2", b"x" * 1001)
    assert (reply.status, reply.code) == (413, "body_too_large")
    reply = server.send("POST", "/pay", [("Idempotency-Key", "k2")], iter([b"x" * 600] * 2))
    assert (reply.status, reply.code) == (413, "body_too_large")
    assert server.call("/pay", body=b"x" * 100_000).status == 200  # Requests without a key have no size limit.
    assert desk.effects == 2


@pytest.mark.parametrize("http", ["h11", "httptools"])
def test_the_next_request_on_a_connection_after_a_body_that_was_too_long(serve: Serve, desk: Desk, http: str) -> None:
    """The unread part of the first body must not be parsed as the second request."""
    server = serve(max_body=1000, options={"http": http})
    smuggled = _raw("/pay", b"smuggled", key="k9")
    with server.connect() as connection:
        connection.sendall(_raw("/pay", smuggled + b"x" * 5000) + _raw("/pay", b"second", key="k2"))
        refused, answered = read_replies(connection, 2)
    assert (refused.status, answered.status) == (413, 200)
    assert desk.bodies == [b"second"]


def _raw(path: str, body: bytes, *, key: str = "k1", length: int | None = None) -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: test\r\nIdempotency-Key: {key}\r\nContent-Length: {length or len(body)}\r\n\r\n"
    )
    return head.encode() + body


# ── the store ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_no_handler_runs_while_the_store_is_unavailable(serve: Serve, desk: Desk, keys_file: str) -> None:
    server = serve()
    _break(keys_file)
    reply = server.call("/pay", "k1")
    assert (reply.status, reply.code, desk.effects) == (503, "store_unavailable", 0)
    assert int(reply.one("retry-after")) > 0


def test_handlers_can_run_without_the_store_if_configured(serve: Serve, desk: Desk, keys_file: str) -> None:
    server = serve(when_unavailable="pass")
    _break(keys_file)
    assert [server.call("/pay", "k1").status for _ in range(2)] == [200, 200]
    assert desk.bodies == [b"{}", b"{}"]


@pytest.mark.parametrize("patience", [1.0])
def test_an_answer_that_cannot_be_stored_is_still_sent(
    serve: Serve, desk: Desk, keys_file: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = serve()
    first = server.later("/slow", "k1")
    assert desk.has_entered()
    with locked(keys_file):
        desk.go.set()
        assert first.reply().status == 200
    assert "response not saved, a copy may run the handler again" in caplog.text


def _break(keys_file: str) -> None:
    with open(keys_file, "wb") as file:  # noqa: PTH123
        file.write(b"this is not a database" * 100)


async def test_expired_keys_are_removed_in_the_background(serve: Serve, keys_file: str) -> None:
    store = AsyncSqliteKeys(keys_file)
    for at in range(3):
        await store.begin(key_of([], str(at)), b"f" * 32, token=b"t" * 16, lease=0.001)
    await store.aclose()
    with sqlite3.connect(keys_file) as conn:
        conn.execute("UPDATE hookline_idempotency SET expires_at = 1")
    conn.close()
    server = serve()
    server.call("/pay", "k1")
    while sum(held_keys(keys_file)) > 1:  # Only the file shows the progress, so the test polls.
        server.call("/pay", "k1")
    assert held_keys(keys_file) == (1, 0)


def test_a_sync_store_is_refused(keys_file: str) -> None:
    with pytest.raises(InvalidInput, match="SqliteKeys is not"):
        IdempotencyMiddleware(APPS["starlette"], SqliteKeys(keys_file))  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _logs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "hookline.receive")
