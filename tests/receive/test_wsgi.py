"""The middleware on a threaded WSGI server, over real sockets."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from hookline.errors import InvalidInput
from hookline.receive import Verifier
from hookline.receive.idempotency import IdempotencySettings, from_json
from hookline.receive.idempotency.wsgi import IdempotencyMiddleware
from hookline.receive.stores.sqlite import AsyncSqliteKeys
from tests.receive import senders
from tests.receive.desk import BINARY, LARGE, Desk
from tests.receive.web import (
    PATIENCE,
    Keys,
    Server,
    held_keys,
    let_leases_run_out,
    locked,
    logged,
    outlive_leases,
    read_replies,
    wsgi_server,
)
from tests.receive.wsgi_apps import flask_app

Serve = Callable[..., Server]


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def patience() -> float:
    """Return the seconds that the store waits for a locked file."""
    return PATIENCE


@pytest.fixture
def keys(keys_file: str, patience: float) -> Keys:
    return Keys(keys_file, patience)


@pytest.fixture
def serve(desk: Desk, keys: Keys) -> Iterator[Serve]:
    with ExitStack() as stack:

        def start(**settings: Any) -> Server:
            app = flask_app(desk)
            app.wsgi_app = IdempotencyMiddleware(app.wsgi_app, keys, IdempotencySettings(**settings))  # type: ignore[method-assign]
            return stack.enter_context(wsgi_server(app))

        yield start
        desk.go.set()
    keys.close()


@pytest.fixture
def server(serve: Serve) -> Server:
    return serve()


@pytest.fixture(autouse=True)
def _logs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "hookline.receive")


def test_a_copy_gets_the_first_answer_byte_by_byte(server: Server, desk: Desk) -> None:
    first, copy = server.call("/pay", "k1", b'{"a": 1}'), server.call("/pay", '"k1"', b'{"a": 1}')
    assert (first.status, first.body, first.is_replay) == (200, b'{"n":1}', False)
    assert (copy.status, copy.body, copy.is_replay) == (200, b'{"n":1}', True)
    assert (copy.all("x-plain"), copy.all("link")) == (["1"], ["</a>", "</b>"])
    assert copy.one("content-type") == first.one("content-type")
    assert (len(first.all("set-cookie")), copy.all("set-cookie")) == (2, [])
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
    assert [(reply.status, reply.is_replay) for reply in replies] == [(204, False), (204, True)]
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
    assert (copy.status, copy.body, copy.is_replay) == (200, first.reply().body, True)
    assert desk.effects == 1


def test_another_request_under_the_same_key(server: Server, desk: Desk) -> None:
    server.call("/pay", "k1", b"a")
    for path, method, body in (("/pay", "POST", b"b"), ("/pay", "PUT", b"a"), ("/pay?x=1", "POST", b"a")):
        reply = server.call(path, "k1", body, method=method)
        assert (reply.status, reply.code) == (422, "key_reused")
    assert desk.effects == 1


def test_a_handler_that_raises_frees_the_key(server: Server, desk: Desk, keys_file: str) -> None:
    assert [server.call("/fails", "k1").status for _ in range(2)] == [500, 500]
    assert desk.effects == 2
    assert held_keys(keys_file) == (0, 0)


def test_a_server_error_is_not_kept(server: Server, desk: Desk) -> None:
    desk.statuses = [503, 429, 410]
    replies = [server.call("/pay", "k1") for _ in range(4)]
    assert [reply.status for reply in replies] == [503, 429, 410, 410]
    assert [reply.is_replay for reply in replies] == [False, False, False, True]


def test_a_request_without_a_key_is_passed_on(server: Server, desk: Desk) -> None:
    assert [server.call("/pay").is_replay for _ in range(2)] == [False, False]
    for method in ("GET", "HEAD"):
        assert [server.call("/pay", "k1", b"", method=method).is_replay for _ in range(2)] == [False, False]
    assert desk.effects == 6


def test_a_required_key_that_is_missing_is_refused(serve: Serve, desk: Desk) -> None:
    server = serve(required=True)
    reply = server.call("/pay")
    assert (reply.status, reply.code, desk.effects) == (400, "key_missing", 0)
    assert server.call("/pay", "k1").status == 200


@pytest.mark.parametrize(
    "headers",
    [
        [("Idempotency-Key", "a b")],
        [("Idempotency-Key", "k" * 256)],
        [("Idempotency-Key", "a\x80")],
        [("Idempotency-Key", '"a')],
        [("Idempotency-Key", "a"), ("idempotency-key", "a")],
        [("Idempotency-Key", "a,b")],
        [("Idempotency-Key", "")],
    ],
)
def test_hostile_keys(server: Server, desk: Desk, headers: list[tuple[str, str]]) -> None:
    reply = server.send("POST", "/pay", headers, b"{}")
    assert (reply.status, reply.code, desk.effects) == (400, "key_malformed", 0)


def test_tenants_do_not_share_keys(serve: Serve, desk: Desk) -> None:
    server = serve(scope=lambda request: request.native.get("HTTP_X_TENANT", ""))
    for tenant in ("acme", "globex", "acme"):
        server.call("/pay", "k1", headers=[("X-Tenant", tenant)])
    assert desk.effects == 2


def test_a_key_from_the_body(serve: Serve, desk: Desk) -> None:
    server = serve(key=from_json("id"))
    replies = [server.call("/pay", body=body) for body in (b'{"id": "a"}', b'{"id": "b"}', b'{"id": "a"}')]
    assert [reply.is_replay for reply in replies] == [False, False, True]


def test_the_handler_gets_the_verified_webhook(serve: Serve, desk: Desk) -> None:
    server = serve(verifier=Verifier(senders.WHSEC))
    sent = senders.standard(senders.WHSEC, b'{"order": 7}', str(int(time.time())))
    first, copy = (server.send("POST", "/pay", sent.headers.items(), sent.body) for _ in range(2))
    assert (first.status, copy.is_replay) == (200, True)
    (webhook,) = desk.webhooks
    assert (webhook.id, webhook.json()) == ("msg_2y7Xqm", {"order": 7})
    forged = server.send("POST", "/pay", sent.headers.items(), b'{"order": 8}')
    assert (forged.status, forged.code, desk.effects) == (401, "signature_invalid", 1)


def test_only_some_paths(serve: Serve, desk: Desk) -> None:
    server = serve(only=("/binary",), verifier=Verifier(senders.WHSEC))
    assert server.call("/pay", "k1").status == 200
    for path in ("/binary", "//binary", "/binary/", "/%62inary", "binary", "x:binary"):
        assert server.call(path, "k1").status == 401
    assert desk.effects == 1


# ── streams ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_streamed_answer(server: Server, desk: Desk) -> None:
    replies = [server.call("/stream?size=4500", "k1") for _ in range(2)]
    assert [reply.body for reply in replies] == [LARGE[:4500]] * 2
    assert [reply.is_replay for reply in replies] == [False, True]
    assert replies[1].one("content-length") == "4500"
    assert desk.effects == 1


def test_an_answer_over_the_size_limit_is_sent_in_full_once_and_replayed_without_its_body(
    serve: Serve, desk: Desk
) -> None:
    server = serve(max_response=2000)
    first, copy = (server.call("/stream?size=9000", "k1") for _ in range(2))
    assert first.body == LARGE[:9000]
    assert (copy.status, copy.body, copy.is_replay) == (200, b"", True)
    assert copy.one("idempotency-body-omitted") == "true"


def test_a_client_that_disconnects_gets_the_stored_answer_when_it_retries(
    server: Server, desk: Desk, keys: Keys
) -> None:
    with server.connect() as connection:
        connection.sendall(_raw("/slow", b"{}"))
        assert desk.has_entered()
    desk.go.set()
    assert keys.seen.finished.acquire(timeout=PATIENCE)
    assert server.call("/slow", "k1").is_replay
    assert desk.effects == 1


def test_a_client_that_disconnects_during_a_stream(server: Server, desk: Desk, keys: Keys) -> None:
    with server.connect() as connection:
        connection.sendall(_raw("/stream?size=16000", b""))
        assert desk.has_entered()
    assert keys.seen.finished.acquire(timeout=PATIENCE)
    assert desk.closed.wait(PATIENCE)
    copy = server.call("/stream?size=16000", "k1", b"")
    assert (copy.is_replay, copy.body) == (True, LARGE[:16000])


# ── bodies ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_chunked_body(server: Server, desk: Desk) -> None:
    bodies: list[Any] = [iter([b"a", b"bc"]), b"abc", iter([b"abc"])]
    replies = [server.send("POST", "/pay", [("Idempotency-Key", "k1")], body) for body in bodies]
    assert [reply.is_replay for reply in replies] == [False, True, True]
    assert desk.bodies == [b"abc"]


def test_a_body_that_is_too_long(serve: Serve, desk: Desk) -> None:
    server = serve(max_body=1000)
    assert server.call("/pay", "k1", b"x" * 1000).status == 200
    reply = server.call("/pay", "k2", b"x" * 1001)
    assert (reply.status, reply.code) == (413, "body_too_large")
    reply = server.send("POST", "/pay", [("Idempotency-Key", "k2")], iter([b"x" * 600] * 2))
    assert (reply.status, reply.code) == (413, "body_too_large")
    assert server.call("/pay", body=b"x" * 100_000).status == 200  # Requests without a key have no size limit.
    assert desk.effects == 2


def test_the_next_request_on_a_connection_after_a_body_that_was_too_long(serve: Serve, desk: Desk) -> None:
    """Werkzeug's server reads the rest of a refused body and closes the connection. It must not parse the rest as a
    request."""
    server = serve(max_body=1000)
    smuggled = _raw("/pay", b"smuggled", key="k9")
    with server.connect() as connection:
        connection.sendall(_raw("/pay", smuggled + b"x" * 5000) + _raw("/pay", b"second", key="k2"))
        (refused,) = read_replies(connection, 1)
    assert refused.status == 413
    assert desk.bodies in ([], [b"second"])


def test_an_incomplete_body_runs_no_handler(server: Server, desk: Desk) -> None:
    import socket

    with server.connect() as connection:
        connection.sendall(_raw("/pay", b"12345", length=10))
        connection.shutdown(socket.SHUT_WR)
        (refused,) = read_replies(connection, 1)
    assert (refused.status, refused.code, desk.effects) == (400, "body_incomplete", 0)


def test_invalid_chunks_run_no_handler(server: Server, desk: Desk) -> None:
    head = b"POST /pay HTTP/1.1\r\nHost: t\r\nIdempotency-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n"
    with server.connect() as connection:
        connection.sendall(head + b"not a number\r\n")
        (refused,) = read_replies(connection, 1)
    assert (refused.status, refused.code, desk.effects) == (400, "body_incomplete", 0)


def _raw(path: str, body: bytes, *, key: str = "k1", length: int | None = None) -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: test\r\nIdempotency-Key: {key}\r\nContent-Length: {length or len(body)}\r\n\r\n"
    )
    return head.encode() + body


# ── leases and the store ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_handler_that_outlives_its_lease_keeps_the_key(serve: Serve, desk: Desk, keys: Keys, keys_file: str) -> None:
    server = serve(lease=4)
    running = [server.later("/slow", key) for key in ("k1", "k2")]  # One thread renews both leases.
    assert desk.has_entered()
    assert desk.has_entered()
    outlive_leases(keys, keys_file)
    assert [server.call("/slow", key).status for key in ("k1", "k2")] == [409, 409]
    desk.go.set()
    assert [first.reply().status for first in running] == [200, 200]
    assert server.call("/slow", "k1").is_replay
    assert (desk.effects, keys.seen.lost.is_set()) == (2, False)


def test_the_next_copy_runs_after_a_crash(server: Server, desk: Desk, keys_file: str) -> None:
    server.call("/pay", "k1", b"mine")
    with sqlite3.connect(keys_file) as conn:
        conn.execute("UPDATE hookline_idempotency SET response = NULL, token = x'00'")
    conn.close()
    assert server.call("/pay", "k1", b"mine").status == 409
    let_leases_run_out(keys_file)
    assert server.call("/pay", "k1", b"other").status == 422
    assert (server.call("/pay", "k1", b"mine").status, desk.effects) == (200, 2)
    assert server.call("/pay", "k1", b"mine").is_replay


def test_a_lost_lease_is_logged(
    serve: Serve, desk: Desk, keys: Keys, keys_file: str, caplog: pytest.LogCaptureFixture
) -> None:
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
    assert "response not saved: the lease of its idempotency key was lost" in caplog.text


@pytest.mark.parametrize("patience", [1.0])
def test_no_handler_runs_while_the_store_is_unavailable(serve: Serve, desk: Desk, keys_file: str) -> None:
    server = serve()
    server.call("/empty", "k0")
    with locked(keys_file):
        reply = server.call("/pay", "k1")
    assert (reply.status, reply.code, desk.effects) == (503, "store_unavailable", 1)
    assert int(reply.one("retry-after")) > 0


@pytest.mark.parametrize("patience", [1.0])
def test_handlers_can_run_without_the_store_if_configured(serve: Serve, desk: Desk, keys_file: str) -> None:
    server = serve(when_unavailable="pass")
    server.call("/empty", "k0")
    with locked(keys_file):
        assert [server.call("/pay", "k1").status for _ in range(2)] == [200, 200]
    assert desk.effects == 3


def test_an_async_store_is_refused(keys_file: str) -> None:
    with pytest.raises(InvalidInput, match="AsyncSqliteKeys is async"):
        IdempotencyMiddleware(lambda *_: [], AsyncSqliteKeys(keys_file))  # type: ignore[arg-type]
