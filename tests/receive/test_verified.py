"""`verified` on the handler itself, in each framework, over real sockets. Wrong use of it must not run the handler."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Annotated, Any

import fastapi
import flask
import flask.views
import litestar
import litestar.params
import pytest
from django.conf import settings as django_settings
from litestar.middleware import DefineMiddleware
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.endpoints import HTTPEndpoint
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from hookline.errors import InvalidInput
from hookline.receive import Verifier, Webhook, handlers
from hookline.receive import django as for_django
from hookline.receive import fastapi as for_fastapi
from hookline.receive import flask as for_flask
from hookline.receive import litestar as for_litestar
from hookline.receive import starlette as for_starlette
from hookline.receive.idempotency import IdempotencySettings, idempotent
from hookline.receive.idempotency.asgi import IdempotencyMiddleware
from hookline.receive.idempotency.handler import idempotent_route
from hookline.receive.stores.sqlite import AsyncSqliteKeys, SqliteKeys
from tests.receive import senders
from tests.receive.desk import Desk
from tests.receive.web import Reply, Server, asgi_server, wsgi_server

if not django_settings.configured:
    django_settings.configure(USE_TZ=True)

from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse
from django.test import override_settings
from django.urls import path
from django.views import View
from django.views.decorators.http import require_POST

VERIFIER = Verifier(senders.WHSEC)
SETTINGS = IdempotencySettings(verifier=VERIFIER, only=["/elsewhere"])  # A decorated handler is guarded at every path.
BODY = b'{"order": 7}'
LIMIT = 100

Serve = Callable[[Any], Server]


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as stack:

        def start(app: Any) -> Server:
            is_wsgi = isinstance(app, flask.Flask) or type(app).__name__ == "WSGIHandler"
            return stack.enter_context(wsgi_server(app) if is_wsgi else asgi_server(app, lifespan="off"))

        yield start


def deliver(server: Server, address: str, body: bytes = BODY, signed: bytes | None = None, **more: str) -> Reply:
    sent = senders.standard(senders.WHSEC, body if signed is None else signed, str(int(time.time())))
    headers = {"content-type": "application/json", **sent.headers, **more}
    return server.send("POST", address, headers.items(), body)


def check(server: Server, desk: Desk, address: str, **more: str) -> None:
    """Check valid, forged, unsigned and large requests. The results are the same in every framework."""
    desk.bodies.clear()
    assert deliver(server, address, **more).body.strip(b'"') == b"msg_2y7Xqm"
    assert desk.bodies == [BODY]
    forged, unsigned = deliver(server, address, signed=b"{}", **more), server.call(address, body=BODY)
    assert [(one.status, one.code) for one in (forged, unsigned)] == [(401, "signature_invalid")] * 2
    long = b"[" + b" " * LIMIT + b"]"
    assert deliver(server, address, long, **more).code == "body_too_large"
    # The status is 401 if the server does not mark the end of the body.
    assert server.send("POST", address, [], iter([long])).status in (401, 413)
    assert desk.bodies == [BODY]


# ── Starlette ─────────────────────────────────────────────────────────────────────────────────────────────────────


def starlette_app(desk: Desk) -> Starlette:
    verified = for_starlette.verified(VERIFIER, max_body=LIMIT)

    async def done(request: Request, webhook: Webhook) -> Response:
        desk.done(await request.body())
        return PlainTextResponse(webhook.id)

    @verified
    def in_thread(request: Request, webhook: Webhook) -> Response:
        desk.done(webhook.body)
        return PlainTextResponse(webhook.id)

    class Hooks(HTTPEndpoint):
        @verified
        async def post(self, request: Request, webhook: Webhook) -> Response:
            return await done(request, webhook)

    async def read_before(request: Request) -> Response:
        assert (await request.body()) or True
        return await verified(done)(request)  # type: ignore[no-any-return]

    async def streamed_before(request: Request) -> Response:
        assert [chunk async for chunk in request.stream()]
        return await verified(done)(request)  # type: ignore[no-any-return]

    async def missing(request: Request, webhook: Webhook) -> Response:
        return await done(request, webhook)

    endpoints = [verified(done), in_thread, Hooks, read_before, streamed_before, missing]
    names = ["async", "thread", "class", "read", "streamed", "missing"]
    return Starlette(
        routes=[
            Route(f"/{name}", endpoint, methods=None if endpoint is Hooks else ["POST"])
            for name, endpoint in zip(names, endpoints, strict=True)
        ]
    )


@pytest.mark.parametrize("address", ["/async", "/thread", "/class", "/read", "/async%0a"])
def test_endpoints_of_starlette(desk: Desk, serve: Serve, address: str) -> None:
    check(serve(starlette_app(desk)), desk, address)


@pytest.mark.parametrize("address", ["/missing", "/streamed"])
def test_an_endpoint_of_starlette_fails_closed(desk: Desk, serve: Serve, address: str) -> None:
    """The request is refused if the decorator is missing, or if the body was already read as a stream."""
    assert deliver(serve(starlette_app(desk)), address).status == 500
    assert desk.effects == 0


# ── FastAPI ───────────────────────────────────────────────────────────────────────────────────────────────────────


class Order(BaseModel):
    order: int


Verified = Annotated[Webhook, fastapi.Depends(for_fastapi.verified(VERIFIER, max_body=LIMIT))]


async def drained(request: fastapi.Request) -> None:
    """Read the body as a stream, as a form parameter does."""
    assert [chunk async for chunk in request.stream()]


def fastapi_app(desk: Desk) -> fastapi.FastAPI:
    app = fastapi.FastAPI()

    @app.post("/async")
    async def hooks(request: fastapi.Request, webhook: Verified) -> str | None:
        desk.done(await request.body())
        return webhook.id

    @app.post("/thread")
    def in_thread(webhook: Verified) -> str | None:
        desk.done(webhook.body)
        return webhook.id

    @app.post("/parsed")
    async def parsed(order: Order, webhook: Verified) -> str | None:
        desk.done(webhook.body)
        return webhook.id

    @app.post("/drained", dependencies=[fastapi.Depends(drained)])
    async def late(webhook: Verified) -> None:
        desk.done(b"")

    return app


@pytest.mark.parametrize("address", ["/async", "/thread", "/async%0a"])
def test_dependencies_of_fastapi(desk: Desk, serve: Serve, address: str) -> None:
    check(serve(fastapi_app(desk)), desk, address)


def test_the_signature_is_checked_before_the_parameters_of_fastapi(desk: Desk, serve: Serve) -> None:
    server = serve(fastapi_app(desk))
    assert server.call("/parsed", body=b'{"order": "x"}').code == "signature_invalid"
    assert server.call("/parsed", body=b'{"order": 7}').code == "signature_invalid"
    assert server.call("/parsed", body=b"{").status == 422  # FastAPI parses JSON before any dependency runs.
    assert deliver(server, "/parsed", b'{"order": "x"}').status == 422
    assert desk.effects == 0
    assert deliver(server, "/parsed").status == 200
    assert desk.bodies == [BODY]


def test_a_body_that_fastapi_has_already_streamed_is_refused(desk: Desk, serve: Serve) -> None:
    assert deliver(serve(fastapi_app(desk)), "/drained").status == 500
    assert desk.effects == 0


def test_an_application_may_handle_the_refusal_itself(desk: Desk, serve: Serve) -> None:
    app = fastapi_app(desk)
    app.add_exception_handler(401, lambda request, fault: PlainTextResponse("no", 401))
    reply = serve(app).call("/async", body=BODY)
    assert (reply.status, reply.body, desk.effects) == (401, b"no", 0)


# ── Litestar ──────────────────────────────────────────────────────────────────────────────────────────────────────


def litestar_app(desk: Desk) -> litestar.Litestar:
    guard = for_litestar.verified(VERIFIER, max_body=LIMIT)

    @litestar.post("/async", status_code=200, middleware=[guard])
    async def hooks(request: litestar.Request[Any, Any, Any]) -> str:
        desk.done(await request.body())
        return str(request.state.hookline_webhook.id)

    @litestar.post("/parsed", status_code=200, middleware=[guard])
    async def parsed(data: litestar.params.JSONBody[dict[str, int]], request: litestar.Request[Any, Any, Any]) -> str:
        desk.done(b'{"order": %d}' % data["order"])
        return str(request.state.hookline_webhook.id)

    @litestar.post("/missing")
    async def missing(request: litestar.Request[Any, Any, Any]) -> None:
        desk.done(request.state.hookline_webhook.body)

    return litestar.Litestar([hooks, parsed, missing], openapi_config=None, logging_config=None)


@pytest.mark.parametrize("address", ["/async", "/parsed", "//async/"])
def test_routes_of_litestar(desk: Desk, serve: Serve, address: str) -> None:
    server = serve(litestar_app(desk))
    check(server, desk, address)
    # The signature is checked before the body is parsed.
    assert server.call(address, body=b"{").code == "signature_invalid"
    assert deliver(server, "/missing").status == 500
    assert desk.bodies == [BODY]


@pytest.mark.parametrize("name", ["verified", "idempotent"])
def test_a_body_that_litestar_has_read_and_kept(desk: Desk, serve: Serve, keys_file: str, name: str) -> None:
    """Litestar's LoggingMiddleware reads every body."""
    settings = IdempotencySettings(verifier=VERIFIER, max_body=LIMIT)
    idempotent = DefineMiddleware(IdempotencyMiddleware, store=AsyncSqliteKeys(keys_file), settings=settings)
    guards: dict[str, Any] = {"verified": for_litestar.verified(VERIFIER, max_body=LIMIT), "idempotent": idempotent}

    @litestar.post("/hooks", status_code=200, middleware=[guards[name]])
    async def hooks(request: litestar.Request[Any, Any, Any]) -> str:
        desk.done(await request.body())
        return str(request.state.hookline_webhook.id)

    def reading(app: Any) -> Any:
        async def call(scope: Any, receive: Any, send: Any) -> None:
            assert await litestar.Request[Any, Any, Any](scope, receive).body()
            await app(scope, receive, send)

        return call

    check(serve(litestar.Litestar([hooks], middleware=[reading], openapi_config=None)), desk, "/hooks")


