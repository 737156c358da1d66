"""The idempotency middleware for WSGI applications, such as Flask.

    app.wsgi_app = IdempotencyMiddleware(app.wsgi_app, PostgresKeys(pool), IdempotencySettings(verifier=verifier))

A verified webhook is `environ["hookline.webhook"]`. A response is saved before its last byte is sent. A streamed
response is read to its end even if the client goes away.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from http.client import responses
from typing import TYPE_CHECKING, Any
from wsgiref.util import request_uri

from hookline.outbox.coroutines import run_sync
from hookline.receive.idempotency import problems
from hookline.receive.idempotency.core import CLAIMS, Plan, content_length, examine, is_new, needs_body, plan
from hookline.receive.idempotency.hold import Hold, Holder
from hookline.receive.idempotency.keys import KeyStore, StoredResponse
from hookline.receive.idempotency.problems import Answered
from hookline.receive.idempotency.recording import Recording
from hookline.receive.idempotency.settings import IdempotencySettings, IncomingRequest
from hookline.signing.headers import Headers

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication

WEBHOOK = "hookline.webhook"

_CHUNK = 64 * 1024

Environ = dict[str, Any]


class IdempotencyMiddleware:
    def __init__(self, app: WSGIApplication, store: KeyStore, settings: IdempotencySettings | None = None) -> None:
        self.app = app
        self._settings = settings or IdempotencySettings()
        self.holder = Holder(store, self._settings)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        return self.call(self.app, environ, start_response)

    def call(self, app: WSGIApplication, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        method, below = environ["REQUEST_METHOD"].upper(), _text(environ.get("PATH_INFO", ""))
        chosen = plan(self._settings, method, _path(environ), below)
        if not chosen:
            return app(environ, start_response)
        try:
            return self._admit(app, chosen, environ, start_response)
        except Answered as answered:
            return _answer(start_response, answered.response)

    def _admit(
        self, app: WSGIApplication, chosen: Plan, environ: Environ, start_response: StartResponse
    ) -> Iterable[bytes]:
        headers = Headers(environ)
        if not needs_body(self._settings, chosen, headers):
            return app(environ, start_response)
        request, claim = examine(self._settings, chosen, incoming(self._settings, environ, headers))
        if request.webhook is not None:
            environ[WEBHOOK] = request.webhook
        if claim is None or not is_new(claim, environ.setdefault(CLAIMS, set())):
            return app(environ, start_response)
        hold = run_sync(self.holder.take(claim))
        if hold is None:
            return app(environ, start_response)
        return _run_recorded(app, environ, start_response, hold, Recording(self._settings))


# ── the request ───────────────────────────────────────────────────────────────────────────────────────────────────


def incoming(settings: IdempotencySettings, environ: Environ, headers: Headers) -> IncomingRequest:
    """Return the request with its body, which the application can read again. Raise `Answered` for a bad body."""
    body = _read(environ, content_length(headers), settings.max_body)
    environ["wsgi.input"] = io.BytesIO(body)
    environ["CONTENT_LENGTH"] = str(len(body))
    environ.pop("HTTP_TRANSFER_ENCODING", None)
    query = environ.get("QUERY_STRING", "").encode("latin-1")
    method, path, below = environ["REQUEST_METHOD"].upper(), _path(environ), _text(environ.get("PATH_INFO", ""))
    return IncomingRequest(method, path, query, headers, request_uri(environ), environ, body, below=below)


def _read(environ: Environ, length: int | None, limit: int) -> bytes:
    """Read the whole body.

    Without a Content-Length there is a body only if the server sets `wsgi.input_terminated`.
    """
    if length is not None:
        body = _read_up_to(environ["wsgi.input"], length)
        if len(body) < length:
            raise Answered(problems.BODY_INCOMPLETE)
        return body
    if not environ.get("wsgi.input_terminated"):
        return b""
    body = _read_up_to(environ["wsgi.input"], limit + 1)
    if len(body) > limit:
        raise Answered(problems.body_too_large(limit))
    return body


def _read_up_to(stream: Any, size: int) -> bytes:
    chunks: list[bytes] = []
    try:
        while size > 0 and (chunk := stream.read(min(size, _CHUNK))):
            chunks.append(chunk)
            size -= len(chunk)
    except OSError:  # the client is gone, or its chunked encoding is wrong
        raise Answered(problems.BODY_INCOMPLETE) from None
    return b"".join(chunks)


def _text(native: str) -> str:
    """Decode a string of the environ: PEP 3333 stores bytes in it as latin-1."""
    return native.encode("latin-1").decode("utf-8", "replace")


def _path(environ: Environ) -> str:
    """Return SCRIPT_NAME and PATH_INFO as one path.

    If PATH_INFO does not begin with a slash, as in the request line `POST pay HTTP/1.1`, a slash is added between them.
    """
    root, path = environ.get("SCRIPT_NAME", ""), environ.get("PATH_INFO", "")
    return _text(root + path if path.startswith("/") or not path else f"{root}/{path}")


# ── the response ──────────────────────────────────────────────────────────────────────────────────────────────────


def _run_recorded(
    app: WSGIApplication, environ: Environ, start_response: StartResponse, hold: Hold, recording: Recording
) -> RecordedBody:
    """Call an application whose request holds a key, and record its response."""

    def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None, /) -> Callable[[bytes], object]:
        write = start_response(status, headers, *((exc_info,) if exc_info else ()))
        recording.start(int(status[:3]), headers)

        def write_recorded(chunk: bytes) -> object:
            _record(recording, hold, chunk)
            try:
                return write(chunk)
            except OSError:  # the client is gone
                if hold.is_over:
                    raise
                return None

        return write_recorded

    try:
        return RecordedBody(app(environ, start), recording, hold)
    except BaseException:
        run_sync(hold.release())
        raise


class RecordedBody:
    """Passes on the chunks of a response, and records them.

    If the server calls `close` before the last chunk, `close` reads and records the remaining chunks. The handler has
    already run, so its response must be stored.
    """

    def __init__(self, chunks: Iterable[bytes], recording: Recording, hold: Hold) -> None:
        self._source = chunks
        self._chunks: Iterator[bytes] | None = None
        self._recording = recording
        self._hold = hold

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            if self._chunks is None:
                self._chunks = iter(self._source)
            chunk = next(self._chunks)
        except StopIteration:
            run_sync(self._hold.settle(self._recording))
            raise
        except BaseException:
            run_sync(self._hold.release())
            raise
        _record(self._recording, self._hold, chunk)
        return chunk

    def close(self) -> None:
        try:
            while not self._hold.is_over:
                next(self, None)
        finally:
            run_sync(self._hold.release())
            if (close := getattr(self._source, "close", None)) is not None:
                close()


def _record(recording: Recording, hold: Hold, chunk: bytes) -> None:
    recording.feed(chunk)
    if recording.is_complete or recording.is_known:
        run_sync(hold.settle(recording))


def _answer(start_response: StartResponse, response: StoredResponse) -> Iterable[bytes]:
    start_response(f"{response.status} {responses.get(response.status, 'Unknown')}", response.text_headers())
    return [response.body]
