"""An endpoint that calls your own application in this process: WSGI, ASGI, or Django's test client."""

from __future__ import annotations

import asyncio
import inspect
import io
import sys
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit
from wsgiref.util import setup_testing_defaults

from hookline.errors import InvalidInput
from hookline.model.endpoints import Scheme
from hookline.outbox.coroutines import settled
from hookline.testing.delivery import Answer, BaseEndpoint, Request

_HOST = "testserver"


class AppEndpoint(BaseEndpoint):
    """An endpoint that calls your application with each webhook, in this process and without a server.

    `app` is a WSGI or ASGI application (Flask, FastAPI, Starlette, Django and others), or Django's test client. The
    webhook is a POST to `path`. `secret` is the secret that the application verifies with. The lifespan of an ASGI
    application is not run.
    """

    def __init__(self, app: Any, path: str = "/", *, secret: str, scheme: Scheme | str = Scheme.STANDARD) -> None:
        if not path.startswith("/"):
            raise InvalidInput("a path must begin with /")
        super().__init__(secret, scheme)
        self.path = path
        self._app = app

    def send(self, request: Request) -> Answer:
        if _is_django_client(self._app):
            return _of_django(_run(self._call_django(request)))
        if _is_async(self._app):
            answer: Answer = _run(_call_asgi(self._app, self.path, request))
            return answer
        return _call_wsgi(self._app, self.path, request)

    async def send_async(self, request: Request) -> Answer:
        if _is_django_client(self._app):
            return _of_django(await settled(self._call_django(request)))
        if _is_async(self._app):
            return await _call_asgi(self._app, self.path, request)
        return await asyncio.to_thread(_call_wsgi, self._app, self.path, request)

    def _call_django(self, request: Request) -> Any:
        headers = dict(request.headers)
        kind = headers.pop("Content-Type", "application/json")
        return self._app.generic("POST", self.path, request.body, content_type=kind, headers=headers)


def _run(value: Any) -> Any:
    """Return the value. If it is awaitable, run it in an event loop first."""
    if not inspect.isawaitable(value):
        return value
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(settled(value))
    if inspect.iscoroutine(value):
        value.close()
    raise RuntimeError("this test runs in an event loop: use deliver_async for an async application")


def _is_django_client(app: Any) -> bool:
    return any(kind.__module__ == "django.test.client" for kind in type(app).__mro__)


def _is_async(app: Any) -> bool:
    """Return whether an application is ASGI: a coroutine function, or an object whose `__call__` is one."""
    call = app if inspect.isroutine(app) else getattr(app, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(call)


def _of_django(response: Any) -> Answer:
    headers = {name.lower(): value for name, value in response.items()}
    body = response.getvalue() if hasattr(response, "getvalue") else response.content
    return Answer(status=response.status_code, headers=headers, body=body)


# ── WSGI ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _call_wsgi(app: Any, path: str, request: Request) -> Answer:
    started: list[Any] = []

    def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
        if exc_info is not None and started:
            raise exc_info[1].with_traceback(exc_info[2])
        started[:] = [status, headers]
        return written.append

    written: list[bytes] = []
    parts = app(_environ(path, request), start_response)
    try:
        written.extend(parts)  # some applications call start_response only now
    finally:
        if hasattr(parts, "close"):
            parts.close()
    status, headers = started
    received = {name.lower(): value for name, value in headers}
    return Answer(status=int(status.split(" ", 1)[0]), headers=received, body=b"".join(written))


def _environ(path: str, request: Request) -> dict[str, Any]:
    target = urlsplit(path)
    environ: dict[str, Any] = {
        "REQUEST_METHOD": "POST",
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(target.path).decode("latin-1"),
        "QUERY_STRING": target.query,
        "CONTENT_LENGTH": str(len(request.body)),
        "SERVER_NAME": _HOST,
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "wsgi.input": io.BytesIO(request.body),
        "wsgi.errors": sys.stderr,
    }
    setup_testing_defaults(environ)
    for name, value in request.headers.items():
        key = name.upper().replace("-", "_")
        environ["CONTENT_TYPE" if key == "CONTENT_TYPE" else f"HTTP_{key}"] = value
    return environ


# ── ASGI ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def _call_asgi(app: Any, path: str, request: Request) -> Answer:
    status, headers, body = 0, {}, bytearray()
    ended = asyncio.Event()
    asked = False

    async def receive() -> dict[str, Any]:
        nonlocal asked
        if asked:
            await ended.wait()  # the client stays connected until it has the response
            return {"type": "http.disconnect"}
        asked = True
        return {"type": "http.request", "body": request.body, "more_body": False}

    async def send(event: dict[str, Any]) -> None:
        nonlocal status, headers
        if event["type"] == "http.response.start":
            status = event["status"]
            headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in event["headers"]}
        elif event["type"] == "http.response.body":
            body.extend(event.get("body", b""))
            if not event.get("more_body", False):
                ended.set()

    await app(_scope(path, request), receive, send)
    if not ended.is_set():
        raise RuntimeError("the application ended without a complete response")
    return Answer(status=status, headers=headers, body=bytes(body))


def _scope(path: str, request: Request) -> dict[str, Any]:
    target = urlsplit(path)
    headers = {"host": _HOST, "content-length": str(len(request.body)), **request.headers}
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": unquote_to_bytes(target.path).decode(errors="replace"),
        "raw_path": target.path.encode(),
        "query_string": target.query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()],
        "client": ("127.0.0.1", 50000),
        "server": (_HOST, 80),
        "state": {},
    }
