"""Applications for each framework with the same handlers: without a guard, behind the middleware, or with `verified` on
each handler.

Every handler counts its calls. The routes use the lenient features of routers: patterns that ignore case or a line
break, optional slashes, path parameters and mounts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import django
import fastapi
import flask
import litestar
from django.conf import settings as django_settings
from litestar.handlers import asgi as litestar_asgi
from litestar.middleware import DefineMiddleware
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route

import hookline.receive.django
import hookline.receive.fastapi
import hookline.receive.flask
import hookline.receive.litestar
import hookline.receive.starlette
from hookline.receive import Verifier, Webhook
from hookline.receive.idempotency import IdempotencySettings
from hookline.receive.idempotency.asgi import IdempotencyMiddleware
from hookline.receive.idempotency.wsgi import IdempotencyMiddleware as WsgiMiddleware
from hookline.receive.stores.sqlite import AsyncSqliteKeys, SqliteKeys
from tests.receive import senders
from tests.receive.spellings import METHODS, AsgiCall, Call, WsgiCall

if not django_settings.configured:
    django_settings.configure(USE_TZ=True)
django.setup()

from django.core.asgi import get_asgi_application  # noqa: E402
from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.http import HttpRequest, HttpResponse  # noqa: E402
from django.test import override_settings  # noqa: E402
from django.urls import path, re_path  # noqa: E402

Guard = Literal["none", "middleware", "handler"]

VERIFIER = Verifier(senders.WHSEC)
SETTINGS = IdempotencySettings(verifier=VERIFIER, only=["/hooks"])


class Stage(NamedTuple):
    guard: Guard
    keys_file: str
    effects: Counter[str]  # number of calls of each guarded handler


# ── Starlette, FastAPI ────────────────────────────────────────────────────────────────────────────────────────────


def _starlette_endpoint(stage: Stage, name: str) -> Any:
    async def endpoint(request: Request) -> Response:
        stage.effects[name] += 1
        return PlainTextResponse("done")

    async def verified(request: Request, webhook: Webhook) -> Response:
        return await endpoint(request)

    return hookline.receive.starlette.verified(VERIFIER)(verified) if stage.guard == "handler" else endpoint


@contextmanager
def starlette_app(stage: Stage) -> Iterator[Call]:
    def route(path: str, name: str) -> Route:
        return Route(path, _starlette_endpoint(stage, name), methods=METHODS)

    routes = [
        route("/hooks", "/hooks"),
        route("/hooks/fixed", "/hooks/fixed"),
        route("/hooks/slash/", "/hooks/slash/"),
        route("/hooks/named/{name}", "named"),
        route("/hooks/files/{name:path}", "files"),
        Mount("/hooks/mounted", routes=[route("/", "mounted"), route("/{name}", "mounted")]),
    ]
    middleware = [Middleware(IdempotencyMiddleware, store=AsyncSqliteKeys(stage.keys_file), settings=SETTINGS)]
    yield AsgiCall(Starlette(routes=routes, middleware=middleware if stage.guard == "middleware" else []))


@contextmanager
def fastapi_app(stage: Stage) -> Iterator[Call]:
    app = fastapi.FastAPI(openapi_url=None)
    if stage.guard == "middleware":
        app.add_middleware(IdempotencyMiddleware, store=AsyncSqliteKeys(stage.keys_file), settings=SETTINGS)
    dependency = fastapi.Depends(hookline.receive.fastapi.verified(VERIFIER))

    def add(address: str, name: str) -> None:
        async def handler() -> str:
            stage.effects[name] += 1
            return "done"

        guards = [dependency] if stage.guard == "handler" else []
        app.api_route(address, methods=METHODS, dependencies=guards)(handler)

    for address in ("/hooks", "/hooks/fixed", "/hooks/slash/"):
        add(address, address)
    add("/hooks/named/{name}", "named")
    add("/hooks/files/{name:path}", "files")
    yield AsgiCall(app)


# ── Litestar ──────────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def litestar_app(stage: Stage) -> Iterator[Call]:
    guards: list[Any] = [hookline.receive.litestar.verified(VERIFIER)] if stage.guard == "handler" else []

    def route(address: str, name: str) -> Any:
        async def handler() -> str:
            stage.effects[name] += 1
            return "done"

        methods: list[Any] = [method for method in METHODS if method not in ("HEAD", "OPTIONS")]
        return litestar.route(address, http_method=methods, status_code=200, middleware=guards)(handler)

    async def mounted(scope: Any, receive: Any, send: Any) -> None:
        stage.effects["mounted"] += 1
        await PlainTextResponse("done")(scope, receive, send)

    mounted.__annotations__ = {
        "scope": litestar.types.Scope,
        "receive": litestar.types.Receive,
        "send": litestar.types.Send,
    }
    mounted.__annotations__["return"] = None
    handlers = [
        *(route(address, address) for address in ("/hooks", "/hooks/fixed", "/hooks/slash/")),
        route("/hooks/named/{name:str}", "named"),
        route("/hooks/files/{name:path}", "files"),
        litestar_asgi("/hooks/mounted", is_mount=True, middleware=guards, copy_scope=True)(mounted),
    ]
    store = AsyncSqliteKeys(stage.keys_file)
    whole = [DefineMiddleware(IdempotencyMiddleware, store=store, settings=SETTINGS)]
    yield AsgiCall(
        litestar.Litestar(
            handlers, middleware=whole if stage.guard == "middleware" else [], openapi_config=None, logging_config=None
        )
    )


# ── Flask ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def flask_app(stage: Stage) -> Iterator[Call]:
    app = flask.Flask("guarded")

    def add(address: str, name: str, **options: Any) -> None:
        def view(**_: Any) -> str:
            stage.effects[name] += 1
            return "done"

        def verified(webhook: Webhook, **_: Any) -> str:
            return view()

        guarded = hookline.receive.flask.verified(VERIFIER)(verified) if stage.guard == "handler" else view
        app.add_url_rule(address, address, guarded, methods=METHODS, provide_automatic_options=False, **options)

    add("/hooks", "/hooks")
    add("/hooks/fixed", "/hooks/fixed", merge_slashes=False)
    add("/hooks/slash/", "/hooks/slash/", strict_slashes=False)
    add("/hooks/named/<name>", "named")
    add("/hooks/files/<path:name>", "files", merge_slashes=False)
    if stage.guard == "middleware":
        app.wsgi_app = WsgiMiddleware(app.wsgi_app, SqliteKeys(stage.keys_file), SETTINGS)  # type: ignore[method-assign]
    yield WsgiCall(app)


# ── Django ────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Urls:
    """An object that Django uses in place of a URL module."""

    def __init__(self, view: Callable[[str], Any]) -> None:
        self.urlpatterns = [
            re_path(r"^hooks$", view("/hooks")),
            path("hooks/fixed", view("/hooks/fixed")),
            re_path(r"(?i)^hooks/slash/?$", view("/hooks/slash/")),
            path("hooks/named/<str:name>", view("named")),
            re_path(r"^hooks/files", view("files")),
        ]


def _django_view(stage: Stage, name: str, *, is_async: bool) -> Any:
    def view(request: HttpRequest, **_: Any) -> HttpResponse:
        stage.effects[name] += 1
        return HttpResponse("done")

    async def async_view(request: HttpRequest, **_: Any) -> HttpResponse:
        return view(request)

    def verified(request: HttpRequest, webhook: Webhook, **_: Any) -> HttpResponse:
        return view(request)

    async def async_verified(request: HttpRequest, webhook: Webhook, **_: Any) -> HttpResponse:
        return view(request)

    if stage.guard == "handler":
        return hookline.receive.django.verified(VERIFIER)(async_verified if is_async else verified)
    return async_view if is_async else view


@contextmanager
def _django_project(stage: Stage, *, is_async: bool) -> Iterator[None]:
    keys = {"STORE": SqliteKeys(stage.keys_file), "ASYNC_STORE": AsyncSqliteKeys(stage.keys_file)}
    guarded = stage.guard == "middleware"
    with override_settings(
        ROOT_URLCONF=_Urls(lambda name: _django_view(stage, name, is_async=is_async)),
        MIDDLEWARE=["hookline.receive.idempotency.django.IdempotencyMiddleware"] if guarded else [],
        HOOKLINE_IDEMPOTENCY={**keys, "VERIFIER": VERIFIER, "ONLY": ["/hooks"]},
        ALLOWED_HOSTS=["*"],
        LOGGING_CONFIG=None,
    ):
        yield


@contextmanager
def django_wsgi_app(stage: Stage) -> Iterator[Call]:
    with _django_project(stage, is_async=False):
        yield WsgiCall(get_wsgi_application())


@contextmanager
def django_asgi_app(stage: Stage) -> Iterator[Call]:
    with _django_project(stage, is_async=True):
        yield AsgiCall(get_asgi_application())


APPS = {
    "starlette": starlette_app,
    "fastapi": fastapi_app,
    "litestar": litestar_app,
    "flask": flask_app,
    "django-wsgi": django_wsgi_app,
    "django-asgi": django_asgi_app,
}
