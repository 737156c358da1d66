"""A libcurl easy handle with one request and its response: options, callbacks and received data.

Handles are reused. `Exchange.load` sets everything that belongs to one request, and `Exchange.clear` removes it.
"""

from __future__ import annotations

import math
import os
import socket
import ssl
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import certifi
import pycurl

from hookline import __version__
from hookline.engine.sender.poll import Waiter
from hookline.engine.sender.protocol import Request, Settings
from hookline.engine.sender.result import Facts
from hookline.model.attempts import Timing

HEADER_BYTES = 64 * 1024
HEADER_LINES = 200
SHORT_BODY = 1_000  # bytes; no release of libcurl sends "Expect: 100-continue" for so short a body
MAX_IDLE = 30  # seconds that a connection may be idle and still be reused
MAX_AGE = 300  # seconds after which a connection is not reused, so that a changed DNS answer takes effect
USER_AGENT = f"Hookline/{__version__}"

_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")


def trust_store(bundle: str | None) -> str:
    """Return the path of the CA bundle: the given one, the system's, or certifi's. The wheel of pycurl has no
    bundle."""
    if bundle is not None:
        return bundle
    system = (ssl.get_default_verify_paths().cafile, *_BUNDLES)
    return next((path for path in system if path and Path(path).is_file()), certifi.where())


