"""The middleware follows PEP 3333: the standard library's validator checks both sides of it."""

from __future__ import annotations

import gc
import io
import sys
from collections.abc import Callable, Iterator
from typing import Any
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import pytest

from hookline.receive.idempotency import IdempotencySettings
from hookline.receive.idempotency.wsgi import IdempotencyMiddleware
from tests.receive.web import Keys, held_keys


@pytest.fixture
def keys(keys_file: str) -> Iterator[Keys]:
    store = Keys(keys_file)
    yield store
    store.close()


class Gateway:
    """The server's side of one request."""

    def __init__(self, app: Any, keys: Keys, *, key: str = "k1", **settings: Any) -> None:
        self.app = validator(IdempotencyMiddleware(validator(app), keys, IdempotencySettings(**settings)))
        self.environ: dict[str, Any] = {
            "REQUEST_METHOD": "POST",
            "SCRIPT_NAME": "",
            "PATH_INFO": "/pay",
            "QUERY_STRING": "",
            "CONTENT_LENGTH": "2",
            "wsgi.input": io.BytesIO(b"{}"),
            "HTTP_IDEMPOTENCY_KEY": key,
        }
        setup_testing_defaults(self.environ)
        self.status = ""
        self.headers: list[tuple[str, str]] = []
        self.written: list[bytes] = []
        self.is_gone = False

    def start_response(self, status: str, headers: Any, exc_info: Any = None) -> Callable[[bytes], object]:
        if exc_info is not None and self.written:
            raise exc_info[1].with_traceback(exc_info[2])
        self.status, self.headers = status, headers
        return self.write

    def write(self, chunk: bytes) -> None:
        if self.is_gone:
            raise ConnectionResetError
        self.written.append(chunk)

    def open(self) -> Any:
        return self.app(self.environ, self.start_response)

    def run(self) -> bytes:
        result = self.open()
        try:
            for chunk in result:
                self.write(chunk)
        finally:
            result.close()
        return b"".join(self.written)

    @property
    def is_replay(self) -> bool:
        return ("idempotency-replayed", "true") in self.headers


PLAIN = [("Content-Type", "text/plain")]


def _divide() -> None:
    raise ZeroDivisionError


def test_a_generator_is_closed_and_its_output_is_stored(keys: Keys) -> None:
    closed: list[str] = []

    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("201 Made", PLAIN)  # The application calls `start_response` only with the first chunk.
        try:
            yield b"a"
            yield b""
            yield b"b"
        finally:
            closed.append(environ["HTTP_IDEMPOTENCY_KEY"])

    first, copy = Gateway(app, keys), Gateway(app, keys)
    assert (first.run(), first.status, closed) == (b"ab", "201 Made", ["k1"])
    assert (copy.run(), copy.status, copy.is_replay, closed) == (b"ab", "201 Created", True, ["k1"])


def test_each_chunk_is_passed_on_at_once_and_the_answer_is_stored_before_the_last(keys: Keys, keys_file: str) -> None:
    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", [*PLAIN, ("Content-Length", "2")])
        yield b"a"
        assert gateway.written == [b"a"]
        yield b"b"

    gateway = Gateway(app, keys)
    result = iter(gateway.open())
    gateway.write(next(result))
    assert held_keys(keys_file) == (0, 1)
    assert next(result) == b"b"
    assert held_keys(keys_file) == (1, 0)  # The answer is stored before the server has the second chunk.
    result.close()


def test_output_of_the_write_callable_is_stored_too(keys: Keys) -> None:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        write = start_response("200 OK", PLAIN)
        write(b"written, ")
        write(b"and ")
        return [b"returned"]

    first, copy = Gateway(app, keys), Gateway(app, keys)
    assert (first.run(), copy.run(), copy.is_replay) == (b"written, and returned", b"written, and returned", True)


def test_a_disconnected_client_does_not_stop_an_application_that_uses_write(keys: Keys) -> None:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        write = start_response("200 OK", PLAIN)
        write(b"one, ")
        write(b"two")
        return []

    gone, copy = Gateway(app, keys), Gateway(app, keys)
    gone.is_gone = True
    gone.run()
    assert (copy.run(), copy.is_replay) == (b"one, two", True)


def test_an_application_may_replace_its_answer_before_anything_was_sent(keys: Keys) -> None:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", PLAIN)
        try:
            _divide()
        except ZeroDivisionError:
            start_response("410 Gone", [*PLAIN, ("X-Why", "zero")], sys.exc_info())
        return [b"sorry"]

    first, copy = Gateway(app, keys), Gateway(app, keys)
    assert (first.run(), first.status) == (b"sorry", "410 Gone")
    assert (copy.run(), copy.status, copy.is_replay) == (b"sorry", "410 Gone", True)
    assert ("x-why", "zero") in copy.headers


