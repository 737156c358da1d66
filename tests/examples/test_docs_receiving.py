"""The Python examples in the guides about receiving run as printed, and the table of frameworks is correct."""

from __future__ import annotations

import ast
import base64
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
import stripe
from standardwebhooks import Webhook

from hookline.outbox.setup import create_table
from hookline.receive import VerificationError, Verifier, inbox
from hookline.receive import Webhook as WebhookReceived
from hookline.signing import new_secret
from hookline.testing import Answer, AppEndpoint, Request, UrlEndpoint, published
from tests.support.pages import ROOT, blocks, page, section
from tests.support.receiver import Behaviour, Receiver
from tests.support.redis import RedisServer

RECEIVE = "docs/guides/receive-and-verify.md"
INBOX = "docs/guides/deduplicate-with-the-inbox.md"
STORES = blocks("python", page("docs/guides/choose-a-key-store.md"))
SECRET = new_secret()

# Parsing this JSON and writing it again changes the bytes: it has spaces, an escape, a repeated name and a large
# number.
BODY = b'{ "total":19.90,"name" : "caf\\u00e9", "n": 1e2,\t"n":12345678901234567890 }\n'


def signed(body: bytes, event: str = "msg_7", **headers: str) -> Request:
    """Return a request that the library of Standard Webhooks signed."""
    now = datetime.now(UTC)
    made = {
        "content-type": "application/json",
        "webhook-id": event,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(SECRET).sign(event, now, body.decode()),
    }
    return Request(headers=made | headers, body=body)


# For each page, the test file that runs its examples.
RUN_BY = {
    "acknowledge-then-process": "receive/inbox/test_docs.py",
    "back-up-and-restore": "cli/test_docs.py",
    "call-the-api": "cli/test_docs.py",
    "choose-a-key-store": "examples/test_docs_receiving.py",
    "deduplicate-with-the-inbox": "receive/inbox/test_docs.py",
    "keep-order": "examples/test_docs_receiving.py",
    "make-handlers-idempotent": "receive/test_docs_idempotency.py",
    "publish-from-other-languages": "examples/test_docs_outbox.py",
    "publish-in-a-transaction": "examples/test_docs_outbox.py",
    "receive-and-verify": "examples/test_docs_receiving.py",
    "set-up-the-outbox": "outbox/page.py",
    "test-code-that-publishes": "outbox/page.py",
    "use-svix-sdks": "cli/test_docs.py",
}


def test_the_examples_of_every_page_are_run() -> None:
    shown = {
        path for path in (ROOT / "docs").rglob("*.md") if re.search(r"^```(python|sql|sh)$", path.read_text(), re.M)
    }
    assert {path.stem for path in shown} == RUN_BY.keys()
    for name, test in RUN_BY.items():
        assert f"{name}.md" in (ROOT / "tests" / test).read_text(), name


def run(shown: str, **names: Any) -> dict[str, Any]:
    """Run a block of the page as a module, with the names that the page's text mentions."""
    found: dict[str, Any] = {"__name__": "shown", **names}
    exec(shown, found)
    return found


def webhook(body: bytes) -> WebhookReceived:
    request = signed(body)
    return Verifier(SECRET).verify(request.headers, request.body)


# ── the three-line example ────────────────────────────────────────────────────────────────────────────────────────


def test_the_three_line_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WEBHOOK_SECRET", SECRET)
    monkeypatch.chdir(tmp_path)
    (shown,) = blocks("python", section(RECEIVE, "Three lines"))
    endpoint = AppEndpoint(run(shown)["app"], "/hooks", secret=SECRET)
    first, copy = (endpoint.send(signed(b'{"order": 7}')) for _ in range(2))
    assert (first.status, first.body) == (copy.status, copy.body) == (200, b'{"thanks":7}')
    assert endpoint.send(signed(b'{"order": 7}', **{"webhook-signature": "v1,bm8="})).status == 401
    assert capsys.readouterr().out == "paid: 7\n"


def test_the_example_of_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBHOOK_SECRET", SECRET)
    monkeypatch.chdir(tmp_path)
    shown = run(blocks("python", page("README.md"))[1])
    request = signed(b'{"order": 7}')
    with closing(shown["shop"]) as theirs:
        for _ in range(3):
            shown["receive"](request.headers, request.body)
        assert theirs.execute("SELECT order_id FROM payments").fetchall() == [(7,)]


# ── stores ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def engine() -> str:
    return "postgres"


@pytest.fixture
def redis_socket() -> Iterator[Path]:
    server = RedisServer()
    server.start()
    yield server.socket
    server.close()


PROBE = """
import asyncio, asyncpg, inspect

async def settled(value):
    return await value if inspect.isawaitable(value) else value

async def main():
{prepared}
    if hasattr(keys, "create_table"):
        await settled(keys.create_table())
    for token in (b"one", b"two"):
        print(type(await settled(keys.begin(b"the key", b"the request", token=token, lease=30.0))).__name__)

asyncio.run(main())
"""


