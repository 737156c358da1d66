"""A typed path parameter can spell one value in several ways. All spellings have the same idempotency key."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any
from uuid import UUID

import fastapi
import flask
import litestar
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from hookline.receive.idempotency import IdempotencySettings
from hookline.receive.idempotency.asgi import IdempotencyMiddleware
from hookline.receive.idempotency.wsgi import IdempotencyMiddleware as WsgiMiddleware
from hookline.receive.stores.sqlite import AsyncSqliteKeys, SqliteKeys
from tests.receive import senders
from tests.receive.guarded_apps import VERIFIER
from tests.receive.web import Server, asgi_server, wsgi_server

SETTINGS = IdempotencySettings(verifier=VERIFIER)
TENANT = "123e4567-e89b-12d3-a456-426614174000"

NUMBERS = ["7", "07", "007", "+7", "7.0", "7.00", "0_7", "%207", "%2b07", "7e0", "%D9%A7", "0" * 31 + "7"]
FRACTIONS = ["0.5", ".5", "0.50", "5e-1", "+0.5", "0.500000000000000000000001"]
UUIDS = [TENANT, TENANT.replace("-", ""), f"%7b{TENANT}%7d", f"urn:uuid:{TENANT}", TENANT.upper()]

Effects = Counter[Any]


def fastapi_app(effects: Effects, keys_file: str) -> Any:
    app = fastapi.FastAPI()

    @app.post("/numbers/{value}")
    async def number(value: int) -> None:
        effects[value] += 1

    @app.post("/fractions/{value}")
    async def fraction(value: float) -> None:
        effects[value] += 1

    @app.post("/uuids/{value}")
    async def tenant(value: UUID) -> None:
        effects[value] += 1

    return IdempotencyMiddleware(app, AsyncSqliteKeys(keys_file), SETTINGS)


def starlette_app(effects: Effects, keys_file: str) -> Any:
    async def hook(request: Request) -> Response:
        effects[request.path_params["value"]] += 1
        return PlainTextResponse("done")

    kinds = {"numbers": "int", "fractions": "float", "uuids": "uuid"}
    app = Starlette(routes=[Route(f"/{at}/{{value:{kind}}}", hook, methods=["POST"]) for at, kind in kinds.items()])
    return IdempotencyMiddleware(app, AsyncSqliteKeys(keys_file), SETTINGS)


def litestar_app(effects: Effects, keys_file: str) -> Any:
    @litestar.post(["/numbers/{value:int}", "/fractions/{value:float}", "/uuids/{value:uuid}"])
    async def hook(request: litestar.Request[Any, Any, Any]) -> None:
        effects[request.path_params["value"]] += 1

    app = litestar.Litestar([hook], openapi_config=None, logging_config=None)
    return IdempotencyMiddleware(app, AsyncSqliteKeys(keys_file), SETTINGS)  # type: ignore[arg-type]


def flask_app(effects: Effects, keys_file: str) -> Any:
    app = flask.Flask("typed")

    @app.post("/numbers/<int:value>")
    @app.post("/fractions/<float:value>")
    @app.post("/uuids/<uuid:value>")
    def hook(value: Any) -> str:
        effects[value] += 1
        return "done"

    return WsgiMiddleware(app, SqliteKeys(keys_file), SETTINGS)


Serving = Callable[[Any], AbstractContextManager[Server]]

SERVERS: dict[str, tuple[Serving, Callable[[Effects, str], Any]]] = {
    "fastapi": (asgi_server, fastapi_app),
    "starlette": (asgi_server, starlette_app),
    "litestar": (asgi_server, litestar_app),
    "flask": (wsgi_server, flask_app),
}


@pytest.fixture
def effects() -> Effects:
    """Counts how often a handler ran for each value."""
    return Counter()


@pytest.fixture(params=list(SERVERS))
def server(request: pytest.FixtureRequest, effects: Effects, keys_file: str) -> Iterator[Server]:
    serving, app = SERVERS[request.param]
    with serving(app(effects, keys_file)) as server:
        yield server


def test_one_value_has_one_key_however_it_is_spelled(server: Server, effects: Effects) -> None:
    headers = senders.standard(senders.WHSEC, b"{}", str(int(time.time()))).headers.items()
    for kind, spellings in (("numbers", NUMBERS), ("fractions", FRACTIONS), ("uuids", UUIDS)):
        statuses = [server.send("POST", f"/{kind}/{spelling}", headers, b"{}").status for spelling in spellings]
        assert statuses[0] < 300
        assert set(statuses[1:]) <= {404, 422, 200, 201}
    assert effects == {7: 1, 0.5: 1, UUID(TENANT): 1}


def test_other_values_have_their_own_keys(server: Server, effects: Effects) -> None:
    headers = senders.standard(senders.WHSEC, b"{}", str(int(time.time()))).headers.items()
    paths = ["/numbers/7", "/numbers/70", "/numbers/9007199254740992", "/numbers/9007199254740993", "/fractions/0.7"]
    for path in paths:
        assert server.send("POST", path, headers, b"{}").status < 300
    assert effects.total() == len(paths)
