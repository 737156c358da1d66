"""The API reference at `/docs`. The server renders it once. It works without scripts and without internet access."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from importlib import resources

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from hookline.api.docs.page import Reference
from hookline.api.openapi import describe

# The page may load only the style sheet and the script of this server.
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}

_FILES = {"docs.css": "text/css", "docs.js": "text/javascript"}


def routes() -> list[BaseRoute]:
    return [
        Route("/docs", show, methods=["GET"]),
        *(Route(f"/docs/{name}", _file(name, kind), methods=["GET"]) for name, kind in _FILES.items()),
    ]


async def show(_request: Request) -> Response:
    return Response(rendered(), media_type="text/html", headers=HEADERS)


def _file(name: str, kind: str) -> Callable[[Request], Awaitable[Response]]:
    content = resources.files("hookline.api").joinpath("docs", "static", name).read_bytes()

    async def give(_request: Request) -> Response:
        return Response(content, media_type=kind, headers=HEADERS)

    return give


@functools.cache
def rendered() -> bytes:
    return Reference(msgspec.json.decode(describe([]))).page().encode()
