"""The test application on Starlette, FastAPI and Litestar: the same routes, written in the usual way of each framework."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

import fastapi
import litestar
import litestar.params
import starlette.applications
import starlette.responses
import starlette.routing
from litestar.middleware import DefineMiddleware
from pydantic import BaseModel
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response

from hookline.receive.idempotency import AsyncKeyStore, IdempotencySettings
from hookline.receive.idempotency.asgi import IdempotencyMiddleware
from tests.receive.desk import BINARY, HEADERS, LARGE, Desk, Oops

LitestarRequest = litestar.Request[Any, Any, Any]
RAW_HEADERS = [(name.encode(), value.encode()) for name, value in HEADERS]


async def waiting(desk: Desk) -> None:
    desk.entered.release()
    while not desk.go.is_set():
        await asyncio.sleep(0.01)  # The event belongs to another thread.


def starlette_app(desk: Desk, store: AsyncKeyStore, settings: IdempotencySettings) -> Any:
    async def pay(request: Request) -> Response:
        n = desk.done(await request.body())
        desk.webhooks.append(getattr(request.state, "hookline_webhook", None))
        response = starlette.responses.JSONResponse({"n": n}, desk.next_status())
        response.raw_headers.extend(RAW_HEADERS)
        return response

    def sync_pay(request: Request) -> Response:
        desk.wait()
        return starlette.responses.PlainTextResponse(str(desk.done(b"")))

    async def binary(request: Request) -> Response:
        desk.done(await request.body())
        return Response(BINARY, 201, media_type="application/octet-stream")

    async def empty(request: Request) -> Response:
        desk.done(b"")
        return Response(status_code=204)

    async def slow(request: Request) -> Response:
        await waiting(desk)
        return starlette.responses.JSONResponse({"n": desk.done(await request.body())})

    async def fails(request: Request) -> Response:
        desk.done(await request.body())
        raise Oops

    async def stream(request: Request) -> Response:
        desk.done(await request.body())
        return starlette.responses.StreamingResponse(_chunks(int(request.query_params["size"])), media_type="text/csv")

    routes = [
        starlette.routing.Route(f"/{view.__name__}", view, methods=["GET", "POST", "PUT", "DELETE"])
        for view in (pay, sync_pay, binary, empty, slow, fails, stream)
    ]
    middleware = [Middleware(IdempotencyMiddleware, store=store, settings=settings)]
    return starlette.applications.Starlette(routes=routes, middleware=middleware)


async def _chunks(size: int) -> AsyncIterator[bytes]:
    for at in range(0, size, 1000):
        yield LARGE[at : min(at + 1000, size)]


class Order(BaseModel):
    model_config = {"extra": "allow"}


def fastapi_app(desk: Desk, store: AsyncKeyStore, settings: IdempotencySettings) -> Any:
    app = fastapi.FastAPI()
    app.add_middleware(IdempotencyMiddleware, store=store, settings=settings)

    @app.api_route("/pay", methods=["GET", "POST", "PUT", "DELETE"])
    async def pay(request: fastapi.Request, response: fastapi.Response) -> dict[str, int]:
        n = desk.done(await request.body())
        desk.webhooks.append(getattr(request.state, "hookline_webhook", None))
        response.status_code = desk.next_status()
        response.raw_headers.extend(RAW_HEADERS)
        return {"n": n}

    @app.post("/sync_pay")
    def sync_pay(order: Order) -> int:
        desk.wait()
        return desk.done(b"")

    @app.post("/binary", status_code=201)
    async def binary(request: fastapi.Request) -> fastapi.Response:
        desk.done(await request.body())
        return fastapi.Response(BINARY, 201, media_type="application/octet-stream")

    @app.post("/empty", status_code=204)
    async def empty() -> None:
        desk.done(b"")

    @app.post("/slow")
    async def slow(order: Order) -> dict[str, int]:
        await waiting(desk)
        return {"n": desk.done(order.model_dump_json().encode())}

    @app.post("/fails")
    async def fails(order: Order) -> None:
        desk.done(b"")
        raise Oops

    @app.post("/stream")
    async def stream(size: int) -> fastapi.responses.StreamingResponse:
        desk.done(b"")
        return fastapi.responses.StreamingResponse(_chunks(size), media_type="text/csv")

    return app


def litestar_app(desk: Desk, store: AsyncKeyStore, settings: IdempotencySettings) -> Any:
    @litestar.route("/pay", http_method=["GET", "POST", "PUT", "DELETE"], status_code=200)
    async def pay(request: LitestarRequest) -> litestar.Response[Any]:
        n = desk.done(await request.body())
        desk.webhooks.append(request.state.get("hookline_webhook"))
        response = litestar.Response({"n": n}, status_code=desk.next_status(), headers={"x-plain": "1"})
        response.set_cookie("a", "1")
        return response

    @litestar.post("/sync_pay", sync_to_thread=True, status_code=200)
    def sync_pay() -> str:
        desk.wait()
        return str(desk.done(b""))

    @litestar.post("/binary", media_type="application/octet-stream")
    async def binary(request: LitestarRequest) -> bytes:
        desk.done(await request.body())
        return BINARY

    @litestar.post("/empty", status_code=204)
    async def empty() -> None:
        desk.done(b"")

    @litestar.post("/slow", status_code=200)
    async def slow(request: LitestarRequest) -> dict[str, int]:
        await waiting(desk)
        return {"n": desk.done(await request.body())}

    @litestar.post("/fails")
    async def fails() -> None:
        desk.done(b"")
        raise Oops

    @litestar.post("/stream", status_code=200)
    async def stream(size: Annotated[int, litestar.params.Parameter()]) -> litestar.response.Stream:
        desk.done(b"")
        return litestar.response.Stream(_chunks(size), media_type="text/csv")

    return litestar.Litestar(
        [pay, sync_pay, binary, empty, slow, fails, stream],
        middleware=[DefineMiddleware(IdempotencyMiddleware, store=store, settings=settings)],
        openapi_config=None,
    )


APPS = {"starlette": starlette_app, "fastapi": fastapi_app, "litestar": litestar_app}
