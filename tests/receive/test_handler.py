"""One handler with `@idempotent` in each framework, over real sockets. Other handlers are not affected."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar

import django
import fastapi
import flask
import flask.views
import litestar
import pytest
from django.conf import settings as django_settings
from litestar.middleware import DefineMiddleware
from starlette.applications import Starlette
from starlette.endpoints import HTTPEndpoint
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from hookline.errors import InvalidInput
from hookline.receive import Verifier
from hookline.receive.idempotency import IdempotencySettings, idempotent
from hookline.receive.idempotency.asgi import IdempotencyMiddleware
from hookline.receive.idempotency.handler import idempotent_route
from hookline.receive.idempotency.wsgi import IdempotencyMiddleware as WsgiMiddleware
from tests.receive import senders
from tests.receive.desk import LARGE, Desk, Oops
from tests.receive.web import AsyncKeys, Keys, Server, asgi_server, held_keys, wsgi_server

if not django_settings.configured:
    django_settings.configure(USE_TZ=True)
django.setup()

from django.core.asgi import get_asgi_application  # noqa: E402
from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse  # noqa: E402
from django.template.response import SimpleTemplateResponse  # noqa: E402
from django.test import RequestFactory, override_settings  # noqa: E402
from django.urls import path  # noqa: E402
from django.utils.decorators import method_decorator  # noqa: E402
from django.views import View  # noqa: E402

REQUIRED = IdempotencySettings(required=True)


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def keys(keys_file: str) -> Keys:
    return Keys(keys_file)


@pytest.fixture
def async_keys(keys_file: str) -> AsyncKeys:
    return AsyncKeys(keys_file)


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    with ExitStack() as stack:

        def start(app: Any, *, is_async: bool, **options: Any) -> Server:
            return stack.enter_context(asgi_server(app, **options) if is_async else wsgi_server(app))

        yield start


def check_one_effect(server: Server, desk: Desk, path: str = "/pay") -> None:
    """Check that a copy gets the stored answer and has no second effect. This holds in every framework."""
    first, copy = server.call(path, "k1", b"7"), server.call(path, "k1", b"7")
    assert (first.status, first.body, first.is_replay) == (200, b"1: 7", False)
    assert (copy.status, copy.body, copy.is_replay) == (200, b"1: 7", True)
    assert server.call(path, "k1", b"8").code == "key_reused"
    assert server.call(path).code == "key_missing"
    assert desk.effects == 1


def check_left_alone(server: Server, desk: Desk) -> None:
    before = desk.effects
    assert [server.call("/free", "k1", b"7").is_replay for _ in range(2)] == [False, False]
    assert desk.effects == before + 2


# ── Flask ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def flask_app(desk: Desk, keys: Keys) -> flask.Flask:
    app = flask.Flask("handler")

    def done() -> str:
        body = flask.request.get_data()
        return f"{desk.done(body)}: {body.decode()}"

    @app.post("/pay")
    @idempotent(keys, REQUIRED)
    def pay() -> str:
        return done()

    @app.post("/async_pay/<name>")
    @idempotent(keys, REQUIRED)
    async def async_pay(name: str) -> str:
        await asyncio.sleep(0)
        return done()

    @app.post("/fails")
    @idempotent(keys)
    def fails() -> str:
        desk.done(b"")
        raise Oops

    @app.post("/gone")
    @idempotent(keys)
    def gone() -> str:
        desk.done(b"")
        flask.abort(410)

    @app.post("/stream")
    @idempotent(keys)
    def stream() -> Any:
        desk.done(b"")
        return flask.Response(LARGE[at : at + 1000] for at in range(0, 5000, 1000))

    class Pay(flask.views.MethodView):
        decorators: ClassVar[Any] = [idempotent(keys, REQUIRED)]

        def post(self) -> str:
            return done()

    app.add_url_rule("/view", view_func=Pay.as_view("view"))
    app.post("/free")(done)
    return app


@pytest.mark.parametrize("path", ["/pay", "/async_pay/x", "/view"])
def test_views_of_flask(desk: Desk, keys: Keys, serve: Any, path: str) -> None:
    server = serve(flask_app(desk, keys), is_async=False)
    check_one_effect(server, desk, path)
    check_left_alone(server, desk)


def test_a_view_of_flask_that_raises(desk: Desk, keys: Keys, keys_file: str, serve: Any) -> None:
    server = serve(flask_app(desk, keys), is_async=False)
    assert [server.call("/fails", "k1").status for _ in range(2)] == [500, 500]
    assert [server.call("/gone", "k1").status for _ in range(2)] == [410, 410]
    assert desk.effects == 4
    assert held_keys(keys_file) == (0, 0)


def test_a_view_of_flask_that_streams(desk: Desk, keys: Keys, serve: Any) -> None:
    server = serve(flask_app(desk, keys), is_async=False)
    first, copy = server.call("/stream", "k1"), server.call("/stream", "k1")
    assert (first.body, copy.body, copy.is_replay) == (LARGE[:5000], LARGE[:5000], True)


def test_a_body_that_was_read_before_the_view(desk: Desk, keys: Keys, serve: Any) -> None:
    app = flask_app(desk, keys)
    app.before_request(lambda: flask.request.get_data() and None)
    check_one_effect(serve(app, is_async=False), desk)


def test_a_form_that_was_parsed_before_the_view_is_refused(desk: Desk, keys: Keys, serve: Any) -> None:
    """The raw bytes of a parsed form are not available. Without them all forms would have the same fingerprint."""
    app = flask_app(desk, keys)
    app.before_request(lambda: flask.request.form and None)
    server = serve(app, is_async=False)
    form = [("Idempotency-Key", "k1"), ("Content-Type", "application/x-www-form-urlencoded")]
    assert server.send("POST", "/pay", form, b"order=7").status == 400
    assert desk.effects == 0


def test_after_request_functions_of_flask_also_run_for_copies(desk: Desk, keys: Keys, serve: Any) -> None:
    app = flask_app(desk, keys)

    @app.after_request
    def mark(response: flask.Response) -> flask.Response:
        response.headers["x-size"] = str(len(response.get_data()))
        return response

    server = serve(app, is_async=False)
    first, copy = server.call("/pay", "k1", b"7"), server.call("/pay", "k1", b"7")
    assert [reply.one("x-size") for reply in (first, copy)] == ["4", "4"]
    assert (first.body, copy.body, copy.is_replay) == (b"1: 7", b"1: 7", True)


def test_a_decorator_inside_the_middleware(desk: Desk, keys: Keys, serve: Any) -> None:
    app = flask_app(desk, keys)
    app.wsgi_app = WsgiMiddleware(app.wsgi_app, keys, REQUIRED)  # type: ignore[method-assign]
    check_one_effect(serve(app, is_async=False), desk)


def test_a_view_gets_the_verified_webhook(desk: Desk, keys: Keys, serve: Any) -> None:
    app = flask.Flask("webhooks")

    @app.post("/hooks")
    @idempotent(keys, IdempotencySettings(verifier=Verifier(senders.WHSEC)))
    def hooks() -> str:
        desk.done(b"")
        return str(flask.request.environ["hookline.webhook"].id)

    server = serve(app, is_async=False)
    sent = senders.standard(senders.WHSEC, b"{}", str(int(time.time())))
    first, copy = (server.send("POST", "/hooks", sent.headers.items(), sent.body) for _ in range(2))
    assert (first.body, copy.is_replay, desk.effects) == (b"msg_2y7Xqm", True, 1)
    assert [server.call(path).status for path in ("/hooks", "hooks")] == [401, 401]  # Werkzeug adds the missing slash.
    assert desk.effects == 1


def test_no_method_gets_around_the_signature_of_a_view(
    desk: Desk, keys: Keys, async_keys: AsyncKeys, serve: Any
) -> None:
    """Handlers for Twilio often accept GET and POST, and read the query string."""
    settings = IdempotencySettings(verifier=Verifier(senders.WHSEC))
    views = flask.Flask("webhooks")

    @views.route("/sms", methods=["GET", "POST"])
    @idempotent(keys, settings)
    def sms() -> str:
        return str(desk.done(b""))

    @idempotent(async_keys, settings)
    async def endpoint(request: Request) -> Response:
        return PlainTextResponse(str(desk.done(b"")))

    router = fastapi.APIRouter(route_class=idempotent_route(async_keys, settings))

    @router.get("/sms")
    def route() -> int:
        return desk.done(b"")

    routes = fastapi.FastAPI()
    routes.include_router(router)
    starlette = Starlette(routes=[Route("/sms", endpoint)])
    for app, is_async in ((views, False), (starlette, True), (routes, True)):
        server = serve(app, is_async=is_async)
        assert [server.send("GET", "/sms?Body=forged", [], body).status for body in (b"", b"{}")] == [401, 401]
    assert desk.effects == 0


# ── Starlette, FastAPI, Litestar ──────────────────────────────────────────────────────────────────────────────────


def starlette_app(desk: Desk, keys: AsyncKeys) -> Starlette:
    async def done(request: Request) -> Response:
        body = await request.body()
        return PlainTextResponse(f"{desk.done(body)}: {body.decode()}")

    @idempotent(keys, REQUIRED)
    async def pay(request: Request) -> Response:
        return await done(request)

    @idempotent(keys)
    def in_thread(request: Request) -> Response:
        return PlainTextResponse(f"{desk.done(b'')}: {request.path_params['name']}")

    @idempotent(keys)
    async def fails(request: Request) -> Response:
        desk.done(b"")
        raise Oops

    @idempotent(keys)
    async def stream(request: Request) -> Response:
        desk.done(b"")
        return StreamingResponse(LARGE[at : at + 1000] for at in range(0, 5000, 1000))

    class Pay(HTTPEndpoint):
        @idempotent(keys, REQUIRED)
        async def post(self, request: Request) -> Response:
            return await done(request)

    plain = [("/pay", pay), ("/thread/{name}", in_thread), ("/fails", fails), ("/stream", stream), ("/free", done)]
    routes = [Route(path, endpoint, methods=["POST"]) for path, endpoint in plain]
    return Starlette(routes=[*routes, Route("/view", Pay)])


@pytest.mark.parametrize("path", ["/pay", "/view"])
def test_endpoints_of_starlette(desk: Desk, async_keys: AsyncKeys, serve: Any, path: str) -> None:
    server = serve(starlette_app(desk, async_keys), is_async=True)
    check_one_effect(server, desk, path)
    check_left_alone(server, desk)


def test_other_endpoints_of_starlette(desk: Desk, async_keys: AsyncKeys, keys_file: str, serve: Any) -> None:
    server = serve(starlette_app(desk, async_keys), is_async=True)
    assert [server.call("/fails", "k1").status for _ in range(2)] == [500, 500]
    assert held_keys(keys_file) == (0, 0)
    assert [server.call("/thread/x", "k1").body for _ in range(2)] == [b"3: x", b"3: x"]
    first, copy = server.call("/stream", "k1"), server.call("/stream", "k1")
    assert (first.body, copy.body, copy.is_replay) == (LARGE[:5000], LARGE[:5000], True)


def test_routes_of_fastapi(desk: Desk, async_keys: AsyncKeys, keys_file: str, serve: Any) -> None:
    app, closed = fastapi.FastAPI(), threading.Semaphore(0)
    router = fastapi.APIRouter(route_class=idempotent_route(async_keys, REQUIRED))

    def session() -> Iterator[int]:
        yield 7
        closed.release()

    @router.post("/pay")
    async def pay(order: int, session: int = fastapi.Depends(session)) -> dict[str, int]:
        if order == 404:
            raise fastapi.HTTPException(404)
        return {"order": order, "n": desk.done(b""), "session": session}

    @router.post("/fails")
    def fails() -> None:
        desk.done(b"")
        raise Oops

    @app.post("/free")
    async def free() -> None:
        desk.done(b"")

    app.include_router(router, prefix="/v1")
    server = serve(app, is_async=True)
    first, copy = server.call("/v1/pay?order=3", "k1"), server.call("/v1/pay?order=3", "k1")
    assert (first.status, first.body) == (200, b'{"order":3,"n":1,"session":7}')
    assert (copy.body, copy.is_replay) == (first.body, True)
    assert closed.acquire(timeout=30)  # The session is closed after the answer.
    assert not closed.acquire(blocking=False)
    assert server.call("/v1/pay?order=4", "k1").code == "key_reused"
    assert server.call("/v1/pay?order=4").code == "key_missing"
    assert server.call("/v1/pay?order=x", "k2").status == 422
    assert server.call("/v1/pay?order=404", "k3").status == 404
    assert [server.call("/v1/fails", "k1").status for _ in range(2)] == [500, 500]
    check_left_alone(server, desk)
    assert desk.effects == 5
    assert held_keys(keys_file)[1] == 0


def test_a_route_of_litestar(desk: Desk, async_keys: AsyncKeys, serve: Any) -> None:
    @litestar.post(
        "/pay",
        status_code=200,
        media_type="text/plain",
        middleware=[DefineMiddleware(IdempotencyMiddleware, store=async_keys, settings=REQUIRED)],
    )
    async def pay(request: litestar.Request[Any, Any, Any]) -> str:
        body = await request.body()
        return f"{desk.done(body)}: {body.decode()}"

    @litestar.post("/free")
    async def free() -> None:
        desk.done(b"")

    server = serve(litestar.Litestar([pay, free], openapi_config=None), is_async=True)
    check_one_effect(server, desk)
    check_left_alone(server, desk)


# ── Django ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Urls:
    """An object that Django uses in place of a URL module."""

    def __init__(self, **views: Any) -> None:
        self.urlpatterns = [path(name, view) for name, view in views.items()]


def project(**views: Any) -> Any:
    return override_settings(ROOT_URLCONF=Urls(**views), ALLOWED_HOSTS=["*"], MIDDLEWARE=[], LOGGING_CONFIG=None)


def django_views(desk: Desk, keys: Keys) -> dict[str, Any]:
    def free(request: HttpRequest) -> HttpResponse:
        return HttpResponse(f"{desk.done(request.body)}: {request.body.decode()}")

    def fails(request: HttpRequest) -> HttpResponse:
        desk.done(b"")
        raise Oops

    class Pay(View):
        @method_decorator(idempotent(keys, REQUIRED))
        def dispatch(self, request: HttpRequest, *args: Any, **options: Any) -> Any:
            return super().dispatch(request, *args, **options)

        def post(self, request: HttpRequest) -> HttpResponse:
            return free(request)

    class Post(View):
        @idempotent(keys, REQUIRED)
        def post(self, request: HttpRequest) -> HttpResponse:
            return free(request)

    guarded = idempotent(keys, REQUIRED)
    return {"pay": guarded(free), "view": Pay.as_view(), "post": Post.as_view(), "fails": guarded(fails), "free": free}


@pytest.mark.parametrize("path", ["/pay", "/view", "/post"])
def test_views_of_django(desk: Desk, keys: Keys, serve: Any, path: str) -> None:
    with project(**django_views(desk, keys)):
        server = serve(get_wsgi_application(), is_async=False)
        check_one_effect(server, desk, path)
        check_left_alone(server, desk)


def test_a_view_of_django_that_raises(desk: Desk, keys: Keys, keys_file: str, serve: Any) -> None:
    with project(**django_views(desk, keys)):
        server = serve(get_wsgi_application(), is_async=False)
        assert [server.call("/fails", "k1").status for _ in range(2)] == [500, 500]
    assert held_keys(keys_file) == (0, 0)


def test_async_views_of_django(desk: Desk, async_keys: AsyncKeys, keys_file: str, serve: Any) -> None:
    @idempotent(async_keys, REQUIRED)
    async def pay(request: HttpRequest) -> HttpResponse:
        await asyncio.sleep(0)
        return HttpResponse(f"{desk.done(request.body)}: {request.body.decode()}")

    @idempotent(async_keys)
    async def fails(request: HttpRequest) -> HttpResponse:
        desk.done(b"")
        raise Oops

    with project(pay=pay, fails=fails):
        server = serve(get_asgi_application(), is_async=True, lifespan="off")
        check_one_effect(server, desk)
        assert [server.call("/fails", "k1").status for _ in range(2)] == [500, 500]
    assert held_keys(keys_file) == (1, 0)


def test_a_response_that_django_would_render_later(desk: Desk, keys: Keys) -> None:
    class Page(SimpleTemplateResponse):
        @property
        def rendered_content(self) -> str:
            return f"rendered {self.template_name}"

    @idempotent(keys)
    def page(request: HttpRequest) -> HttpResponse:
        return Page(str(desk.done(b"")))

    replies = [page(RequestFactory().post("/page", headers={"Idempotency-Key": "k1"})) for _ in range(2)]
    assert [reply.content for reply in replies] == [b"rendered 1"] * 2


def test_a_stream_that_django_closes_early_is_kept_in_full(desk: Desk, keys: Keys) -> None:
    def chunks() -> Iterator[bytes]:
        try:
            yield from (b"a", b"b", b"c")
        finally:
            desk.closed.set()

    @idempotent(keys)
    def stream(request: HttpRequest) -> StreamingHttpResponse:
        desk.done(b"")
        return StreamingHttpResponse(chunks())

    first = stream(RequestFactory().post("/stream", headers={"Idempotency-Key": "k1"}))
    assert next(iter(first)) == b"a"
    first.close()  # The server does this when its client disconnects.
    assert desk.closed.is_set()
    copy = stream(RequestFactory().post("/stream", headers={"Idempotency-Key": "k1"}))
    assert (copy.content, copy.headers["idempotency-replayed"], desk.effects) == (b"abc", "true", 1)


ATOMIC = """
import sys
import django
from django.conf import settings
from django.db import connection
from django.http import HttpResponse
from django.urls import path
from hookline.receive.idempotency import idempotent
from hookline.receive.stores.sqlite import SqliteKeys