# ── Flask ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def flask_app(desk: Desk) -> flask.Flask:
    app = flask.Flask("verified")
    verified = for_flask.verified(VERIFIER, max_body=LIMIT)

    def done(webhook: Webhook) -> str:
        desk.done(flask.request.get_data())
        assert flask.request.get_json() == {"order": 7}
        return str(webhook.id)

    @app.post("/async/<name>")
    @verified
    async def waits(name: str, webhook: Webhook) -> str:
        return done(webhook)

    class Hooks(flask.views.MethodView):
        @verified
        def post(self, webhook: Webhook) -> str:
            return done(webhook)

    @verified
    @app.post("/above")
    def above(webhook: Webhook) -> str:
        return done(webhook)

    app.post("/sync")(verified(done))
    app.add_url_rule("/class", view_func=Hooks.as_view("class"))
    return app


@pytest.mark.parametrize("address", ["/sync", "/async/x", "/class"])
@pytest.mark.parametrize("read_before", [False, True])
def test_views_of_flask(desk: Desk, serve: Serve, address: str, read_before: bool) -> None:
    app = flask_app(desk)
    if read_before:
        app.before_request(lambda: flask.request.get_data() and None)
    check(serve(app), desk, address)


def test_a_decorator_above_the_route_of_flask_fails_closed(desk: Desk, serve: Serve) -> None:
    assert deliver(serve(flask_app(desk)), "/above").status == 500
    assert desk.effects == 0


