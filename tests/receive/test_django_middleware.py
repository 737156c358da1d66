"""The middleware in Django, synchronous under WSGI and asynchronous under ASGI, over real sockets."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import django
import pytest
from django.conf import settings as django_settings
from django.core.asgi import get_asgi_application
from django.core.exceptions import ImproperlyConfigured
from django.core.wsgi import get_wsgi_application

from hookline.receive import Verifier
from hookline.receive.idempotency import IdempotencySettings
from hookline.receive.idempotency.django import IdempotencyMiddleware, admit
from tests.receive import senders
from tests.receive.desk import BINARY, LARGE, Desk
from tests.receive.web import (
    PATIENCE,
    AsyncKeys,
    Keys,
    Server,
    asgi_server,
    held_keys,
    let_leases_run_out,
    locked,
    outlive_leases,
    read_replies,
    wsgi_server,
)

if not django_settings.configured:
    django_settings.configure(USE_TZ=True)
django.setup()

from django.test import RequestFactory, override_settings  # noqa: E402

from tests.receive import django_app  # noqa: E402

Serve = Callable[..., Server]

MIDDLEWARE = ["django.middleware.common.CommonMiddleware", "hookline.receive.idempotency.django.IdempotencyMiddleware"]
PROJECT: dict[str, Any] = {
    "ROOT_URLCONF": "tests.receive.django_app",
    "ALLOWED_HOSTS": ["*"],
    "DEBUG": False,
    "LOGGING_CONFIG": None,
}


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    made = Desk()
    monkeypatch.setattr(django_app, "desk", made)
    return made


@pytest.fixture(params=["wsgi", "asgi"])
def gateway(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture
def patience() -> float:
    """Return the seconds that the store waits for a locked file."""
    return PATIENCE


@pytest.fixture
def keys(gateway: str, keys_file: str, patience: float) -> Keys | AsyncKeys:
    return Keys(keys_file, patience) if gateway == "wsgi" else AsyncKeys(keys_file, patience)


@pytest.fixture
def serve(gateway: str, desk: Desk, keys: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    monkeypatch.setattr(django_app, "keys", keys)
    monkeypatch.setattr(django_app, "async_keys", keys)
    with ExitStack() as stack:

        def start(*, middleware: list[str] = MIDDLEWARE, project: dict[str, Any] | None = None, **given: Any) -> Server:
            given |= {"STORE": "tests.receive.django_app.keys", "ASYNC_STORE": "tests.receive.django_app.async_keys"}
            stack.enter_context(
                override_settings(**PROJECT | (project or {}), MIDDLEWARE=middleware, HOOKLINE_IDEMPOTENCY=given)
            )
            if gateway == "wsgi":
                return stack.enter_context(wsgi_server(get_wsgi_application()))
            return stack.enter_context(asgi_server(get_asgi_application(), lifespan="off"))

        yield start
        desk.go.set()


@pytest.fixture
def server(serve: Serve) -> Server:
    return serve()


@pytest.fixture(autouse=True)
def _logs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "hookline.receive")
    caplog.set_level(logging.CRITICAL, "django")


def test_a_copy_gets_the_first_answer_byte_by_byte(server: Server, desk: Desk) -> None:
    first, copy = server.call("/pay", "k1", b'{"a": 1}'), server.call("/pay", '"k1"', b'{"a": 1}')
    assert (first.status, first.body, first.is_replay) == (200, b'{"n": 1}', False)
    assert (copy.status, copy.body, copy.is_replay) == (200, b'{"n": 1}', True)
    assert copy.all("x-plain") == ["1"]
    assert copy.one("content-type") == first.one("content-type")
    assert copy.one("content-length") == "8"
    assert (len(first.all("set-cookie")), copy.all("set-cookie")) == (2, [])
    assert desk.bodies == [b'{"a": 1}']


def test_cookies_are_stored_if_configured(serve: Serve) -> None:
    server = serve(FORGETS=[])
    first, copy = server.call("/pay", "k1"), server.call("/pay", "k1")
    assert copy.is_replay
    assert sorted(copy.all("set-cookie")) == sorted(first.all("set-cookie"))


def test_binary_bodies(server: Server, desk: Desk) -> None:
    replies = [server.call("/binary", "k1", BINARY) for _ in range(2)]
    assert [(reply.status, reply.body, reply.is_replay) for reply in replies] == [
        (201, BINARY, False),
        (201, BINARY, True),
    ]
    assert desk.bodies == [BINARY]


@pytest.mark.parametrize("path", ["/slow", "/async_slow"])
def test_a_copy_of_a_running_request_gets_409_and_retry_after(server: Server, desk: Desk, path: str) -> None:
    first = server.later(path, "k1")
    assert desk.has_entered()
    for _ in range(2):
        busy = server.call(path, "k1")
        assert (busy.status, busy.code) == (409, "in_progress")
        assert 1 <= int(busy.one("retry-after")) <= 30
    other = server.call(path, "k1", b'{"other": 1}')
    assert (other.status, other.code) == (422, "key_reused")
    desk.go.set()
    assert first.reply().status == 200
    copy = server.call(path, "k1")
    assert (copy.status, copy.body, copy.is_replay) == (200, first.reply().body, True)
    assert desk.effects == 1


def test_a_handler_that_raises_frees_the_key(server: Server, desk: Desk, keys_file: str) -> None:
    assert [server.call("/fails", "k1").status for _ in range(2)] == [500, 500]
    assert desk.effects == 2
    assert held_keys(keys_file) == (0, 0)


def test_a_server_error_is_not_kept(server: Server, desk: Desk) -> None:
    desk.statuses = [503, 410]
    replies = [server.call("/pay", "k1") for _ in range(3)]
    assert [(reply.status, reply.is_replay) for reply in replies] == [(503, False), (410, False), (410, True)]


def test_a_request_without_a_view_claims_no_key(server: Server, keys_file: str) -> None:
    assert [server.call("/nowhere", "k1").is_replay for _ in range(2)] == [False, False]


def test_a_request_without_a_key_is_passed_on(serve: Serve, desk: Desk) -> None:
    server = serve()
    assert [server.call("/pay").is_replay for _ in range(2)] == [False, False]
    for method in ("GET", "HEAD"):
        assert [server.call("/pay", "k1", b"", method=method).is_replay for _ in range(2)] == [False, False]
    assert desk.effects == 6


def test_missing_and_malformed_keys_are_refused(serve: Serve, desk: Desk) -> None:
    server = serve(REQUIRED=True)
    assert server.call("/pay").code == "key_missing"
    for key in ("a b", "k" * 256, "a\x80", '"a', "a,b", ""):
        assert server.call("/pay", key).code == "key_malformed"
    twice = server.send("POST", "/pay", [("Idempotency-Key", "a"), ("Idempotency-Key", "b")], b"{}")
    assert (twice.status, twice.code, desk.effects) == (400, "key_malformed", 0)


def test_tenants_do_not_share_keys(serve: Serve, desk: Desk) -> None:
    server = serve(SCOPE="tests.receive.django_app.own_scope")
    for tenant in ("acme", "globex", "acme"):
        server.call("/pay", "k1", headers=[("X-Tenant", tenant)])
    assert desk.effects == 2


def test_the_handler_gets_the_verified_webhook(serve: Serve, desk: Desk) -> None:
    server = serve(VERIFIER=Verifier(senders.WHSEC))
    sent = senders.standard(senders.WHSEC, b'{"order": 7}', str(int(time.time())))
    first, copy = (server.send("POST", "/pay", sent.headers.items(), sent.body) for _ in range(2))
    assert (first.status, copy.is_replay) == (200, True)
    (webhook,) = desk.webhooks
    assert (webhook.id, webhook.json()) == ("msg_2y7Xqm", {"order": 7})
    forged = server.send("POST", "/pay", sent.headers.items(), b'{"order": 8}')
    assert (forged.status, forged.code, desk.effects) == (401, "signature_invalid", 1)
    for method in ("GET", "REPORT"):  # The method is not signed, and a view of Django accepts any method.
        assert server.send(method, "/pay", sent.headers.items(), sent.body).code == "key_reused"
    assert desk.effects == 1


def test_no_stored_answer_bypasses_the_csrf_check(serve: Serve, desk: Desk) -> None:
    csrf = ["django.middleware.csrf.CsrfViewMiddleware", "tests.receive.django_app.FormMiddleware"]
    server = serve(middleware=csrf)
    token = "a" * 32
    allowed = [("Cookie", f"csrftoken={token}"), ("X-CSRFToken", token)]
    encoded = ("Content-Type", "application/x-www-form-urlencoded")

    def order(*headers: tuple[str, str]) -> Any:
        return server.send("POST", "/form", [("Idempotency-Key", "k1"), encoded, *headers], b"order=7")

    assert order().status == 403
    assert [order(*allowed).body for _ in range(2)] == [b"1 7", b"1 7"]
    assert order(*allowed).is_replay
    assert order().status == 403
    assert (desk.effects, desk.bodies) == (1, [b"order=7"])


# ── streams ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("gateway", ["wsgi"], indirect=True)
def test_a_streamed_answer_is_kept_under_wsgi(serve: Serve, desk: Desk) -> None:
    server = serve(MAX_RESPONSE=len(LARGE))
    for path, size in (("/stream?size=4500", 4500), ("/file", len(LARGE))):
        first, copy = (server.call(path, "k1") for _ in range(2))
        assert first.body == copy.body == LARGE[:size]
        assert (first.is_replay, copy.is_replay) == (False, True)
        assert copy.one("content-length") == str(size)
    assert desk.effects == 2


@pytest.mark.parametrize("gateway", ["wsgi"], indirect=True)
def test_a_client_that_disconnects_during_a_stream(server: Server, desk: Desk, keys: Keys) -> None:
    with server.connect() as connection:
        connection.sendall(_raw("/stream?size=16000", b""))
        assert desk.has_entered()
    assert keys.seen.finished.acquire(timeout=PATIENCE)
    assert desk.closed.wait(PATIENCE)
    assert server.call("/stream?size=16000", "k1", b"").body == LARGE[:16000]


# Django warns when a server reads the other kind of stream.
@pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume")
@pytest.mark.parametrize(("gateway", "path"), [("asgi", "/async_stream"), ("asgi", "/stream")], indirect=["gateway"])
def test_a_streamed_answer_is_stored_without_its_body_under_asgi(server: Server, desk: Desk, path: str) -> None:
    first, copy = (server.call(f"{path}?size=4500", "k1") for _ in range(2))
    assert (first.body, copy.body, copy.is_replay) == (LARGE[:4500], b"", True)
    assert copy.one("idempotency-body-omitted") == "true"
    assert desk.effects == 1


def test_an_answer_over_the_size_limit(serve: Serve, desk: Desk) -> None:
    server = serve(MAX_RESPONSE=100)
    first, copy = (server.call("/binary", "k1") for _ in range(2))
    assert (first.body, copy.status, copy.body, copy.is_replay) == (BINARY, 201, b"", True)
    assert desk.effects == 1


# ── bodies and clients ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", ["/slow", "/async_slow"])
def test_a_client_that_disconnects_gets_the_stored_answer_when_it_retries(
    server: Server, desk: Desk, keys: Any, path: str
) -> None:
    with server.connect() as connection:
        connection.sendall(_raw(path, b"{}"))
        assert desk.has_entered()
    desk.go.set()
    assert keys.seen.finished.acquire(timeout=PATIENCE)
    assert server.call(path, "k1").is_replay
    assert desk.effects == 1


def test_a_body_that_is_too_long(serve: Serve, desk: Desk) -> None:
    server = serve(MAX_BODY=1000)
    assert server.call("/pay", "k1", b"x" * 1000).status == 200
    reply = server.call("/pay", "k2", b"x" * 1001)
    assert (reply.status, reply.code) == (413, "body_too_large")
    assert server.call("/pay", body=b"x" * 100_000).status == 200
    assert desk.effects == 2


def test_a_body_that_is_too_long_for_django(serve: Serve, desk: Desk) -> None:
    server = serve(project={"DATA_UPLOAD_MAX_MEMORY_SIZE": 1000})
    reply = server.call("/pay", "k2", b"x" * 1001)
    assert (reply.status, reply.code, desk.effects) == (413, "body_too_large", 0)


@pytest.mark.parametrize("gateway", ["asgi"], indirect=True)
def test_a_chunked_body(serve: Serve, desk: Desk) -> None:
    """Django itself treats a chunked body under WSGI as an empty one."""
    server = serve(MAX_BODY=1000)
    bodies: list[Any] = [iter([b"a", b"bc"]), b"abc", iter([b"abc"])]
    replies = [server.send("POST", "/pay", [("Idempotency-Key", "k1")], body) for body in bodies]
    assert [reply.is_replay for reply in replies] == [False, True, True]
    reply = server.send("POST", "/pay", [("Idempotency-Key", "k2")], iter([b"x" * 600] * 2))
    assert (reply.status, reply.code) == (413, "body_too_large")
    assert desk.bodies == [b"abc"]


@pytest.mark.parametrize("gateway", ["wsgi"], indirect=True)
def test_an_incomplete_body_runs_no_handler(server: Server, desk: Desk) -> None:
    import socket

    with server.connect() as connection:
        connection.sendall(_raw("/pay", b"12345", length=10))
        connection.shutdown(socket.SHUT_WR)
        (refused,) = read_replies(connection, 1)
    assert (refused.status, refused.code, desk.effects) == (400, "body_incomplete", 0)


def test_a_content_length_in_other_digits_is_ignored() -> None:
    """Some servers pass this header on unchanged. Python's `isdigit` accepts a superscript two, but `int` does not."""
    request = RequestFactory().post(
        "/pay", b"12", content_type="text/plain", CONTENT_LENGTH="\xb2", HTTP_WEBHOOK_ID="k"
    )
    assert admit(IdempotencySettings(), request) is not None


