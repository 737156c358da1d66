"""PEP 3333 to the letter: the standard library's validator stands on both sides of the middleware."""

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


def test_a_generator_is_closed_and_what_it_made_is_kept(keys: Keys) -> None:
    closed: list[str] = []

    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("201 Made", PLAIN)  # as late as the first chunk
        try:
            yield b"a"
            yield b""
            yield b"b"
        finally:
            closed.append(environ["HTTP_IDEMPOTENCY_KEY"])

    first, copy = Gateway(app, keys), Gateway(app, keys)
    assert (first.run(), first.status, closed) == (b"ab", "201 Made", ["k1"])
    assert (copy.run(), copy.status, copy.is_replay, closed) == (b"ab", "201 Created", True, ["k1"])


def test_each_chunk_is_passed_on_at_once_and_the_end_is_kept_first(keys: Keys, keys_file: str) -> None:
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
    assert held_keys(keys_file) == (1, 0)  # before the server had the second one
    result.close()


def test_what_is_given_to_write_is_kept_too(keys: Keys) -> None:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        write = start_response("200 OK", PLAIN)
        write(b"written, ")
        write(b"and ")
        return [b"returned"]

    first, copy = Gateway(app, keys), Gateway(app, keys)
    assert (first.run(), copy.run(), copy.is_replay) == (b"written, and returned", b"written, and returned", True)


def test_a_client_that_is_gone_does_not_stop_who_writes(keys: Keys) -> None:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        write = start_response("200 OK", PLAIN)
        write(b"one, ")
        write(b"two")
        return []

    gone, copy = Gateway(app, keys), Gateway(app, keys)
    gone.is_gone = True
    gone.run()
    assert (copy.run(), copy.is_replay) == (b"one, two", True)


def test_an_application_may_change_its_mind_before_anything_was_sent(keys: Keys) -> None:
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


def test_but_not_after_that(keys: Keys, keys_file: str) -> None:
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
def test_what_an_application_raises_passes_on_and_frees_the_key(keys: Keys, keys_file: str, when: str) -> None:
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


def test_a_stream_of_events_counts_as_answered_when_it_starts(keys: Keys) -> None:
    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", [("Content-Type", "text/event-stream")])
        while True:  # closing it is the only way to stop it
            yield b"data: 1\n\n"

    gateway, copy = Gateway(app, keys), Gateway(app, keys)
    result = gateway.open()
    assert next(iter(result)) == b"data: 1\n\n"
    result.close()
    assert (copy.run(), copy.is_replay) == (b"", True)
    assert ("idempotency-body-omitted", "true") in copy.headers


def test_an_endless_answer_ends_with_its_client(keys: Keys) -> None:
    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", PLAIN)
        while True:
            yield b"1234"

    gateway, copy = Gateway(app, keys, max_response=10), Gateway(app, keys)
    result = gateway.open()
    next(iter(result))
    result.close()
    assert (copy.run(), copy.is_replay) == (b"", True)


def test_an_answer_that_a_server_drops_is_left_to_its_lease(keys: Keys, keys_file: str) -> None:
    """Nobody renews it for ever: the next copy runs when it is over."""

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
        pass  # the lease tells, and no event
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


def test_where_an_application_is_mounted(keys: Keys) -> None:
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
def test_a_path_without_its_slash_is_no_way_around(keys: Keys, only: str) -> None:
    """`POST pay HTTP/1.1`: servers let it through, and Werkzeug puts the slash there."""

    def app(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", PLAIN)
        return [b"x"]

    plain, bare = (Gateway(app, keys, only=[only]) for _ in range(2))
    bare.app = IdempotencyMiddleware(app, keys, IdempotencySettings(only=[only]))  # the validator would refuse it
    bare.environ["PATH_INFO"] = "pay"
    for gateway in (plain, bare):
        gateway.environ["SCRIPT_NAME"] = "/shop"
    plain.run()
    assert (b"".join(bare.open()), bare.is_replay) == (b"x", True)
