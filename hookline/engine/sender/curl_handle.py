"""One of libcurl's easy handles and the request it carries: its options, its callbacks, what it heard.

Handles are used again and again. All that belongs to one request is set in `Exchange.load` and cleared when it has ended.
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
from hookline.engine.sender.result import Facts
from hookline.model import Timing

HEADER_BYTES = 64 * 1024
HEADER_LINES = 200
SHORT_BODY = 1_000  # bytes: no release of libcurl asks first whether it may send so few
MAX_IDLE = 30  # seconds a connection may have been idle and still be used again
MAX_LIFE = 300  # seconds from its dialling on: a changed DNS answer must take effect some day
USER_AGENT = f"Hookline/{__version__}"

_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")


def trust_store(bundle: str | None) -> str:
    """The CA bundle to verify with: the one given, the system's, or certifi's. libcurl's wheel has none of its own."""
    if bundle is not None:
        return bundle
    system = (ssl.get_default_verify_paths().cafile, *_BUNDLES)
    return next((path for path in system if path and Path(path).is_file()), certifi.where())


class Exchange:
    __slots__ = (
        "_again", "_allows", "_asked", "_fresh", "_heard", "_limit", "_literal", "_os_error", "_payload", "_resolved", "_room",
        "_size", "_url", "_watch", "blocked", "chunks", "curl", "cut", "dialled", "dns_us", "flooded", "job", "lines",
        "started_at",
    )  # fmt: skip

    def __init__(
        self,
        *,
        allows: Callable[[str, int], bool],
        watch: Callable[[int], None],
        again: Callable[[], None],
        body_limit: int,
        ca_bundle: str,
        connect_timeout: float,
    ) -> None:
        self._allows, self._watch, self._again, self._limit = allows, watch, again, body_limit
        self._url, self._fresh, self._resolved, self._literal = "", False, False, False
        self.chunks: list[bytes] = []
        self.lines: list[bytes] = []
        self.curl: Any = pycurl.Curl()
        self.curl.exchange = self
        self.job: Any = None
        self.clear()
        for option, value in self._options(ca_bundle, connect_timeout):
            self.curl.setopt(option, value)

    def _options(self, ca_bundle: str, connect_timeout: float) -> list[tuple[int, Any]]:
        """What never changes. The order matters to libcurl only in that POST comes before the body's size."""
        web = pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS
        return [
            (pycurl.POST, 1),
            # The body comes by callback and there is no SEEKFUNCTION: libcurl cannot rewind it, so it cannot send a second
            # copy of a POST when a connection that it used again closes under it. It fails with error 65 instead.
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
            (pycurl.PROXY, ""),  # the empty string, unlike nothing, overrides the environment
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
            (pycurl.MAXLIFETIME_CONN, MAX_LIFE),
        ]

    # ── one request ───────────────────────────────────────────────────────────────────────────────────────────────

    def load(
        self,
        job: Any,
        *,
        url: str,
        headers: list[str],
        body: bytes,
        seconds: float,
        fresh: bool,
        resolve: str | None,
        started_at: datetime,
        dns_us: int,
    ) -> None:
        """Set all that belongs to this request. `resolve` is libcurl's "+host:port:address,…", or None for a literal address."""
        setopt = self.curl.setopt
        self.job, self.started_at, self.dns_us = job, started_at, dns_us
        self._payload = body
        setopt(pycurl.HTTPHEADER, _header_lines(headers, len(body)))
        setopt(pycurl.POSTFIELDSIZE_LARGE, len(body))
        setopt(pycurl.TIMEOUT_MS, max(1, int(seconds * 1_000)))
        if url != self._url:
            setopt(pycurl.URL, url)
            self._url = url
        # An empty body has nothing to rewind: only a new connection keeps libcurl from sending it twice.
        fresh = fresh or not body
        if fresh != self._fresh:
            setopt(pycurl.FRESH_CONNECT, fresh)
            self._fresh = fresh
        self._literal = resolve is None
        if resolve is not None:
            setopt(pycurl.RESOLVE, [resolve])
            self._resolved = True
        elif self._resolved:
            setopt(pycurl.RESOLVE, [])
            self._resolved = False

    def clear(self) -> None:
        """Forget the request and its response."""
        self.job = None
        self._payload, self._asked = b"", 0
        self._room, self._size, self._os_error = self._limit, 0, 0
        self._heard: tuple[int, float] | None = None  # room for the body at an earlier look, and when it became so
        self.blocked, self.dialled, self.cut, self.flooded, self.dns_us = "", "", False, False, 0
        self.chunks.clear()
        self.lines.clear()

    def quiet_since(self, now: float) -> float:
        """When it was first seen that the head had come and no more of the body: now, unless an earlier look saw it."""
        if self._heard is None and not self._headed():
            return math.inf
        if self._heard is None or self._heard[0] != self._room:
            self._heard = (self._room, now)
        return self._heard[1]

    def _headed(self) -> bool:
        """Whether the head of the final response has come. An interim one (1xx) ends in a blank line too."""
        ended = bool(self.lines) and self.lines[-1] in (b"\r\n", b"\n")
        return ended and self.curl.getinfo(pycurl.RESPONSE_CODE) >= 200

    def facts(self, code: int, text: str) -> Facts:
        """What is known of a transfer that ended, or that is being given up."""
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
            requested=getinfo(pycurl.REQUEST_SIZE) > 0,
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

    # ── libcurl's callbacks; an exception in one would only be printed ────────────────────────────────────────────

    def _read(self, size: int) -> bytes:
        start, payload = self._asked, self._payload
        self._asked = start + size
        if start == 0 and len(payload) <= size:
            return payload
        # libcurl sends one chunk a turn and leaves the socket writable: no edge will tell us to go on.
        self._again()
        return payload[start : start + size]

    def _write(self, chunk: bytes) -> int | None:
        room = self._room - len(chunk)
        if room >= 0:
            self._room = room
            self.chunks.append(chunk)
            return None
        self.chunks.append(chunk[: self._room])
        self._room, self.cut = 0, True
        return 0  # ends the transfer: the status is known

    def _header(self, line: bytes) -> int | None:
        self._size += len(line)
        self.lines.append(line)
        if self._size > HEADER_BYTES or len(self.lines) > HEADER_LINES:
            self.flooded = True
            return 0
        return None

    def _open(self, _purpose: int, target: Any) -> Any:
        """The guard sees the address that is about to be dialled, whatever name or spelling led here."""
        host, port = target.addr[:2]
        if not self._allowed(host, port):
            self.blocked = _address(str(host), port)
            return pycurl.SOCKET_BAD
        self.dialled = _address(host, port)
        try:
            return _Lent(socket.socket(target.family, target.socktype, target.protocol).detach())
        except OSError as error:  # no descriptor is left, most likely
            self._os_error = error.errno or 0
            return pycurl.SOCKET_BAD

    def _allowed(self, host: object, port: int) -> bool:
        try:
            return isinstance(host, str) and self._allows(host, port)
        except Exception:  # what the guard cannot judge is not dialled
            return False

    def _opened(self, descriptor: int, _purpose: int) -> int:
        try:
            self._watch(descriptor)
        except OSError as error:
            self._os_error = error.errno or 0
            return int(pycurl.SOCKOPT_ERROR)
        return int(pycurl.SOCKOPT_OK)

    def _resolving(self, *_: object) -> int:
        """libcurl is about to look a name up itself: never. Literal addresses pass here too."""
        return 0 if self._literal else 1


class _Lent:
    """A socket for pycurl, which duplicates the descriptor and drops this: its own is closed then, without a warning."""

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
    """With what keeps libcurl from adding its own: a wait for "100 Continue" before a long body, and a Content-Type of forms."""
    text = "\n".join(headers)
    if text.count("\n") != max(0, len(headers) - 1) or "\r" in text or "\0" in text:
        raise ValueError("a header has a control character")
    extra = ["Expect:"] if size > SHORT_BODY else []
    return [*headers, *extra] if "content-type:" in text.lower() else [*headers, *extra, "Content-Type:"]