store = SqliteKeys(sys.argv[1] + "/keys.db")
settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": sys.argv[1] + "/shop.db", "ATOMIC_REQUESTS": True}},
    MIDDLEWARE=["hookline.receive.idempotency.django.IdempotencyMiddleware"],
    HOOKLINE_IDEMPOTENCY={"STORE": store, "ONLY": ["/middleware"]},
    ROOT_URLCONF=sys.modules[__name__],
    ALLOWED_HOSTS=["*"],
    LOGGING_CONFIG=None,
)
django.setup()
with connection.cursor() as cursor:
    cursor.execute("CREATE TABLE customers (id integer PRIMARY KEY)")
    cursor.execute("CREATE TABLE orders (customer integer REFERENCES customers (id) DEFERRABLE INITIALLY DEFERRED)")

def order(request):
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO orders VALUES (1)")
    return HttpResponse("done")

urlpatterns = [path("middleware", order), path("decorator", idempotent(store)(order))]

from django.test import Client
client = Client(raise_request_exception=False)

def post(address):
    return client.post(address, headers={"Idempotency-Key": "k1"})

print(post("/middleware").status_code)  # The COMMIT fails because the customer does not exist.
with connection.cursor() as cursor:
    cursor.execute("INSERT INTO customers VALUES (1)")
