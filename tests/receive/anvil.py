"""One process that serves every framework, with the middleware on every store, for tests with many concurrent requests:

    python -m tests.receive.anvil FILE POSTGRES REDIS EFFECTS

It prints the port of each framework as JSON, and serves `POST /sqlite`, `/postgres` and `/redis` until its input ends.
Each call of a handler adds a line to EFFECTS. Only the middleware prevents a second line for the same key.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import socket
import sys
import threading
import time
from typing import Any, Literal

import asyncpg
import fastapi
import flask
import litestar
import psycopg
import redis
import redis.asyncio
import starlette.applications
import starlette.requests
import starlette.responses
import starlette.routing
import uvicorn
from litestar.middleware import DefineMiddleware
from starlette.middleware import Middleware
from werkzeug.serving import WSGIRequestHandler, make_server

from hookline.receive.idempotency import AsyncKeyStore, IdempotencySettings, KeyStore, asgi, wsgi
from hookline.receive.stores.postgres import AsyncPostgresKeys, PostgresKeys
from hookline.receive.stores.redis import AsyncRedisKeys, RedisKeys
from hookline.receive.stores.sqlite import AsyncSqliteKeys, SqliteKeys

WORK = 0.004  # seconds before and after the effect, so that other copies arrive meanwhile


class Book:
    """A file with one line for each effect."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def charge(self, key: str) -> str:
        number = secrets.token_hex(8)
        # One write for each line, so that the lines of several processes do not mix.
        os.write(self._file, f"{key} {number}\n".encode())
        return number


def settings(store: str) -> IdempotencySettings:
    return IdempotencySettings(only=[f"/{store}"], required=True)


# ── ASGI ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def work_async(book: Book, key: str) -> dict[str, str]:
    await asyncio.sleep(WORK)
    number = book.charge(key)
    await asyncio.sleep(WORK)
    return {"charge": number}


def starlette_app(book: Book, stores: dict[str, AsyncKeyStore]) -> Any:
    async def pay(request: starlette.requests.Request) -> starlette.responses.Response:
        return starlette.responses.JSONResponse(await work_async(book, request.headers["idempotency-key"]))

    return starlette.applications.Starlette(
        routes=[starlette.routing.Route(f"/{name}", pay, methods=["POST"]) for name in stores],
        middleware=[
            Middleware(asgi.IdempotencyMiddleware, store=store, settings=settings(name))
            for name, store in stores.items()
        ],
    )


def fastapi_app(book: Book, stores: dict[str, AsyncKeyStore]) -> Any:
    app = fastapi.FastAPI()
    for name, store in stores.items():
        app.add_middleware(asgi.IdempotencyMiddleware, store=store, settings=settings(name))

    @app.post("/{store}")
    async def pay(store: str, order: dict[str, str], request: fastapi.Request) -> dict[str, str]:
        return await work_async(book, request.headers["idempotency-key"])

    return app


def litestar_app(book: Book, stores: dict[str, AsyncKeyStore]) -> Any:
    @litestar.post("/{store:str}", status_code=200)
    async def pay(store: str, data: dict[str, str], request: litestar.Request[Any, Any, Any]) -> dict[str, str]:
        return await work_async(book, request.headers["idempotency-key"])

    return litestar.Litestar(
        [pay],
        middleware=[
            DefineMiddleware(asgi.IdempotencyMiddleware, store=store, settings=settings(name))
            for name, store in stores.items()
        ],
        openapi_config=None,
    )


# ── WSGI ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def work(book: Book, key: str) -> dict[str, str]:
    time.sleep(WORK)
    number = book.charge(key)
    time.sleep(WORK)
    return {"charge": number}


def flask_app(book: Book, stores: dict[str, KeyStore]) -> Any:
    app = flask.Flask("anvil")

    @app.post("/<store>")
    def pay(store: str) -> dict[str, str]:
        return work(book, flask.request.headers["idempotency-key"])

    for name, store in stores.items():
        app.wsgi_app = wsgi.IdempotencyMiddleware(app.wsgi_app, store, settings(name))  # type: ignore[method-assign]
    return app


def configure_django(book: Book, stores: dict[str, KeyStore], async_stores: dict[str, AsyncKeyStore]) -> None:
    """Configure one project for both servers. Django finds its middleware and its URLs by name in this module."""
    import django
    from django.conf import settings as django_settings
    from django.http import HttpRequest, JsonResponse
    from django.urls import path

    from hookline.receive.idempotency.django import IdempotencyMiddleware

    here = sys.modules[__name__]

    def pay(request: HttpRequest, store: str) -> JsonResponse:
        return JsonResponse(work(book, request.headers["idempotency-key"]))

    names = []
    for name, store in stores.items():
        names.append(f"{name.title()}Middleware")
        own = {"store": store, "async_store": async_stores[name], "options": settings(name)}
        setattr(here, names[-1], type(names[-1], (IdempotencyMiddleware,), own))
    here.urlpatterns = [path("<store>", pay)]  # type: ignore[attr-defined]
    django_settings.configure(
        ROOT_URLCONF=__name__,
        MIDDLEWARE=["django.middleware.common.CommonMiddleware", *(f"{__name__}.{name}" for name in names)],
        SECRET_KEY=secrets.token_hex(32),
        ALLOWED_HOSTS=["*"],
    )
    django.setup()
    logging.getLogger("django.request").setLevel(logging.ERROR)  # Django would log a line for each answer 409.


# ── serving ───────────────────────────────────────────────────────────────────────────────────────────────────────


SERVING: set[asyncio.Task[None]] = set()  # The event loop keeps only weak references to tasks.


class Quiet(WSGIRequestHandler):
    def log(self, *_: Any, **__: Any) -> None:
        pass


def serve_wsgi(app: Any) -> int:
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return int(server.port)


def serve_asgi(app: Any, lifespan: Literal["auto", "off"] = "auto") -> int:
    listening = socket.create_server(("127.0.0.1", 0), backlog=100)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none", lifespan=lifespan))
    SERVING.add(asyncio.create_task(server.serve([listening])))
    return int(listening.getsockname()[1])


async def main(file: str, postgres: str, redis_url: str, effects: str) -> None:
    from django.core.asgi import get_asgi_application
    from django.core.wsgi import get_wsgi_application

    book = Book(effects)
    pool = await asyncpg.create_pool(postgres, min_size=1, max_size=8)
    stores: dict[str, KeyStore] = {
        "sqlite": SqliteKeys(file),
        "postgres": PostgresKeys(lambda: psycopg.connect(postgres)),
        "redis": RedisKeys(redis.Redis.from_url(redis_url)),
    }
    async_stores: dict[str, AsyncKeyStore] = {
        "sqlite": AsyncSqliteKeys(file),
        "postgres": AsyncPostgresKeys(pool),
        "redis": AsyncRedisKeys(redis.asyncio.Redis.from_url(redis_url)),
    }
    configure_django(book, stores, async_stores)
    ports = {
        "starlette": serve_asgi(starlette_app(book, async_stores)),
        "fastapi": serve_asgi(fastapi_app(book, async_stores)),
        "litestar": serve_asgi(litestar_app(book, async_stores)),
        "django-async": serve_asgi(get_asgi_application(), lifespan="off"),
        "flask": serve_wsgi(flask_app(book, stores)),
        "django": serve_wsgi(get_wsgi_application()),
    }
    print(json.dumps(ports), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    os._exit(0)  # Exit without waiting for open requests.


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
