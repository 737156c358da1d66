"""Real servers on loopback for the tests of the middleware, and a client that returns the raw bytes."""

from __future__ import annotations

import http.client
import logging
import socket
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

import uvicorn
from msgspec import json
from werkzeug.serving import WSGIRequestHandler, make_server

from hookline.receive.idempotency.keys import StoredResponse
from hookline.receive.stores.sqlite import AsyncSqliteKeys, SqliteKeys

Headers = Iterable[tuple[str, str]]

PATIENCE = 60.0  # seconds to wait for an expected event on a busy machine


class Reply(NamedTuple):
    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def all(self, name: str) -> list[str]:
        return [value for found, value in self.headers if found.lower() == name]

    def one(self, name: str) -> str:
        (value,) = self.all(name)
        return value

    @property
    def is_replay(self) -> bool:
        return self.all("idempotency-replayed") == ["true"]

    @property
    def code(self) -> str:
        """Check the form of a problem response and return its code."""
        assert self.one("content-type") == "application/problem+json"
        problem = json.decode(self.body)
        assert problem.keys() == {"type", "title", "status", "detail", "code"}
        assert problem["status"] == self.status
        found: str = problem["code"]
        return found


class Server(NamedTuple):
    port: int

    def call(
        self, path: str, key: str | None = None, body: bytes = b"{}", *, method: str = "POST", headers: Headers = ()
    ) -> Reply:
        named = [("Content-Type", "application/json"), *([] if key is None else [("Idempotency-Key", key)])]
        return self.send(method, path, [*named, *headers], body)

    def send(self, method: str, path: str, headers: Headers, body: bytes | Iterable[bytes]) -> Reply:
        """Send the request with exactly these headers, including repeated ones."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)) as connection:
            connection.putrequest(method, path)
            for name, value in headers:
                connection.putheader(name, value)
            if isinstance(body, bytes):
                connection.putheader("Content-Length", str(len(body)))
                connection.endheaders(body)
            else:
                connection.putheader("Transfer-Encoding", "chunked")
                connection.endheaders(body, encode_chunked=True)
            response = connection.getresponse()
            return Reply(response.status, response.getheaders(), response.read())

    def later(self, path: str, key: str | None = None, body: bytes = b"{}", *, headers: Headers = ()) -> Later:
        return Later(lambda: self.call(path, key, body, headers=headers))

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)


class Later:
    """A request that runs in its own thread."""

    def __init__(self, work: Any) -> None:
        self._result: Any = None
        self._thread = threading.Thread(target=self._run, args=(work,))
        self._thread.start()

    def _run(self, work: Any) -> None:
        try:
            self._result = work()
        except Exception as fault:
            self._result = fault

    def reply(self) -> Reply:
        self._thread.join(PATIENCE)
        assert isinstance(self._result, Reply), self._result
        return self._result


def read_replies(connection: socket.socket, count: int) -> list[Reply]:
    """Read `count` responses from one connection."""
    with connection.makefile("rb") as stream:
        return [_read_reply(stream) for _ in range(count)]


def _read_reply(stream: Any) -> Reply:
    status = int(stream.readline().split()[1])
    parsed = http.client.parse_headers(stream)
    return Reply(status, list(parsed.items()), stream.read(int(parsed["content-length"])))


# ── servers ───────────────────────────────────────────────────────────────────────────────────────────────────────


class _Uvicorn(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_up.set()


@contextmanager
def asgi_server(app: Any, **options: Any) -> Iterator[Server]:
    listening = socket.create_server(("127.0.0.1", 0))
    server = _Uvicorn(uvicorn.Config(app, log_level="critical", ws="none", **options))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        assert server.is_up.wait(PATIENCE)
        yield Server(listening.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        listening.close()


class _Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, *_: Any, **__: Any) -> None:
        pass


@contextmanager
def wsgi_server(app: Any) -> Iterator[Server]:
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=_Quiet)
    server.block_on_close = False  # A thread may still wait for a connection that the client keeps open.
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield Server(server.port)
    finally:
        server.shutdown()
        thread.join(PATIENCE)
        server.server_close()


# ── stores ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Watched:
    """Events that the tests wait for: keys were renewed, finished or released, or a lease was lost."""

    def __init__(self) -> None:
        self.renewed = threading.Semaphore(0)
        self.finished = threading.Semaphore(0)
        self.released = threading.Semaphore(0)
        self.lost = threading.Event()

    def note_renewal(self, held: bool) -> None:
        self.renewed.release()
        if not held:
            self.lost.set()


class Keys(SqliteKeys):
    def __init__(self, path: str, timeout: float = PATIENCE) -> None:
        super().__init__(path, timeout=timeout)
        self.seen = Watched()

    def renew(self, key: bytes, token: bytes, lease: float) -> bool:
        held = super().renew(key, token, lease)
        self.seen.note_renewal(held)
        return held

    def finish(self, key: bytes, token: bytes, response: StoredResponse, ttl: float) -> bool:
        done = super().finish(key, token, response, ttl)
        self.seen.finished.release()
        return done

    def release(self, key: bytes, token: bytes) -> None:
        super().release(key, token)
        self.seen.released.release()


class AsyncKeys(AsyncSqliteKeys):
    def __init__(self, path: str, timeout: float = PATIENCE) -> None:
        super().__init__(path, timeout=timeout)
        self.seen = Watched()

    async def renew(self, key: bytes, token: bytes, lease: float) -> bool:
        held = await super().renew(key, token, lease)
        self.seen.note_renewal(held)
        return held

    async def finish(self, key: bytes, token: bytes, response: StoredResponse, ttl: float) -> bool:
        done = await super().finish(key, token, response, ttl)
        self.seen.finished.release()
        return done

    async def release(self, key: bytes, token: bytes) -> None:
        await super().release(key, token)
        self.seen.released.release()


def let_leases_run_out(path: str) -> None:
    """Expire all leases, as if their holders had died long ago."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=PATIENCE)) as conn:
        assert conn.execute("UPDATE hookline_idempotency SET lease_until = 1 WHERE response IS NULL").rowcount > 0


def outlive_leases(keys: Keys | AsyncKeys, path: str) -> None:
    """Expire all leases, then wait until their live holders have renewed them."""
    let_leases_run_out(path)
    with closing(sqlite3.connect(path, timeout=PATIENCE)) as conn:
        while conn.execute("SELECT 1 FROM hookline_idempotency WHERE lease_until = 1").fetchone():
            assert keys.seen.renewed.acquire(timeout=PATIENCE)


class _LogWatcher(logging.Handler):
    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text
        self.is_logged = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if self._text in record.getMessage():
            self.is_logged.set()


@contextmanager
def logged(text: str) -> Iterator[threading.Event]:
    """Yield an event that is set when `hookline.receive` logs the text."""
    watcher, logger = _LogWatcher(text), logging.getLogger("hookline.receive")
    logger.addHandler(watcher)
    try:
        yield watcher.is_logged
    finally:
        logger.removeHandler(watcher)


@contextmanager
def locked(path: str) -> Iterator[None]:
    """Lock the SQLite file, so that nobody else can write."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=PATIENCE)) as conn:
        conn.execute("BEGIN IMMEDIATE")
        yield


def held_keys(path: str) -> tuple[int, int]:
    """Return the number of finished keys and of keys in progress."""
    with closing(sqlite3.connect(path, timeout=PATIENCE)) as conn:
        done, total = conn.execute("SELECT count(response), count(*) FROM hookline_idempotency").fetchone()
        return done, total - done