def test_an_application_cannot_replace_its_answer_after_data_was_sent(keys: Keys, keys_file: str) -> None:
    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", PLAIN)
        yield b"half"
        try:
            _divide()
        except ZeroDivisionError:
            start_response("500 Oh", PLAIN, sys.exc_info())
        yield b"of it"

    with pytest.raises(ZeroDivisionError):
        Gateway(app, keys).run()
    assert held_keys(keys_file) == (0, 0)


@pytest.mark.parametrize("when", ["called", "iterated"])
def test_an_exception_of_the_application_is_passed_on_and_frees_the_key(keys: Keys, keys_file: str, when: str) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"half"
        raise ZeroDivisionError

    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        if when == "called":
            raise ZeroDivisionError
        start_response("200 OK", PLAIN)
        return chunks()

    with pytest.raises(ZeroDivisionError):
        Gateway(app, keys).run()
    assert held_keys(keys_file) == (0, 0)


def test_an_event_stream_is_stored_as_finished_when_it_starts(keys: Keys) -> None:
    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", [("Content-Type", "text/event-stream")])
        while True:  # Only `close` can stop the stream.
            yield b"data: 1\n\n"

    gateway, copy = Gateway(app, keys), Gateway(app, keys)
    result = gateway.open()
    assert next(iter(result)) == b"data: 1\n\n"
    result.close()
    assert (copy.run(), copy.is_replay) == (b"", True)
    assert ("idempotency-body-omitted", "true") in copy.headers


def test_an_endless_answer_stops_when_its_client_disconnects(keys: Keys) -> None:
    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", PLAIN)
        while True:
            yield b"1234"

    gateway, copy = Gateway(app, keys, max_response=10), Gateway(app, keys)
    result = gateway.open()
    next(iter(result))
    result.close()
    assert (copy.run(), copy.is_replay) == (b"", True)


def test_the_lease_of_an_answer_that_the_server_dropped_expires(keys: Keys, keys_file: str) -> None:
    """Dropped answers are not renewed. The next copy runs the handler when the lease has expired."""

    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", PLAIN)
        yield b"a"
        yield b"b"

    middleware = IdempotencyMiddleware(app, keys, IdempotencySettings(lease=0.3))
    gateway = Gateway(app, keys)
    dropped = middleware(gateway.environ, gateway.start_response)
    next(iter(dropped))
    assert held_keys(keys_file) == (0, 1)
    assert keys.seen.renewed.acquire(timeout=30)
    del dropped
    gc.collect()
    while (replayed := Gateway(app, keys)).run() and replayed.status.startswith("409"):
        pass  # The only sign is the expired lease, so the test polls.
    assert replayed.written == [b"a", b"b"]


def test_a_middleware_inside_another(keys: Keys) -> None:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", PLAIN)
        return [environ["wsgi.input"].read(2)]

    first, copy = (Gateway(IdempotencyMiddleware(app, keys), keys) for _ in range(2))
    assert (first.run(), copy.run(), copy.is_replay) == (b"{}", b"{}", True)


def test_a_chunked_body_has_a_length_when_the_application_sees_it(keys: Keys) -> None:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        assert "HTTP_TRANSFER_ENCODING" not in environ
        start_response("200 OK", PLAIN)
        return [environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))]

    gateway = Gateway(app, keys)
    del gateway.environ["CONTENT_LENGTH"]
    gateway.environ |= {
        "HTTP_TRANSFER_ENCODING": "chunked",
        "wsgi.input_terminated": True,
        "wsgi.input": io.BytesIO(b"dechunked"),
    }
    assert gateway.run() == b"dechunked"


def test_paths_in_only_match_with_and_without_the_mount_path(keys: Keys) -> None:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", PLAIN)
        return [b"x"]

    for only, expected in (("/shop/pay", True), ("/pay", True), ("/shop", True), ("/other", False)):
        first, copy = (Gateway(app, keys, key=only, only=[only]) for _ in range(2))
        for gateway in (first, copy):
            gateway.environ["SCRIPT_NAME"] = "/shop"
            gateway.run()
        assert copy.is_replay is expected


@pytest.mark.parametrize("only", ["/shop/pay", "/pay"])
def test_a_path_without_its_slash_does_not_bypass_the_middleware(keys: Keys, only: str) -> None:
    """Servers accept the request line `POST pay HTTP/1.1`, and Werkzeug adds the missing slash."""

    def app(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", PLAIN)
        return [b"x"]

    plain, bare = (Gateway(app, keys, only=[only]) for _ in range(2))
    # The validator would refuse this path, so it is left out.
    bare.app = IdempotencyMiddleware(app, keys, IdempotencySettings(only=[only]))
    bare.environ["PATH_INFO"] = "pay"
    for gateway in (plain, bare):
        gateway.environ["SCRIPT_NAME"] = "/shop"
    plain.run()
    assert (b"".join(bare.open()), bare.is_replay) == (b"x", True)