def choices(shown: str) -> list[str]:
    """Split a block that shows several ways to create `keys` into one script for each way, with its imports."""
    body = ast.parse(shown).body
    imports = [ast.unparse(one) for one in body if isinstance(one, ast.Import | ast.ImportFrom)]
    return ["\n".join([*imports, ast.unparse(one)]) for one in body if isinstance(one, ast.Assign)]


def holds_a_key(choice: str, *before: str) -> bool:
    """Use the store in a separate process. Return whether the first request is fresh and the second one is in progress."""
    script = PROBE.format(prepared=textwrap.indent("\n".join([*before, choice]), "    "))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout == "Fresh\nInProgress\n"


def test_sqlite_as_shown(tmp_path: Path) -> None:
    (choice,) = choices(STORES[0])
    assert holds_a_key(choice.replace("/var/lib/shop", str(tmp_path)))


@pytest.mark.parametrize("number", [0, 1, 2])
def test_postgres_as_shown(database_url: str, number: int) -> None:
    shown = choices(STORES[1])
    assert len(shown) == 3
    url = f"DATABASE_URL = {database_url!r}"
    assert holds_a_key(shown[number], url, "pool = await asyncpg.create_pool(DATABASE_URL)")


SHOP = """

@app.post("/hooks")
async def hooks(order: dict[str, int]):
    print("paid:", order["order"], flush=True)
    return {"thanks": order["order"]}
"""


def starts(port: int) -> None:
    """Wait until the server answers. It accepts connections while it still imports, and the imports may take longer
    than the timeout of an endpoint."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=240)) as connection:
        connection.request("GET", "/")
        connection.getresponse().read()


def test_a_function_that_makes_the_pool_as_shown(tmp_path: Path, database_url: str) -> None:
    """uvicorn imports the module and runs it."""
    (tmp_path / "shop.py").write_text(STORES[2] + SHOP)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        command = [sys.executable, "-m", "uvicorn", "shop:app", "--fd", str(listening.fileno()), "--no-access-log"]
        environment = os.environ | {"DATABASE_URL": database_url}
        with subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, pass_fds=[listening.fileno()], text=True
        ) as server:
            try:
                starts(port)
                endpoint = UrlEndpoint(f"http://127.0.0.1:{port}/hooks", secret=SECRET)
                answers = [endpoint.send(signed(b'{"order": 7}')) for _ in range(3)]
            finally:
                server.terminate()
                said, _ = server.communicate(timeout=120)
    assert [(answer.status, answer.body) for answer in answers] == [(200, b'{"thanks":7}')] * 3
    assert said == "paid: 7\n"
    assert server.returncode in (0, -signal.SIGTERM)  # uvicorn ended normally, so the pool is closed.


@pytest.mark.parametrize("number", [0, 1])
def test_redis_as_shown(redis_socket: Path, number: int) -> None:
    shown = choices(STORES[3])
    assert len(shown) == 2
    ours = f"Redis(unix_socket_path={str(redis_socket)!r}, socket_timeout=60)"  # A busy machine needs a longer timeout.
    assert ours in (choice := shown[number].replace("Redis(socket_timeout=2)", ours))
    assert holds_a_key(choice)


# ── examples about idempotent effects ─────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def shop() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as conn:
        conn.execute(
            "CREATE TABLE orders (id integer PRIMARY KEY, paid integer DEFAULT 0, status text, version integer)"
        )
        conn.execute("INSERT INTO orders VALUES (7, 0, 'open', 1)")
        inbox.create_table(conn)
        create_table(conn)
        conn.commit()
        yield conn


def test_the_newest_version_wins(shop: sqlite3.Connection) -> None:
    (shown,) = blocks("sql", page("docs/guides/keep-order.md"))
    for status, version in (("shipped", 4), ("packed", 3), ("shipped again", 4)):
        shop.execute(shown, {"order": 7, "status": status, "version": version})
    assert shop.execute("SELECT status, version FROM orders").fetchall() == [("shipped", 4)]


def test_the_webhook_id_is_passed_on_as_idempotency_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stripe's own library sends the requests to a local server."""
    refund = run(blocks("python", section(INBOX, "Effects outside the database"))[0])["refund"]
    with Receiver() as bank:
        bank.behave(Behaviour(body=b'{"id": "re_1", "object": "refund"}'))
        monkeypatch.setattr(stripe, "api_key", "sk_test_none")
        monkeypatch.setattr(stripe, "api_base", bank.url)
        for _ in range(2):
            refund(webhook(b'{"payment_intent": "pi_9"}'))
    assert [(one.path, one.body) for one in bank.requests] == [("/v1/refunds", b"payment_intent=pi_9")] * 2
    assert [one.headers["idempotency-key"] for one in bank.requests] == ["refund-msg_7"] * 2