def _raw(path: str, body: bytes, *, key: str = "k1", length: int | None = None) -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: test\r\nIdempotency-Key: {key}\r\nContent-Length: {length or len(body)}\r\n\r\n"
    )
    return head.encode() + body


# ── leases and the store ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_handler_that_outlives_its_lease_keeps_the_key(serve: Serve, desk: Desk, keys: Any, keys_file: str) -> None:
    server = serve(LEASE=4)
    first = server.later("/slow", "k1")
    assert desk.has_entered()
    outlive_leases(keys, keys_file)
    assert server.call("/slow", "k1").status == 409
    desk.go.set()
    assert first.reply().status == 200
    assert (desk.effects, keys.seen.lost.is_set()) == (1, False)


def test_the_next_copy_runs_after_a_crash(server: Server, desk: Desk, keys_file: str) -> None:
    server.call("/pay", "k1", b"mine")
    with sqlite3.connect(keys_file) as conn:
        conn.execute("UPDATE hookline_idempotency SET response = NULL, token = x'00'")
    conn.close()
    assert server.call("/pay", "k1", b"mine").status == 409
    let_leases_run_out(keys_file)
    assert (server.call("/pay", "k1", b"mine").status, desk.effects) == (200, 2)
    assert server.call("/pay", "k1", b"mine").is_replay


@pytest.mark.parametrize("patience", [1.0])
def test_no_handler_runs_while_the_store_is_unavailable(serve: Serve, desk: Desk, keys_file: str) -> None:
    server = serve()
    server.call("/pay", "k0")
    with locked(keys_file):
        reply = server.call("/pay", "k1")
    assert (reply.status, reply.code, desk.effects) == (503, "store_unavailable", 1)


# ── settings ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "HOOKLINE_IDEMPOTENCY"),
        ({}, "STORE"),
        ({"STORE": "tests.receive.django_app.desk", "LEASE": 0}, "lease"),
        ({"STORE": "tests.receive.django_app.desk", "LEES": 1}, "lees"),
    ],
)
def test_wrong_settings_are_refused(given: Any, message: str) -> None:
    with override_settings(HOOKLINE_IDEMPOTENCY=given), pytest.raises(ImproperlyConfigured, match=message):
        IdempotencyMiddleware(lambda _: None)
