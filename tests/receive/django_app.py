"""The test application on Django. It is a module because Django finds its URLs and its middleware by name."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Iterator
from typing import Any

from django.http import FileResponse, HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

from hookline.receive.idempotency import IdempotencySettings
from hookline.receive.idempotency.django import IdempotencyMiddleware
from tests.receive.desk import BINARY, LARGE, Desk, Oops

desk = Desk()  # Each test replaces this object.
keys: Any = None
async_keys: Any = None


def own_scope(request: Any) -> str:
    tenant: str = request.native.headers.get("x-tenant", "")
    return tenant


class FormMiddleware(IdempotencyMiddleware):
    """A subclass with its own settings."""

    options = IdempotencySettings(only=["/form"], required=True)

    def __init__(self, get_response: Any) -> None:
        type(self).store, type(self).async_store = keys, async_keys
        super().__init__(get_response)


@csrf_exempt
def pay(request: HttpRequest) -> HttpResponse:
    response = JsonResponse({"n": desk.done(request.body)}, status=desk.next_status())
    desk.webhooks.append(getattr(request, "hookline_webhook", None))
    response["x-plain"] = "1"
    response.set_cookie("a", "1", httponly=True)
    response.set_cookie("b", "2")
    return response


@csrf_exempt
def binary(request: HttpRequest) -> HttpResponse:
    desk.done(request.body)
    return HttpResponse(BINARY, "application/octet-stream", 201)


@csrf_exempt
def slow(request: HttpRequest) -> HttpResponse:
    desk.wait()
    return JsonResponse({"n": desk.done(request.body)})


@csrf_exempt
async def async_slow(request: HttpRequest) -> HttpResponse:
    desk.entered.release()
    while not desk.go.is_set():
        await asyncio.sleep(0.01)  # The event belongs to another thread.
    return JsonResponse({"n": desk.done(request.body)})


@csrf_exempt
def fails(request: HttpRequest) -> HttpResponse:
    desk.done(b"")
    raise Oops


@csrf_exempt
def stream(request: HttpRequest) -> StreamingHttpResponse:
    desk.done(b"")
    return StreamingHttpResponse(_chunks(int(request.GET["size"])), content_type="text/csv")


@csrf_exempt
async def async_stream(request: HttpRequest) -> StreamingHttpResponse:
    desk.done(b"")
    return StreamingHttpResponse(_async_chunks(int(request.GET["size"])), content_type="text/csv")


@csrf_exempt
def file(request: HttpRequest) -> FileResponse:
    desk.done(b"")
    return FileResponse(io.BytesIO(LARGE), filename="large.csv")


def form(request: HttpRequest) -> HttpResponse:
    return HttpResponse(f"{desk.done(request.body)} {request.POST['order']}")


def _chunks(size: int) -> Iterator[bytes]:
    try:
        for at in range(0, size, 1000):
            yield LARGE[at : min(at + 1000, size)]
            if at == 0:
                desk.entered.release()
    finally:
        desk.closed.set()


async def _async_chunks(size: int) -> AsyncIterator[bytes]:
    for chunk in _chunks(size):
        yield chunk


urlpatterns = [
    path(view.__name__, view) for view in (pay, binary, slow, async_slow, fails, stream, async_stream, file, form)
]