def test_the_following_event_is_published_once(shop: sqlite3.Connection) -> None:
    paid = run(blocks("python", section(INBOX, "Effects outside the database"))[1])["paid"]
    for _ in range(3):
        paid(shop, webhook(b'{"order": 7}'))
    shop.rollback()  # Discard everything that was not committed.
    assert shop.execute("SELECT paid FROM orders").fetchall() == [(1,)]
    (event,) = published(shop, "order.ready", app="warehouse")
    assert event.payload == {"order": 7}


# ── the raw body in each framework ────────────────────────────────────────────────────────────────────────────────

# takes a handler of the framework's request and returns the application
Framework = Callable[[Callable[..., Any]], Any]


def _cell(framework: str) -> str:
    """Return the expression for the raw body from the table of frameworks in the guide."""
    rows = re.findall(r"^\| ([^|]+) \| (.+?) \| .*\|$", section(RECEIVE, "Use the raw body"), re.MULTILINE)
    (cell,) = [cell for names, cell in rows if framework in names.split(", ")]
    return " ".join(re.sub(r"`([^`]+)` if `([^`]+)`, else `([^`]+)`", r"\1 if \2 else \3", cell).strip("`").split())


def _handler(framework: str, given: str = "request") -> Any:
    """Return a handler for requests of this framework. It reads the raw body with the expression from the guide's table
    of frameworks, and verifies the signature of these bytes. `given` is the name of its argument in the expression."""
    expression = _cell(framework)
    source = f"{'async ' if 'await' in expression else ''}def handler({given}): return verify({given}, {expression})"
    names: dict[str, Any] = {"verify": _verify, "base64": base64}
    exec(source, names)
    return names["handler"]


def _verify(request: Any, body: bytes) -> str:
    try:
        assert Verifier(SECRET).verify(request.headers, body).id == "msg_7"
    except VerificationError as error:
        return error.code
    return "verified" if body == BODY else "other bytes"


def _starlette() -> Any:
    from starlette.applications import Starlette
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    handler = _handler("Starlette")

    async def hooks(request: Any) -> Any:
        return PlainTextResponse(await handler(request))

    return Starlette(routes=[Route("/hooks", hooks, methods=["POST"])])


def _fastapi() -> Any:
    """The route also has a parsed body as a parameter, which FastAPI reads first."""
    from fastapi import Body, FastAPI
    from fastapi import Request as TheirRequest
    from fastapi.responses import PlainTextResponse

    handler, app = _handler("FastAPI"), FastAPI()

    async def hooks(request: TheirRequest, event: dict[str, Any] = Body()) -> Any:  # noqa: B008
        assert event["name"] == "café"
        return PlainTextResponse(await handler(request))

    # The request type is a local name of this function, so FastAPI cannot look it up.
    hooks.__annotations__["request"] = TheirRequest
    app.post("/hooks")(hooks)
    return app


def _litestar() -> Any:
    from litestar import Litestar, MediaType, post
    from litestar import Request as TheirRequest

    handler = _handler("Litestar")

    async def hooks(request: Any) -> str:
        return str(await handler(request))

    hooks.__annotations__["request"] = TheirRequest
    return Litestar([post("/hooks", media_type=MediaType.TEXT, status_code=200)(hooks)])


def _flask() -> Any:
    from flask import Flask, request

    app = Flask(__name__)
    handler = _handler("Flask")
    app.post("/hooks")(lambda: handler(request))
    return app


@pytest.mark.parametrize("app", [_starlette, _fastapi, _litestar, _flask], ids=lambda make: make.__name__.strip("_"))
def test_the_raw_body_in_each_framework(app: Callable[[], Any]) -> None:
    answer: Answer = AppEndpoint(app(), "/hooks", secret=SECRET).send(signed(BODY))
    assert (answer.status, answer.body) == (200, b"verified")


def test_the_raw_body_in_django() -> None:
    from django.conf import settings
    from django.http import HttpRequest
    from django.test import RequestFactory

    if not settings.configured:
        settings.configure(USE_TZ=True)
    sent = signed(BODY)
    request: HttpRequest = RequestFactory().post("/hooks", BODY, "application/json", headers=sent.headers)
    assert _handler("Django")(request) == "verified"


@pytest.mark.parametrize("encoded", [True, False])
def test_the_raw_body_in_a_lambda(encoded: bool) -> None:
    body = base64.b64encode(BODY).decode() if encoded else BODY.decode()
    event = {"headers": signed(BODY).headers, "isBase64Encoded": encoded, "body": body}
    names: dict[str, Any] = {"base64": base64, "event": event}
    assert Verifier(SECRET).verify(event["headers"], eval(_cell("AWS Lambda"), names)).body == BODY


def test_a_body_that_was_parsed_and_written_again_fails_verification() -> None:
    import json

    with pytest.raises(VerificationError, match="no signature matches"):
        Verifier(SECRET).verify(signed(BODY).headers, json.dumps(json.loads(BODY)).encode())