print(post("/middleware").content.decode(), post("/middleware").headers["idempotency-replayed"])
try:
    Client().post("/decorator", headers={"Idempotency-Key": "k1"})
except Exception as fault:
    print(type(fault).__name__, fault)
"""


def test_an_answer_is_kept_only_after_the_transaction_around_the_view(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", ATOMIC, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    failed, kept, refused = done.stdout.splitlines()
    assert (failed, kept) == ("500", "done true")
    assert refused.startswith("ImproperlyConfigured @idempotent inside ATOMIC_REQUESTS")


# ── wrong use ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_sync_store_on_an_async_handler_is_refused(keys: Keys, async_keys: AsyncKeys) -> None:
    starlette = Request({"type": "http", "method": "POST", "path": "/", "headers": []})
    django_request = RequestFactory().post("/")

    async def waits(request: Any) -> Any:
        raise AssertionError("never called")

    def waits_not(request: Any) -> Any:
        raise AssertionError("never called")

    for handler, request in ((waits, starlette), (waits_not, starlette), (waits, django_request)):
        with pytest.raises(InvalidInput, match="synchronous store"):
            idempotent(keys)(handler)(request)
    with pytest.raises(InvalidInput, match="this is Django"):
        await idempotent(async_keys)(waits_not)(django_request)


def test_the_decorator_without_a_store_is_refused() -> None:
    def pay() -> Any:
        raise AssertionError("never called")

    with pytest.raises(InvalidInput, match="@idempotent\\(store\\)"):
        idempotent(pay)  # type: ignore[arg-type]


async def test_the_error_for_fastapi_names_idempotent_route(async_keys: AsyncKeys) -> None:
    @idempotent(async_keys)
    async def pay(order: int) -> dict[str, int]:
        raise AssertionError("never called")

    with pytest.raises(InvalidInput, match="idempotent_route"):
        await pay(order=7)