def test_a_form_that_flask_has_parsed_is_refused(desk: Desk, serve: Serve) -> None:
    app = flask_app(desk)
    app.before_request(lambda: flask.request.form and None)
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert deliver(serve(app), "/sync", b"order=7", **form).status == 400
    assert desk.effects == 0


# ── Django ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Urls:
    """An object that Django uses in place of a URL module."""

    def __init__(self, desk: Desk) -> None:
        verified = for_django.verified(VERIFIER, max_body=LIMIT)

        def done(request: HttpRequest, webhook: Webhook) -> HttpResponse:
            desk.done(request.body)
            return HttpResponse(webhook.id)

        async def waits(request: HttpRequest, name: str, webhook: Webhook) -> HttpResponse:
            return done(request, webhook)

        class Hooks(View):
            @verified
            def post(self, request: HttpRequest, webhook: Webhook) -> HttpResponse:
                return done(request, webhook)

        class AsyncHooks(View):
            @verified
            async def post(self, request: HttpRequest, webhook: Webhook) -> HttpResponse:
                return done(request, webhook)

        def parsed_before(request: HttpRequest) -> HttpResponse:
            assert request.read()
            return verified(done)(request)  # type: ignore[no-any-return]

        self.urlpatterns = [
            path("sync", require_POST(verified(done))),
            path("inside", verified(require_POST(done))),
            path("async/<name>", verified(waits)),
            path("class", Hooks.as_view()),
            path("async_class", AsyncHooks.as_view()),
            path("missing", done),
            path("read", parsed_before),
        ]


@pytest.mark.parametrize("address", ["/sync", "/inside", "/async/x", "/class", "/async_class"])
@pytest.mark.parametrize("application", [get_wsgi_application, get_asgi_application])
def test_views_of_django(desk: Desk, serve: Serve, address: str, application: Any) -> None:
    with override_settings(ROOT_URLCONF=Urls(desk), ALLOWED_HOSTS=["*"], MIDDLEWARE=[], LOGGING_CONFIG=None):
        server = serve(application())
        check(server, desk, address)
        assert [deliver(server, wrong).status for wrong in ("/missing", "/read")] == [500, 500]
    assert desk.bodies == [BODY]


# ── with idempotency ──────────────────────────────────────────────────────────────────────────────────────────────


