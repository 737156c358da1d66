"""Turns libcurl's error codes and header lines into a `Sent`, with a text that says what failed and in which phase.
Pure."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache

import pycurl
from msgspec import Struct

from hookline.model.attempts import Sent, Timing
from hookline.model.states import ErrorKind
from hookline.rules.redaction import CUT_OFF

MAX_VALUE = 1_024  # maximum characters of a header's value; the rest is cut off
MAX_CACHED = 256  # maximum bytes of a header line that is cached
MAX_DETAIL = 400  # maximum characters of an error text; the rest is cut off

INTEREST = frozenset({
    "cf-ray", "content-encoding", "content-length", "content-type", "date", "location", "request-id", "retry-after", "server",
    "traceparent", "via", "www-authenticate", "x-amz-cf-id", "x-amzn-requestid", "x-amzn-trace-id", "x-correlation-id",
    "x-request-id",
})  # fmt: skip

_TLS = frozenset({
    pycurl.E_SSL_CONNECT_ERROR, pycurl.E_PEER_FAILED_VERIFICATION, pycurl.E_SSL_CERTPROBLEM, pycurl.E_SSL_CIPHER,
    pycurl.E_USE_SSL_FAILED, pycurl.E_SSL_CACERT_BADFILE, pycurl.E_SSL_SHUTDOWN_FAILED, pycurl.E_SSL_CRL_BADFILE,
    pycurl.E_SSL_ISSUER_ERROR, pycurl.E_SSL_PINNEDPUBKEYNOTMATCH, pycurl.E_SSL_INVALIDCERTSTATUS,
    pycurl.E_SSL_ENGINE_NOTFOUND, pycurl.E_SSL_ENGINE_SETFAILED, pycurl.E_SSL_ENGINE_INITFAILED,
})  # fmt: skip
_TOO_LARGE = 100  # CURLE_TOO_LARGE, which pycurl does not name
_MALFORMED = frozenset({
    pycurl.E_FTP_WEIRD_SERVER_REPLY,  # the old name of CURLE_WEIRD_SERVER_REPLY: an invalid status line or header
    pycurl.E_UNSUPPORTED_PROTOCOL,  # HTTP/0.9, or a version that does not exist
    pycurl.E_BAD_CONTENT_ENCODING,  # a Transfer-Encoding that the request did not allow
    pycurl.E_PARTIAL_FILE,
    pycurl.E_WRITE_ERROR,  # our header callback caused it, because the headers were too many or too long
    _TOO_LARGE,
})  # fmt: skip
# The connection ended during the request.
_ENDED = frozenset({pycurl.E_GOT_NOTHING, pycurl.E_SEND_ERROR, pycurl.E_RECV_ERROR, pycurl.E_SEND_FAIL_REWIND})
_UNSENDABLE = frozenset({pycurl.E_URL_MALFORMAT, pycurl.E_BAD_FUNCTION_ARGUMENT})


class Facts(Struct, frozen=True, kw_only=True):
    """The facts about a transfer that has ended."""

    code: int  # libcurl's error code; 0 means success
    text: str
    status: int
    lines: Sequence[bytes]  # header lines of every response, including 1xx responses and trailers
    body: bytes
    cut: bool  # the body was longer than the limit, and its end was cut off
    flooded: bool  # the response headers were too many or too long
    blocked: str  # the address that the guard refused
    address: str  # the dialled "ip:port"
    reused: bool  # the request used a connection that was already open
    requested: bool  # at least part of the request was sent
    os_error: int
    started_at: datetime
    timing: Timing


def conclude(facts: Facts) -> Sent:
    """Return the result: the status if all headers of the final response have arrived, otherwise the error."""
    headers = final_headers(facts.lines) if facts.status >= 200 else None
    if headers is not None:
        return Sent(
            status=facts.status,
            headers=headers,
            body=facts.body,
            truncated=facts.cut or facts.code != 0,
            detail=f"{CUT_OFF}: {_clean(facts.text)}" if facts.code and not facts.cut else "",
            address=facts.address,
            started_at=facts.started_at,
            timing=facts.timing,
        )
    kind, detail = explain(facts)
    return Sent(
        error=kind,
        detail=_clean(detail),
        address=facts.address,
        started_at=facts.started_at,
        timing=facts.timing,
        untouched=not facts.requested,
    )


def final_headers(lines: Sequence[bytes]) -> dict[str, str] | None:
    """Return the headers of interest of the first response that is not a 1xx. None if its headers are incomplete."""
    headers: dict[str, str] = {}
    interim = True
    for line in lines:
        if line in (b"\r\n", b"\n"):
            if not interim:
                return headers  # any further lines are trailers
            continue
        if interim and line[:5] == b"HTTP/":
            interim = line.partition(b" ")[2][:1] == b"1"
        elif not interim and (field := field_of(line)) is not None:
            headers.setdefault(*field)
    return None


def field_of(line: bytes) -> tuple[str, str] | None:
    """Return the name and value of a response header that `INTEREST` lists, or None for any other line. Short lines
    are cached, because most lines repeat."""
    return _cached_field(line) if len(line) <= MAX_CACHED else _field(line)


def _field(line: bytes) -> tuple[str, str] | None:
    name, _, value = line.partition(b":")
    key = name.decode("latin-1").strip().lower()
    return (key, value.decode("latin-1").strip()[:MAX_VALUE]) if key in INTEREST else None


_cached_field = lru_cache(maxsize=4_096)(_field)


# This machine lacks a resource. These errors say nothing about the endpoint.
_LOCAL = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL})
_UNCONNECTED = {
    errno.ECONNREFUSED: ErrorKind.REFUSED,
    errno.ETIMEDOUT: ErrorKind.TIMEOUT,
    errno.ECONNRESET: ErrorKind.RESET,
}


def explain(facts: Facts) -> tuple[ErrorKind, str]:
    """Return the kind of failure, and a text for users: the phase, then the problem."""
    code = facts.code
    if facts.blocked and not facts.requested:
        return ErrorKind.BLOCKED, f"connecting: the address {facts.blocked} is refused by the guard"
    if facts.flooded:
        return ErrorKind.MALFORMED, "reading the response: its headers are too many or too long"
    if code == pycurl.E_OPERATION_TIMEDOUT:
        return ErrorKind.TIMEOUT, f"{_phase(facts)}: timed out after {facts.timing.total / 1e6:.1f} s"
    if code == pycurl.E_COULDNT_CONNECT:
        return _unconnected(facts)
    if code == pycurl.E_COULDNT_RESOLVE_HOST:
        return ErrorKind.DNS, f"resolving the name: {facts.text}"
    if code in _TLS:
        return ErrorKind.TLS, f"TLS handshake: {facts.text}"
    if code in _ENDED:
        return _ended(facts)
    if code in _UNSENDABLE or (code == pycurl.E_UNSUPPORTED_PROTOCOL and not facts.requested):
        return ErrorKind.UNSENDABLE, f"building the request: {facts.text}"
    if code in _MALFORMED:
        return ErrorKind.MALFORMED, f"reading the response: {facts.text}"
    if code == 0:
        broken = f"only an interim {facts.status} arrived" if facts.status < 200 else "it ended within its headers"
        return ErrorKind.MALFORMED, f"reading the response: {broken}"
    return ErrorKind.NETWORK, f"{_phase(facts)}: {facts.text}"


def _unconnected(facts: Facts) -> tuple[ErrorKind, str]:
    what = os.strerror(facts.os_error).lower() if facts.os_error else facts.text
    if facts.os_error in _LOCAL:
        return ErrorKind.INTERRUPTED, f"connecting: {what} on the sender's machine"
    return _UNCONNECTED.get(facts.os_error, ErrorKind.NETWORK), f"connecting: {what}"


def _ended(facts: Facts) -> tuple[ErrorKind, str]:
    # A reused connection ended before the response. Perhaps the receiver closed it because it was idle, and the request
    # never arrived. Or the request arrived, and the answer was lost.
    if facts.code == pycurl.E_SEND_FAIL_REWIND or (facts.reused and not facts.lines):
        what = "the receiver closed a reused connection during the request; the request may have arrived"
        return ErrorKind.AMBIGUOUS, f"{_phase(facts)}: {what}"
    if facts.code == pycurl.E_GOT_NOTHING:
        return ErrorKind.RESET, f"{_phase(facts)}: the connection was closed without a response"
    return ErrorKind.RESET, f"{_phase(facts)}: {facts.text}"


def _phase(facts: Facts) -> str:
    if not facts.requested:
        return "TLS handshake" if facts.timing.connect else "connecting"
    return "reading the response" if facts.lines else "waiting for the response"


def _clean(text: str) -> str:
    """Cut the text off after `MAX_DETAIL` characters, and replace line breaks and other unprintable characters with
    spaces. The database stores the result, and pages show it."""
    return "".join(letter if letter.isprintable() else " " for letter in text[:MAX_DETAIL]).strip()
