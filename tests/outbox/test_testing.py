"""The helpers for users' own tests: they read published events, and deliver them as Hookline would."""

from __future__ import annotations

import asyncio
import base64
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import standardwebhooks
from fastapi import FastAPI, HTTPException
from fastapi import Request as FastApiRequest
from flask import Flask, request
from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from hookline import outbox, signing
from hookline.errors import InvalidInput
from hookline.model.endpoints import Secret
from hookline.model.verdicts import Dead, Delivered, Retry
from hookline.outbox.setup import create_table
from hookline.testing import (
    AppEndpoint,
    FakeEndpoint,
    Outbox,
    Published,
    UrlEndpoint,
    clear,
    deliver,
    deliver_async,
    matching,
    published,
    published_async,
)
from hookline.testing.delivery import message_id, signed
from tests.outbox.conftest import Shop
from tests.outbox.desks import Desk
from tests.outbox.page import python_under
from tests.support.scene import Scene
from tests.support.working import working

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
# Django has connections in this process but no installed apps, so it warns about database access.
pytestmark = pytest.mark.filterwarnings("ignore:Accessing the database during app initialization")


async def _published(desk: Desk, *given: Any, **fields: Any) -> list[Published]:
    if desk.is_async:
        return await published_async(desk.conn, *given, **fields)
    return published(desk.conn, *given, **fields)


# ── published events ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_published_events_are_visible_before_the_commit(desk: Desk, shop: Shop) -> None:
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
    await desk.begin()
    await desk.publish(
        "acme",
        "order.paid",
        {"order": 7, "note": "größer\n"},
        event_id="order-7",
        channels=["eu", "vip"],
        tags=["a b"],
        ordering_key="customer-3",
        deliver_at=at,
        max_age=90.5,
        organization="org_1",
        trace=PARENT,
    )
    await desk.publish("globex", "user.left", [1, None])
    first, second = await _published(desk)
    await desk.rollback()
    assert first.payload == {"order": 7, "note": "größer\n"}
    assert first.body == b'{"order":7,"note":"gr\xc3\xb6\xc3\x9fer\\n"}'
    assert (first.app, first.event_type, first.event_id) == ("acme", "order.paid", "order-7")
    assert (first.channels, first.tags, first.ordering_key) == (("eu", "vip"), ("a b",), "customer-3")
    assert (first.deliver_at, first.max_age, first.organization, first.trace) == (at, 90.5, "org_1", PARENT)
    assert abs(first.created_at - datetime.now(UTC)) < timedelta(hours=1)
    assert second.payload == [1, None]
    assert second.event_id.startswith("evt_")
    assert (second.channels, second.deliver_at, second.max_age, second.trace) == (None, None, None, None)
    assert shop.outbox() == []


async def test_a_rolled_back_savepoint_removes_its_events(desk: Desk) -> None:
    async def inner() -> None:
        await desk.publish("acme", "order.failed", {})

    await desk.begin()
    await desk.publish("acme", "order.made", {})
    await desk.nested(inner, undo=True)
    await desk.publish("acme", "order.paid", {})
    assert [one.event_type for one in await _published(desk)] == ["order.made", "order.paid"]
    await desk.rollback()
    assert await _published(desk) == []


async def test_reading_published_events_leaves_no_open_transaction(desk: Desk, shop: Shop) -> None:
    """An open transaction would include the next statements of the test, and `with conn.transaction()` would become a
    savepoint."""
    assert await _published(desk) == []
    assert not _in_transaction(desk.conn)
    await desk.begin()
    await desk.publish("acme", "order.paid", {})
    await desk.commit()
    assert len(await _published(desk)) == 1
    assert not _in_transaction(desk.conn)
    await desk.begin()
    await desk.publish("acme", "order.paid", {})
    await desk.commit()
    assert len(shop.outbox()) == 2


def _in_transaction(conn: Any) -> bool:
    """Return whether the connection has an open transaction. Each library reports it in its own way."""
    if hasattr(conn, "in_atomic_block"):
        return bool(conn.in_atomic_block)
    if hasattr(conn, "is_in_transaction"):
        return bool(conn.is_in_transaction())
    status = getattr(getattr(conn, "info", None), "transaction_status", None)
    if status is not None:
        return status != 0
    if isinstance(conn, sqlite3.Connection):
        return conn.in_transaction
    return bool((conn() if callable(conn) else conn).in_transaction())


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)