class Exchange:
    __slots__ = (
        "_allows", "_alone", "_asked", "_limit", "_literal", "_on_chunk", "_os_error", "_payload", "_progress", "_resolved",
        "_room", "_size", "_url", "_waiter", "blocked", "chunks", "curl", "cut", "dialled", "dns_us", "flooded",
        "lines", "place", "request", "started_at",
    )  # fmt: skip

    def __init__(
        self,
        settings: Settings,
        ca_bundle: str,
        allows: Callable[[str, int], bool],
        waiter: Waiter,
        on_chunk: Callable[[Exchange], None],
        place: int,
    ) -> None:
        self._allows, self._waiter, self._limit = allows, waiter, settings.body_limit
        self._on_chunk = on_chunk  # called for each part of a body that libcurl does not read in one call
        self.place = place  # number of this handle: 0, 1, 2 ...
        self._url, self._alone, self._resolved, self._literal = "", False, False, False
        self.chunks: list[bytes] = []
        self.lines: list[bytes] = []
        self.curl: Any = pycurl.Curl()
        self.curl.exchange = self
        self.request: Any = None
        self.clear()
        for option, value in self._options(ca_bundle, settings.connect_timeout):
            self.curl.setopt(option, value)

    def _options(self, ca_bundle: str, connect_timeout: float) -> list[tuple[int, Any]]:
        """Return the options that are the same for all requests. POST must be set before the size of the body."""
        web = pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS
        return [
            (pycurl.POST, 1),
            # libcurl reads the body by a callback, and there is no SEEKFUNCTION. So it cannot rewind the body and send
            # a POST twice when a reused connection closes. It fails with error 65 instead.
            (pycurl.READFUNCTION, self._read),
            (pycurl.WRITEFUNCTION, self._write),
            (pycurl.HEADERFUNCTION, self._header),
            (pycurl.OPENSOCKETFUNCTION, self._open),
            (pycurl.SOCKOPTFUNCTION, self._opened),
            (pycurl.RESOLVER_START_FUNCTION, self._resolving),
            (pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1),
            (pycurl.HTTP09_ALLOWED, 0),
            (pycurl.HTTP_CONTENT_DECODING, 0),
            (pycurl.FOLLOWLOCATION, 0),
            (pycurl.PROTOCOLS, web),
            (pycurl.REDIR_PROTOCOLS, web),
            (pycurl.PROXY, ""),  # an empty string overrides the proxy variables of the environment
            (pycurl.NOPROXY, "*"),
            (pycurl.NETRC, pycurl.NETRC_IGNORED),
            (pycurl.NOSIGNAL, 1),
            (pycurl.USERAGENT, USER_AGENT),
            (pycurl.SSL_VERIFYPEER, 1),
            (pycurl.SSL_VERIFYHOST, 2),
            (pycurl.SSLVERSION, pycurl.SSLVERSION_TLSv1_2),
            (pycurl.CAINFO, ca_bundle),
            (pycurl.CONNECTTIMEOUT_MS, max(1, int(connect_timeout * 1_000))),
            (pycurl.TCP_NODELAY, 1),
            (pycurl.TCP_KEEPALIVE, 1),
            (pycurl.MAXAGE_CONN, MAX_IDLE),
            (pycurl.MAXLIFETIME_CONN, MAX_AGE),
        ]

    # ── one request ───────────────────────────────────────────────────────────────────────────────────────────────

    def load(self, request: Request, resolve: str | None, started_at: datetime, waited: float, *, alone: bool) -> None:
        """Set the options of this request. `waited` is the number of seconds that the DNS look-up took.

        `resolve` is libcurl's "+host:port:address,…", or None if the host is an IP address. `alone` says that the
        request needs a new connection, and that no other request may use this connection later.
        """
        setopt, url, body = self.curl.setopt, request.url, request.body
        self.request, self.started_at, self.dns_us = request, started_at, int(waited * 1_000_000)
        self._payload = body
        setopt(pycurl.HTTPHEADER, _header_lines(request.headers, len(body)))
        setopt(pycurl.POSTFIELDSIZE_LARGE, len(body))
        setopt(pycurl.TIMEOUT_MS, max(1, int((request.deadline - waited) * 1_000)))
        if url != self._url:
            setopt(pycurl.URL, url)
            self._url = url
        # libcurl can send a request with an empty body twice, because there is no body to rewind. Only a new
        # connection prevents that.
        alone = alone or not body
        if alone != self._alone:
            setopt(pycurl.FRESH_CONNECT, alone)
            setopt(pycurl.FORBID_REUSE, alone)
            self._alone = alone
        self._literal = resolve is None
        if resolve is not None:
            setopt(pycurl.RESOLVE, [resolve])
            self._resolved = True
        elif self._resolved:
            setopt(pycurl.RESOLVE, [])
            self._resolved = False

    def clear(self) -> None:
        """Remove the request and its response."""
        self.request = None
        self._payload, self._asked = b"", 0
        self._room, self._size, self._os_error = self._limit, 0, 0
        # `_room` at the last call of `stalled_since`, and the time of the first call that found this value
        self._progress: tuple[int, float] | None = None
        self.blocked, self.dialled, self.cut, self.flooded, self.dns_us = "", "", False, False, 0
        self.chunks.clear()
        self.lines.clear()

    def stalled_since(self, now: float) -> float:
        """Return the time since which the response body has not grown.

        It is `now` if the body has grown since the last call, and infinity if the headers have not arrived yet.
        """
        if self._progress is None and not self._has_headers():
            return math.inf
        if self._progress is None or self._progress[0] != self._room:
            self._progress = (self._room, now)
        return self._progress[1]

    def _has_headers(self) -> bool:
        """Return whether the headers of the final response have arrived. An interim response (1xx) ends in a blank
        line too."""
        ended = bool(self.lines) and self.lines[-1] in (b"\r\n", b"\n")
        return ended and self.curl.getinfo(pycurl.RESPONSE_CODE) >= 200

    def facts(self, code: int, text: str) -> Facts:
        """Return the facts of a transfer that has ended, or that is being aborted."""
        getinfo = self.curl.getinfo
        reused = getinfo(pycurl.NUM_CONNECTS) == 0
        host = getinfo(pycurl.PRIMARY_IP)
        return Facts(
            code=code,
            text=text,
            status=getinfo(pycurl.RESPONSE_CODE),
            lines=self.lines,
            body=b"".join(self.chunks),
            cut=self.cut,
            flooded=self.flooded,
            blocked=self.blocked,
            address=_address(host, getinfo(pycurl.PRIMARY_PORT)) if host else self.dialled,
            reused=reused,
            # With TLS, libcurl may have sent a part of the request while REQUEST_SIZE is still 0. In that case it has
            # already called `_read`, so `_asked` is above 0.
            requested=self._asked > 0 or getinfo(pycurl.REQUEST_SIZE) > 0,
            os_error=(self._os_error or getinfo(pycurl.OS_ERRNO)) if code else 0,
            started_at=self.started_at,
            timing=self._timing(reused),
        )

    def _timing(self, reused: bool) -> Timing:
        getinfo, dns = self.curl.getinfo, self.dns_us
        connect = 0 if reused else getinfo(pycurl.CONNECT_TIME_T)
        tls = 0 if reused else getinfo(pycurl.APPCONNECT_TIME_T)
        first = getinfo(pycurl.STARTTRANSFER_TIME_T) if self.lines else 0
        return Timing(
            dns=dns,
            connect=connect and connect + dns,
            tls=tls and tls + dns,
            first_byte=first and first + dns,
            total=getinfo(pycurl.TOTAL_TIME_T) + dns,
        )

    # ── libcurl's callbacks. They must not raise: pycurl would only print the exception. ──────────────────────────

    def _read(self, size: int) -> bytes:
        start, payload = self._asked, self._payload
        self._asked = start + size
        if start == 0 and len(payload) <= size:
            return payload
        # libcurl sends one chunk per call and leaves the socket writable. No epoll edge follows, so ask the sender to
        # call libcurl for this socket again.
        self._on_chunk(self)
        return payload[start : start + size]

    def _write(self, chunk: bytes) -> int | None:
        room = self._room - len(chunk)
        if room >= 0:
            self._room = room
            self.chunks.append(chunk)
            return None
        self.chunks.append(chunk[: self._room])
        self._room, self.cut = 0, True
        return 0  # ends the transfer; the status is already known

    def _header(self, line: bytes) -> int | None:
        self._size += len(line)
        self.lines.append(line)
        if self._size > HEADER_BYTES or len(self.lines) > HEADER_LINES:
            self.flooded = True
            return 0
        return None

    def _open(self, _purpose: int, target: Any) -> Any:
        """Ask the guard about the address that is about to be dialled, and open the socket."""
        host, port = target.addr[:2]
        if not self._allowed(host, port):
            self.blocked = _address(str(host), port)
            return pycurl.SOCKET_BAD
        self.dialled = _address(host, port)
        try:
            return _Lent(socket.socket(target.family, target.socktype, target.protocol).detach())
        except OSError as error:  # usually because the process has no free descriptor
            self._os_error = error.errno or 0
            return pycurl.SOCKET_BAD

    def _allowed(self, host: object, port: int) -> bool:
        try:
            return isinstance(host, str) and self._allows(host, port)
        except Exception:  # do not dial an address that the guard cannot judge
            return False

    def _opened(self, descriptor: int, _purpose: int) -> int:
        try:
            self._waiter.watch(descriptor)
        except OSError as error:
            self._os_error = error.errno or 0
            return int(pycurl.SOCKOPT_ERROR)
        return int(pycurl.SOCKOPT_OK)

    def _resolving(self, *_: object) -> int:
        """Stop libcurl from resolving a host name itself. libcurl also calls this for IP addresses: allow them."""
        return 0 if self._literal else 1


class _Lent:
    """A socket for pycurl. pycurl duplicates the descriptor and drops this object, which then closes its own
    descriptor."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def __del__(self) -> None:
        os.close(self._descriptor)


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _header_lines(headers: list[str], size: int) -> list[str]:
    """Return the header lines, plus empty ones that stop libcurl from adding `Expect: 100-continue` and a
    `Content-Type`."""
    text = "\n".join(headers)
    if text.count("\n") != max(0, len(headers) - 1) or "\r" in text or "\0" in text:
        raise ValueError("a header has a control character")
    extra = ["Expect:"] if size > SHORT_BODY else []
    return [*headers, *extra] if "content-type:" in text.lower() else [*headers, *extra, "Content-Type:"]
