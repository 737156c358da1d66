"""From libcurl's codes and header lines to a `Sent`: what happened, in which phase, in one sentence. Pure."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache

import pycurl
from msgspec import Struct

from hookline.model import Sent, Timing
from hookline.model.states import ErrorKind
from hookline.rules.redaction import CUT_OFF

MAX_VALUE = 1_024  # characters of one header that are kept
MAX_SEEN = 256  # bytes of a header line that is remembered
MAX_DETAIL = 400

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
    pycurl.E_FTP_WEIRD_SERVER_REPLY,  # CURLE_WEIRD_SERVER_REPLY by its old name: a status line or header that is none
    pycurl.E_UNSUPPORTED_PROTOCOL,  # HTTP/0.9, or a version that does not exist
    pycurl.E_BAD_CONTENT_ENCODING,  # a Transfer-Encoding nobody asked for
    pycurl.E_PARTIAL_FILE,
    pycurl.E_WRITE_ERROR,  # ours, when the headers passed their cap
    _TOO_LARGE,
})  # fmt: skip
# The connection ended under the request.
_ENDED = frozenset({pycurl.E_GOT_NOTHING, pycurl.E_SEND_ERROR, pycurl.E_RECV_ERROR, pycurl.E_SEND_FAIL_REWIND})
_UNSENDABLE = frozenset({pycurl.E_URL_MALFORMAT, pycurl.E_BAD_FUNCTION_ARGUMENT})


class Facts(Struct, frozen=True, kw_only=True):
    """All that is known when a transfer ends."""

    code: int  # libcurl's; 0 is well
    text: str
    status: int
    lines: Sequence[bytes]  # header lines of every response, 1xx and trailers included
    body: bytes
    cut: bool  # at our own cap
    flooded: bool  # headers past their cap
    blocked: str  # the address that the guard refused
    address: str  # dialled, "ip:port"
    reused: bool  # an open connection carried it
    requested: bool  # some of the request was sent
    os_error: int
    started_at: datetime
    timing: Timing


def conclude(facts: Facts) -> Sent:
    """Once the final headers are in, the status decides; otherwise the error does."""
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
    """Those of interest from the first response that is not a 1xx; None while its headers have not ended."""
    headers: dict[str, str] = {}
    interim = True
    for line in lines:
        if line in (b"\r\n", b"\n"):
            if not interim:
                return headers  # what may follow are trailers
            continue
        if interim and line[:5] == b"HTTP/":
            interim = line.partition(b" ")[2][:1] == b"1"
        elif not interim and (field := field_of(line)) is not None:
            headers.setdefault(*field)
    return None


def field_of(line: bytes) -> tuple[str, str] | None:
    """The name and value of a header of interest. Receivers repeat themselves: most lines were seen before."""
    return _seen_field(line) if len(line) <= MAX_SEEN else _field(line)


def _field(line: bytes) -> tuple[str, str] | None:
    name, _, value = line.partition(b":")
    key = name.decode("latin-1").strip().lower()
    return (key, value.decode("latin-1").strip()[:MAX_VALUE]) if key in INTEREST else None


_seen_field = lru_cache(maxsize=4_096)(_field)


# What this machine lacks. It says nothing of the endpoint.
_OURS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL})


def explain(facts: Facts) -> tuple[ErrorKind, str]:
    """What kind of failure, and a sentence for people: the phase, then what went wrong in it."""
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
        broken = f"only an interim {facts.status} came" if facts.status < 200 else "it broke off in its headers"
        return ErrorKind.MALFORMED, f"reading the response: {broken}"
    return ErrorKind.NETWORK, f"{_phase(facts)}: {facts.text}"


def _unconnected(facts: Facts) -> tuple[ErrorKind, str]:
    what = os.strerror(facts.os_error).lower() if facts.os_error else facts.text
    if facts.os_error == errno.ECONNREFUSED:
        return ErrorKind.REFUSED, f"connecting: {what}"
    if facts.os_error == errno.ETIMEDOUT:
        return ErrorKind.TIMEOUT, f"connecting: {what}"
    if facts.os_error == errno.ECONNRESET:
        return ErrorKind.RESET, f"connecting: {what}"
    if facts.os_error in _OURS:
        return ErrorKind.INTERRUPTED, f"connecting: {what} on the sender's machine"
    return ErrorKind.NETWORK, f"connecting: {what}"


def _ended(facts: Facts) -> tuple[ErrorKind, str]:
    # Without a byte of response on a connection that was open before, the receiver may just have let it go.
    if facts.code == pycurl.E_SEND_FAIL_REWIND or (facts.reused and not facts.lines):
        return (
            ErrorKind.AMBIGUOUS,
            f"{_phase(facts)}: a connection kept open closed under the request; it may have arrived",
        )
    if facts.code == pycurl.E_GOT_NOTHING:
        return ErrorKind.RESET, f"{_phase(facts)}: the connection was closed without a response"
    return ErrorKind.RESET, f"{_phase(facts)}: {facts.text}"


def _phase(facts: Facts) -> str:
    if not facts.requested:
        return "TLS handshake" if facts.timing.connect else "connecting"
    return "reading the response" if facts.lines else "waiting for the response"


def _clean(text: str) -> str:
    """One printable line: it goes into a text column and in front of people."""
    return "".join(letter if letter.isprintable() else " " for letter in text[:MAX_DETAIL]).strip()