def test_reading_published_events_does_not_expire_the_objects_of_an_idle_session(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/shop.db")
    Base.metadata.create_all(engine)
    with Session(engine, expire_on_commit=False) as session:
        create_table(session)
        session.add(order := Order(id=7))
        session.commit()
        assert published(session) == []
        assert not session.in_transaction()
        assert "id" in order.__dict__
    engine.dispose()


def test_reading_begins_no_transaction_on_a_session_that_joins_the_tests_own(tmp_path: Path) -> None:
    """The test follows SQLAlchemy's recipe for test suites: the application begins and commits, and the connection
    rolls back everything at the end."""
    engine = create_engine(f"sqlite:///{tmp_path}/shop.db")
    with engine.begin() as connection:
        create_table(connection)
    with engine.connect() as connection:
        outer = connection.begin()
        with Session(connection) as session:
            for count in (1, 2):
                with session.begin():
                    outbox.publish(session, "acme", "order.paid", {})
                assert len(published(session)) == count
                assert not session.in_transaction()
        outer.rollback()
        assert published(connection) == []
    engine.dispose()


@pytest.fixture
def shop_file(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    conn = sqlite3.connect(tmp_path / "shop.db")
    create_table(conn)
    yield conn
    conn.close()


def _publish_some(conn: sqlite3.Connection) -> None:
    outbox.publish(conn, "acme", "order.paid", {"order": 7, "lines": [{"sku": "a", "n": 1}]})
    outbox.publish(conn, "acme", "order.paid", {"order": 8, "lines": []})
    outbox.publish(conn, "globex", "order.sent", {"order": 9})


def test_events_are_filtered_by_type_application_and_parts_of_the_payload(shop_file: sqlite3.Connection) -> None:
    _publish_some(shop_file)

    def orders(*given: Any, **fields: Any) -> list[int]:
        return [one.payload["order"] for one in published(shop_file, *given, **fields)]

    assert orders("order.paid") == [7, 8]
    assert orders(app="globex") == [9]
    assert orders("order.paid", app="globex") == []
    assert orders(payload={"order": 8}) == [8]
    assert orders(payload={"lines": [{"sku": "a"}]}) == [7]
    assert orders(payload={"lines": [{"sku": "a"}, {"sku": "b"}]}) == []
    assert orders(payload={"missing": None}) == []
    assert orders(after=2) == [9]
    assert [one.payload["order"] for one in matching(published(shop_file), payload={"order": 9})] == [9]


def test_a_missing_outbox_gives_an_error_with_a_hint(tmp_path: Path) -> None:
    conn = sqlite3.connect(tmp_path / "shop.db")
    with pytest.raises(sqlite3.OperationalError) as failed:
        published(conn)
    conn.close()
    assert "create_table" in failed.value.__notes__[0]


def test_true_in_a_filter_does_not_match_1(shop_file: sqlite3.Connection) -> None:
    outbox.publish(shop_file, "acme", "order.paid", {"paid": 1})
    assert published(shop_file, payload={"paid": True}) == []


def test_a_row_factory_and_a_text_factory_do_not_matter(shop_file: sqlite3.Connection) -> None:
    shop_file.row_factory = lambda _cursor, row: {"row": row}
    _publish_some(shop_file)
    assert [one.event_type for one in published(shop_file)] == ["order.paid", "order.paid", "order.sent"]


@pytest.mark.parametrize("payload", ["not json", "[" * 100_000, b"\xff"])
def test_an_invalid_row_gives_a_clear_error(shop_file: sqlite3.Connection, payload: object) -> None:
    shop_file.execute(
        "INSERT INTO hookline_outbox (app, event_type, payload) VALUES ('acme', 'order.paid', ?)", [payload]
    )
    with pytest.raises(InvalidInput, match="not written by publish"):
        published(shop_file)


def test_the_outbox_can_be_emptied(shop_file: sqlite3.Connection) -> None:
    _publish_some(shop_file)
    clear(shop_file)
    assert published(shop_file) == []


def test_an_assertion_returns_the_event_or_lists_the_published_events(shop_file: sqlite3.Connection) -> None:
    _publish_some(shop_file)
    box = Outbox(shop_file)
    assert box.assert_published("order.paid", app="acme", payload={"order": 8}).payload["order"] == 8
    box.assert_published("order.paid", count=2)
    box.assert_not_published("order.refunded")
    with pytest.raises(AssertionError, match=r"(?s)no order.refunded for acme; published were:.*order.sent for globex"):
        box.assert_published("order.refunded", app="acme")
    with pytest.raises(AssertionError, match=r"2 instead of 1 of order\.paid"):
        box.assert_published("order.paid", count=1)
    with pytest.raises(AssertionError, match=r"1 of order\.sent"):
        box.assert_not_published("order.sent")
    with pytest.raises(AssertionError, match="3 events; published"):
        box.assert_not_published()
    with pytest.raises(InvalidInput, match="assert_not_published"):
        box.assert_published("order.refunded", count=0)
    clear(shop_file)
    with pytest.raises(AssertionError, match="nothing was published"):
        box.assert_published("order.paid")


# ── the fake endpoint ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def endpoint() -> Iterator[FakeEndpoint]:
    with FakeEndpoint() as made:
        yield made


def test_an_event_is_delivered_signed_to_a_fake_endpoint(shop_file: sqlite3.Connection, endpoint: FakeEndpoint) -> None:
    outbox.publish(shop_file, "acme", "order.paid", {"order": 7}, trace=f"{PARENT} a=b")
    [attempt] = deliver(published(shop_file), endpoint)
    [received] = endpoint.requests
    assert attempt.delivered
    assert isinstance(attempt.verdict, Delivered)
    assert (received.method, received.path, received.json(), received.verified) == ("POST", "/", {"order": 7}, True)
    assert (received.event_type, received.attempt) == ("order.paid", 1)
    assert received.webhook_id.startswith("msg_")
    assert (received.headers["traceparent"], received.headers["tracestate"]) == (PARENT, "a=b")
    checked = standardwebhooks.Webhook(endpoint.secret).verify(received.body, received.headers)
    assert checked == {"order": 7}


def test_the_id_of_an_event_is_stable_and_unique(shop_file: sqlite3.Connection) -> None:
    outbox.publish(shop_file, "acme", "order.paid", {}, event_id="one")
    outbox.publish(shop_file, "globex", "order.paid", {}, event_id="one")
    first, second = published(shop_file)
    assert message_id(first) == message_id(published(shop_file)[0])
    assert message_id(first) != message_id(second)


@pytest.mark.parametrize("engine", ["sqlite"])
async def test_the_request_equals_that_of_a_real_delivery(scene: Scene, shop_file: sqlite3.Connection) -> None:
    """Hookline's own worker and the helper send the same headers, except for ids and times."""
    outbox.publish(shop_file, "acme", "order.paid", {"order": 7}, trace=PARENT)
    [event] = published(shop_file)
    with FakeEndpoint() as endpoint:
        await scene.endpoint(url=endpoint.url, secrets=(Secret(key=endpoint.secret),))
        await scene.send(payload=event.body, event_type="order.paid", trace=PARENT)
        async with working(scene.store):
            await asyncio.to_thread(endpoint.wait, 1, timeout=60.0)
        deliver([event], endpoint)
        theirs, ours = endpoint.requests
    assert theirs.verified
    assert ours.headers.keys() == theirs.headers.keys()
    own = {"webhook-id", "webhook-timestamp", "webhook-signature", "webhook-created-at"}
    assert {n: v for n, v in ours.headers.items() if n not in own} == {
        n: v for n, v in theirs.headers.items() if n not in own
    }


def test_a_request_that_is_not_signed_is_refused(endpoint: FakeEndpoint, shop_file: sqlite3.Connection) -> None:
    outbox.publish(shop_file, "acme", "order.paid", {})
    stranger = UrlEndpoint(endpoint.url, secret=signing.new_secret())
    [attempt] = deliver(published(shop_file), stranger)
    assert attempt.answer.status == 401
    assert isinstance(attempt.verdict, Dead)
    assert (endpoint.requests[0].verified, endpoint.requests[0].fault) == (False, "no signature matches")


def test_the_next_answers_can_be_set(endpoint: FakeEndpoint, shop_file: sqlite3.Connection) -> None:
    _publish_some(shop_file)
    endpoint.answer_next(503, body=b"busy", headers={"Retry-After": "7"})
    attempts = deliver(published(shop_file), endpoint)
    assert [one.answer.status for one in attempts] == [503, 204, 204]
    assert attempts[0].answer.body == b"busy"
    assert isinstance(attempts[0].verdict, Retry)
    assert [one.status for one in endpoint.requests] == [503, 204, 204]
    endpoint.answer(202, body=b"later")
    assert [one.answer.body for one in deliver(published(shop_file), endpoint)] == [b"later"] * 3
    endpoint.clear()
    assert endpoint.requests == []


def test_only_failed_events_are_delivered_again(endpoint: FakeEndpoint, shop_file: sqlite3.Connection) -> None:
    box = Outbox(shop_file)
    _publish_some(shop_file)
    endpoint.answer_next(500)
    endpoint.answer_next(400)
    box.deliver(endpoint)
    assert [(one.attempt, one.status) for one in endpoint.requests] == [(1, 500), (1, 400), (1, 204)]
    [again] = box.deliver(endpoint)  # An event that was answered with 400 is not sent again.
    assert (again.number, again.event.payload["order"]) == (2, 7)
    assert endpoint.requests[0].webhook_id == endpoint.requests[-1].webhook_id
    assert box.deliver(endpoint) == []
    with FakeEndpoint() as other:
        assert len(box.deliver(other)) == 3


def test_a_second_event_of_the_same_id_is_dropped(endpoint: FakeEndpoint, shop_file: sqlite3.Connection) -> None:
    outbox.publish(shop_file, "acme", "order.paid", {"n": 1}, event_id="same")
    outbox.publish(shop_file, "acme", "order.paid", {"n": 2}, event_id="same")
    Outbox(shop_file).deliver(endpoint)
    assert [one.json() for one in endpoint.requests] == [{"n": 1}]


@pytest.mark.parametrize("scheme", ["svix", "hex", "stripe", "github"])
def test_other_schemes_verify_too(scheme: str, shop_file: sqlite3.Connection) -> None:
    outbox.publish(shop_file, "acme", "order.paid", {})
    with FakeEndpoint(scheme=scheme) as endpoint:
        assert deliver(published(shop_file), endpoint)[0].delivered


async def test_the_endpoint_waits_for_requests_from_other_threads(
    endpoint: FakeEndpoint, shop_file: sqlite3.Connection
) -> None:
    outbox.publish(shop_file, "acme", "order.paid", {})
    events = published(shop_file)
    waiting = asyncio.create_task(asyncio.to_thread(endpoint.wait, 1))
    await deliver_async(events, endpoint)
    assert len(await waiting) == 1
    with pytest.raises(AssertionError, match="1 of 2 requests"):
        endpoint.wait(2, timeout=0.01)


def test_a_closed_endpoint_closes_the_connections_of_its_clients(events: list[Published]) -> None:
    with FakeEndpoint() as endpoint:
        client = HTTPConnection("127.0.0.1", urlsplit(endpoint.url).port)
        request = signed(events[0], endpoint)
        client.request("POST", "/", request.body, request.headers)
        assert client.getresponse().read() == b""
        client.request("GET", "/")
        assert b"missing" in client.getresponse().read()
    with pytest.raises(OSError):  # noqa: PT011, PT012
        client.request("POST", "/", request.body, request.headers)
        client.getresponse()
    client.close()
    assert [one.status for one in endpoint.requests] == [204, 401]


def test_a_closed_endpoint_gives_a_clear_error() -> None:
    endpoint = FakeEndpoint()
    with pytest.raises(RuntimeError, match="context manager"):
        _ = endpoint.url
    with endpoint:
        assert endpoint.url.startswith("http://127.0.0.1:")
    endpoint.close()


@pytest.mark.parametrize("status", [100, 199, 600, "500"])
def test_an_invalid_status_is_refused(status: Any) -> None:
    with pytest.raises(InvalidInput, match="200 to 599"):
        FakeEndpoint(status=status)


def test_a_weak_secret_is_refused() -> None:
    with pytest.raises(InvalidInput):
        FakeEndpoint(secret="whsec_" + base64.b64encode(b"short").decode())
    with pytest.raises(InvalidInput):
        AppEndpoint(lambda *_: [], secret="nonsense")
    with pytest.raises(InvalidInput):
        UrlEndpoint("ftp://example.com", secret=signing.new_secret())


# ── the receiving application in this process ─────────────────────────────────────────────────────────────────────

SECRET = signing.new_secret()


def _flask() -> Flask:
    app = Flask("receiver")

    @app.post("/hooks/größe")
    def hook() -> tuple[str, int]:
        payload = standardwebhooks.Webhook(SECRET).verify(request.get_data(), dict(request.headers))
        return f"{payload['order']} {request.args['q']}", 202

    return app


def _fastapi() -> FastAPI:
    app = FastAPI()

    @app.post("/hooks/größe")
    async def hook(request: FastApiRequest) -> str:
        try:
            payload = standardwebhooks.Webhook(SECRET).verify(await request.body(), dict(request.headers))
        except standardwebhooks.WebhookVerificationError as fault:
            raise HTTPException(400) from fault
        return f"{payload['order']} {request.query_params['q']}"

    return app


PATH = "/hooks/gr%C3%B6%C3%9Fe?q=a%20b"


@pytest.fixture
def events(shop_file: sqlite3.Connection) -> list[Published]:
    outbox.publish(shop_file, "acme", "order.paid", {"order": 7})
    return published(shop_file)


def test_a_wsgi_application_is_called(events: list[Published]) -> None:
    [attempt] = deliver(events, AppEndpoint(_flask(), PATH, secret=SECRET))
    assert (attempt.answer.status, attempt.answer.body) == (202, b"7 a b")
    assert attempt.answer.headers["content-type"].startswith("text/html")


def test_an_asgi_application_is_called(events: list[Published]) -> None:
    [attempt] = deliver(events, AppEndpoint(_fastapi(), PATH, secret=SECRET))
    assert (attempt.answer.status, attempt.answer.body) == (200, b'"7 a b"')
    [refused] = deliver(events, AppEndpoint(_fastapi(), PATH, secret=signing.new_secret()))
    assert refused.answer.status == 400


async def test_an_asgi_application_runs_in_the_current_event_loop(events: list[Published]) -> None:
    seen = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(asyncio.get_running_loop())
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"a", "more_body": True})
        await send({"type": "http.response.body", "body": b"b"})

    [attempt] = await deliver_async(events, AppEndpoint(app, secret=SECRET))
    assert attempt.answer.body == b"ab"
    assert seen == [asyncio.get_running_loop()]
    with pytest.raises(RuntimeError, match="deliver_async"):
        deliver(events, AppEndpoint(app, secret=SECRET))
    [of_wsgi] = await deliver_async(events, AppEndpoint(_flask(), PATH, secret=SECRET))
    assert of_wsgi.answer.status == 202