def check_once(server: Server, desk: Desk) -> None:
    spellings = ["/hooks", "/hooks%0a", "//hooks", "/hooks/", "/HOOKS", "/hooks"]
    replies = [deliver(server, address) for address in spellings]
    assert (replies[0].status, replies[-1].is_replay, desk.effects) == (200, True, 1)
    assert server.call("/hooks", body=BODY).code == "signature_invalid"
    assert server.call("/hooks%0a", body=BODY).status in (401, 404)
    assert desk.effects == 1


def test_both_on_a_view_of_flask(desk: Desk, serve: Serve, keys_file: str) -> None:
    app = flask.Flask("both")

    @app.post("/hooks")
    @idempotent(SqliteKeys(keys_file), SETTINGS)
    @for_flask.verified(VERIFIER)
    def hooks(webhook: Webhook) -> str:
        return f"{desk.done(webhook.body)} {flask.request.get_json()}"

    check_once(serve(app), desk)


def test_both_on_an_endpoint_of_starlette(desk: Desk, serve: Serve, keys_file: str) -> None:
    @idempotent(AsyncSqliteKeys(keys_file), SETTINGS)
    @for_starlette.verified(VERIFIER)
    async def hooks(request: Request, webhook: Webhook) -> Response:
        return PlainTextResponse(f"{desk.done(webhook.body)} {await request.json()}")

    check_once(serve(Starlette(routes=[Route("/hooks", hooks, methods=["POST"])])), desk)


def test_both_on_a_route_of_fastapi(desk: Desk, serve: Serve, keys_file: str) -> None:
    router = fastapi.APIRouter(route_class=idempotent_route(AsyncSqliteKeys(keys_file), SETTINGS))

    @router.post("/hooks")
    async def hooks(webhook: Verified) -> int:
        return desk.done(webhook.body)

    app = fastapi.FastAPI()
    app.include_router(router)
    check_once(serve(app), desk)


# ── wrong use ─────────────────────────────────────────────────────────────────────────────────────────────────────

EACH = [for_django, for_fastapi, for_flask, for_litestar, for_starlette]
DECORATORS = [for_django, for_flask, for_starlette]


@pytest.mark.parametrize("module", EACH, ids=lambda module: module.__name__)
def test_verified_needs_a_verifier(module: Any) -> None:
    def handler(request: Any, webhook: Webhook) -> None: ...

    for wrong in (None, senders.WHSEC, handler):
        with pytest.raises(InvalidInput, match="Verifier") as refused:
            module.verified(wrong)
        assert senders.WHSEC not in str(refused.value)
    with pytest.raises(InvalidInput, match="max_body"):
        module.verified(VERIFIER, max_body=-1)
    with pytest.raises(InvalidInput, match="url"):
        module.verified(VERIFIER, url="https://shop.test/sms")


@pytest.mark.parametrize("module", DECORATORS, ids=lambda module: module.__name__)
def test_the_handler_must_have_a_required_webhook_parameter(module: Any) -> None:
    """With a default value or `**options`, the handler would also run without the decorator."""

    def without(request: Any) -> None: ...
    def whatever(**options: Any) -> None: ...
    def default(request: Any, webhook: Any = None) -> None: ...
    def positional(webhook: Any, /) -> None: ...

    for handler in (without, whatever, default, positional, HTTPEndpoint, View.as_view()):
        with pytest.raises(InvalidInput, match="parameter named `webhook`"):
            module.verified(VERIFIER)(handler)


async def test_a_decorator_of_another_framework_is_refused() -> None:
    def handler(request: Any, webhook: Webhook) -> None:
        raise AssertionError("never called")

    with pytest.raises(InvalidInput, match="no request of Django"):
        for_django.verified(VERIFIER)(handler)(Request({"type": "http", "headers": []}))
    with pytest.raises(InvalidInput, match="no request of Starlette"):
        await for_starlette.verified(VERIFIER)(handler)(HttpRequest())
    with pytest.raises(RuntimeError, match="outside of request context"):
        for_flask.verified(VERIFIER)(handler)(HttpRequest())


def test_the_url_that_twilio_called_can_be_given(desk: Desk, serve: Serve) -> None:
    app, public = flask.Flask("sms"), "https://shop.example/sms"

    @app.post("/sms")
    @for_flask.verified(Verifier(senders.TEXT, "twilio"), url=lambda request: f"https://shop.example{request.path}")
    def sms(webhook: Webhook) -> str:
        return str(desk.done(webhook.body))

    sent = senders.twilio_form(senders.TEXT, b"MessageSid=SM83&MessageStatus=delivered", public)
    form = [("content-type", "application/x-www-form-urlencoded"), *sent.headers.items()]
    server = serve(app)
    assert [server.send("POST", "/sms", form, body).status for body in (sent.body, b"x=1")] == [200, 401]
    assert desk.effects == 1


def test_the_size_limit_equals_that_of_the_middleware() -> None:
    assert IdempotencySettings().max_body == handlers.MAX_BODY
