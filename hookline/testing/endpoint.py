"""Endpoints that are called by HTTP: a fake one on this machine, or any URL."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import urlsplit

from msgspec import Struct

from hookline import clock
from hookline.errors import InvalidInput, SignatureError
from hookline.model.endpoints import Scheme, Secret
from hookline.signing import new_secret, verify
from hookline.testing.delivery import Answer, BaseEndpoint, Request

_TIMEOUT = 30.0  # seconds to wait for the other side of a connection


class Received(Struct, frozen=True, kw_only=True):
    """A request that the endpoint received."""

    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes
    fault: str | None  # why the signature is invalid; None if it is valid
    status: int  # status of the response

    @property
    def verified(self) -> bool:
        return self.fault is None

    @property
    def webhook_id(self) -> str:
        return self.headers.get("webhook-id", "")

    @property
    def event_type(self) -> str:
        return self.headers.get("webhook-event-type", "")

    @property
    def attempt(self) -> int:
        return int(self.headers.get("webhook-attempt", "1"))

    def json(self) -> Any:
        return json.loads(self.body)


class _HttpEndpoint(BaseEndpoint, ABC):
    @abstractmethod
    def send(self, request: Request) -> Answer: ...

    async def send_async(self, request: Request) -> Answer:
        return await asyncio.to_thread(self.send, request)


class UrlEndpoint(_HttpEndpoint):
    """A server that already runs, such as that of Django's `LiveServerTestCase`."""

    def __init__(self, url: str, *, secret: str, scheme: Scheme | str = Scheme.STANDARD) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidInput("the URL of an endpoint must begin with http:// or https://")
        super().__init__(secret, scheme)
        self.url = url

    def send(self, request: Request) -> Answer:
        parts = urlsplit(self.url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=_TIMEOUT)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        try:
            connection.putrequest("POST", target, skip_accept_encoding=True)  # Hookline does not send Accept-Encoding
            for name, value in [*request.headers.items(), ("Content-Length", str(len(request.body)))]:
                connection.putheader(name, value)
            connection.endheaders(request.body)
            response = connection.getresponse()
            headers = {name.lower(): value for name, value in response.getheaders()}
            return Answer(status=response.status, headers=headers, body=response.read())
        finally:
            connection.close()


class FakeEndpoint(_HttpEndpoint):
    """A real HTTP server on a port of this machine, in a thread. It verifies and records each request, and answers it.

        with FakeEndpoint() as endpoint:
            endpoint.answer_next(500)
            deliver(events, endpoint)

    A request with an invalid signature gets 401 and is recorded with its `fault`.
    """

    def __init__(self, *, secret: str | None = None, scheme: Scheme | str = Scheme.STANDARD, status: int = 204) -> None:
        super().__init__(new_secret() if secret is None else secret, scheme)
        self._usual = Answer(status=_checked(status))
        self._next: deque[Answer] = deque()
        self._received: list[Received] = []
        self._changed = threading.Condition()
        self._server: _Server | None = None

    @property
    def url(self) -> str:
        if self._server is None:
            raise RuntimeError("the endpoint is not open: use it as a context manager")
        return f"http://127.0.0.1:{self._server.server_address[1]}/"

    @property
    def requests(self) -> list[Received]:
        """All received requests, in order."""
        with self._changed:
            return list(self._received)

    def answer(self, status: int, *, body: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        """Set the response to all following requests."""
        with self._changed:
            self._usual = Answer(status=_checked(status), headers=dict(headers or {}), body=body)

    def answer_next(
        self, status: int, *, body: bytes = b"", headers: Mapping[str, str] | None = None, times: int = 1
    ) -> None:
        """Set the response to the next valid request, or to the next `times` of them."""
        answer = Answer(status=_checked(status), headers=dict(headers or {}), body=body)
        with self._changed:
            self._next.extend([answer] * times)

    def wait(self, count: int, *, timeout: float = 10.0) -> list[Received]:
        """Wait until `count` requests have arrived. For tests in which Hookline itself sends them."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._received) >= count, timeout):
                raise AssertionError(f"{len(self._received)} of {count} requests came within {timeout:g} seconds")
            return list(self._received)

    def clear(self) -> None:
        """Delete the recorded requests and the responses that `answer_next` set."""
        with self._changed:
            self._received.clear()
            self._next.clear()

    def send(self, request: Request) -> Answer:
        return UrlEndpoint(self.url, secret=self.secret, scheme=self.scheme).send(request)

    def open(self) -> Self:
        if self._server is None:
            self._server = _Server(self)
            threading.Thread(
                target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, name="hookline-endpoint", daemon=True
            ).start()
        return self

    def close(self) -> None:
        if self._server is not None:
            self._server.shutdown()  # waits until the thread has left its loop
            self._server.hang_up()
            self._server.server_close()
            self._server = None

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    def take(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        """Verify and record one request. Return the response."""
        fault = self._fault(headers, body)
        with self._changed:
            answer = Answer(status=401, body=fault.encode()) if fault is not None else self._chosen()
            self._received.append(
                Received(method=method, path=path, headers=headers, body=body, fault=fault, status=answer.status)
            )
            self._changed.notify_all()
        return answer

    def _chosen(self) -> Answer:
        return self._next.popleft() if self._next else self._usual

    def _fault(self, headers: Mapping[str, str], body: bytes) -> str | None:
        try:
            verify(self.scheme, [Secret(key=self.secret)], headers, body, clock.wall())
        except SignatureError as fault:
            return str(fault)
        return None


def _checked(status: int) -> int:
    if not isinstance(status, int) or not 200 <= status <= 599:
        raise InvalidInput("give a status from 200 to 599")
    return status


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, endpoint: FakeEndpoint) -> None:
        self.endpoint = endpoint
        self._connections: set[Any] = set()
        super().__init__(("127.0.0.1", 0), _Handler)

    def get_request(self) -> tuple[Any, Any]:
        connection, address = super().get_request()
        self._connections.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        """Close the connections of clients that keep them open. A closed endpoint must not answer."""
        for connection in list(self._connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing when a client closes its connection: a traceback would disturb the output of the test."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _TIMEOUT
    server: _Server

    def _answer(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        size = headers.get("content-length", "0")
        self.close_connection |= "transfer-encoding" in headers  # because a chunked body is not read
        body = self.rfile.read(int(size)) if size.isdecimal() else b""
        self._write(self.server.endpoint.take(self.command, self.path, headers, body))

    def _write(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.status not in (204, 304):
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if answer.status not in (204, 304) and self.command != "HEAD":
            self.wfile.write(answer.body)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Print nothing: the requests are recorded."""