def test_a_wsgi_application_that_starts_late_and_closes(events: list[Published]) -> None:
    closed = []

    class Body:
        def __init__(self, start: Any) -> None:
            self.start = start

        def __iter__(self) -> Iterator[bytes]:
            self.start("503 Busy", [("Retry-After", "5")])
            yield b"busy"

        def close(self) -> None:
            closed.append(True)

    [attempt] = deliver(events, AppEndpoint(lambda _environ, start: Body(start), secret=SECRET))
    assert (attempt.answer.status, attempt.answer.body, closed) == (503, b"busy", [True])
    assert isinstance(attempt.verdict, Retry)


def test_an_application_that_gives_no_answer_is_an_error(events: list[Published]) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    with pytest.raises(RuntimeError, match="without a complete response"):
        deliver(events, AppEndpoint(app, secret=SECRET))


def test_the_first_example_of_the_documentation_page(shop_file: sqlite3.Connection) -> None:
    outbox.publish(shop_file, "acme", "order.paid", {"order": 7, "total": "19.90"})
    exec(python_under("Your own tests")[0], {"session": shop_file})


def test_the_fake_endpoint_accepts_requests_at_its_url(events: list[Published], endpoint: FakeEndpoint) -> None:
    deliver(events, UrlEndpoint(endpoint.url + "hooks?a=1", secret=endpoint.secret))
    assert endpoint.requests[0].path == "/hooks?a=1"


def test_the_helpers_need_only_the_core_install() -> None:
    code = "import sys, hookline.testing, hookline.pytest_plugin; print(*sorted({m.partition('.')[0] for m in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not set(loaded) & {
        "asyncpg",
        "psycopg",
        "sqlalchemy",
        "django",
        "cryptography",
        "typer",
        "starlette",
        "uvicorn",
    }


def test_a_request_can_be_made_without_sending_it(events: list[Published], endpoint: FakeEndpoint) -> None:
    at = datetime.now(UTC) - timedelta(hours=1)
    request = signed(events[0], endpoint, 3, now=at)
    assert request.headers["webhook-attempt"] == "3"
    assert endpoint.send(request).status == 401  # The timestamp is too old.
    assert endpoint.requests[0].fault == "the timestamp is too old"
