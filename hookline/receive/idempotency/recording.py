"""Record a response while it is sent to the client, and decide which parts are saved. No I/O."""

from __future__ import annotations

from collections.abc import Iterable

from hookline.receive.idempotency.core import REPLAYED, WITHOUT_BODY
from hookline.receive.idempotency.keys import StoredResponse
from hookline.receive.idempotency.settings import IdempotencySettings

Header = tuple[bytes, bytes]

# These headers belong to the connection, or are new for each response. Content-Length is computed from the saved body.
_NEVER_KEPT = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer trailers transfer-encoding "
    b"upgrade date server content-length".split()
) | {REPLAYED, WITHOUT_BODY}

_OF_THE_BODY = frozenset(
    b"content-encoding content-language content-range content-disposition content-md5 content-digest etag".split()
)
_STREAM = b"text/event-stream"
_REDIRECTED = frozenset({307, 308})


class Recording:
    """Records one response. If its body is longer than `max_response`, only status and headers are recorded."""

    def __init__(self, settings: IdempotencySettings) -> None:
        self._settings = settings
        self._status = 0
        self._headers: list[Header] = []
        self._chunks: list[bytes] = []
        self._size = 0
        self._length: int | None = None
        self.without_body = False

    def start(self, status: int, headers: Iterable[Header | tuple[str, str]]) -> None:
        """Record status and headers. An application may call this again before it sends anything."""
        self._status, self._size = status, 0
        self._chunks.clear()
        self._headers = [(_as_bytes(name).lower(), _as_bytes(value)) for name, value in headers]
        self._length = self._declared()
        self.without_body = self._is_stream()

    def feed(self, chunk: bytes) -> None:
        self._size += len(chunk)
        if self.without_body or not chunk:
            return
        if self._size > self._settings.max_response:
            self.leave_out_body()
        else:
            self._chunks.append(bytes(chunk))

    def leave_out_body(self) -> None:
        self.without_body = True
        self._chunks.clear()

    @property
    def is_complete(self) -> bool:
        """True if the response has a Content-Length, and its body has reached that length.

        Then the response must be saved before the client gets the last byte.
        """
        return self._length is not None and self._size >= self._length

    @property
    def is_known(self) -> bool:
        """True if more bytes would not change the saved response, so that it can be saved before the body ends."""
        return self._keeps() and self.without_body

    def result(self) -> StoredResponse | None:
        """Return the response to save. None: it has not started, or a response with this status or these headers is not
        saved."""
        if not self._keeps():
            return None
        forgotten = {name.lower().encode() for name in self._settings.forgets} | _NEVER_KEPT
        if self.without_body:
            forgotten |= _OF_THE_BODY
        headers = [(name, value) for name, value in self._headers if name not in forgotten]
        if self.without_body:
            headers.append((WITHOUT_BODY, b"true"))
        return StoredResponse(self._status, tuple(headers), b"".join(self._chunks))

    def _keeps(self) -> bool:
        """Return whether the response is saved.

        An error with `Retry-After` and the redirects 307 and 308 are never saved.
        """
        asks_again = self._status >= 400 and any(name == b"retry-after" for name, _ in self._headers)
        is_final = self._status > 0 and self._status not in _REDIRECTED and not asks_again
        return is_final and self._settings.keeps(self._status)

    def _declared(self) -> int | None:
        lengths = [value for name, value in self._headers if name == b"content-length"]
        return int(lengths[0]) if len(lengths) == 1 and lengths[0].isdigit() and len(lengths[0]) < 19 else None

    def _is_stream(self) -> bool:
        return any(name == b"content-type" and value.lower().startswith(_STREAM) for name, value in self._headers)


def _as_bytes(text: str | bytes) -> bytes:
    return text.encode("latin-1") if isinstance(text, str) else bytes(text)
