"""Shows the request and the response of an attempt side by side, and untrusted bytes as text."""

from __future__ import annotations

import re

import msgspec

from hookline.dashboard import components
from hookline.dashboard.request_preview import Request
from hookline.model import Attempt
from hookline.web.html import Child, Safe, join, tag

MAX_FORMATTED = 16 * 1024  # bytes; a larger payload is not indented, and only its first bytes are shown
MAX_INDENTED = 64 * 1024  # characters after indenting, because deep nesting makes a payload much longer

# Control characters except line feeds and tabs, and characters that change the direction of text.
_INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def text(raw: bytes) -> str:
    """Return bytes as text in which U+FFFD replaces every invisible character."""
    return _INVISIBLE.sub("\ufffd", raw.decode(errors="replace").replace("\r\n", "\n"))


def pretty(payload: bytes) -> str | None:
    """Return indented JSON with unchanged numbers and keys. Return None if it is too large or nested too deeply."""
    if len(payload) > MAX_FORMATTED:
        return None
    try:
        indented = msgspec.json.format(payload, indent=2)
    except (msgspec.DecodeError, RecursionError):
        return None
    return text(indented) if len(indented) <= MAX_INDENTED else None


def sides(request: Request | None, attempt: Attempt, *, most: int, changed: bool, more: Child = None) -> Safe:
    """Show at most `most` bytes of the response body; `more` links to all of it. `changed`: the endpoint was edited later."""
    return components.columns(_request(request, changed), _response(attempt, most, more))


def _request(request: Request | None, changed: bool) -> Safe:
    if request is None:
        return tag("div", tag("h3", "Request"), tag("p", "The endpoint was deleted.", class_="quiet"))
    note = tag(
        "p", "The endpoint was changed after this attempt. URL and headers are the current ones.", class_="quiet"
    )
    return tag("div", tag("h3", "Request"), note if changed else None, request_block(request))


def request_block(request: Request) -> Safe:
    lines = "\n".join([f"POST {request.url}", *request.lines])
    return components.code(text(lines.encode(errors="replace")), name="request headers")


def _response(attempt: Attempt, most: int, more: Child) -> Safe:
    return tag("div", tag("h3", "Response"), *_answer(attempt, most, more))


def _answer(attempt: Attempt, most: int, more: Child) -> list[Child]:
    if attempt.status_code is None:
        words = f"No response: {attempt.error.value if attempt.error else 'unknown reason'}"
        return [tag("p", f"{words}. {attempt.detail}".strip())]
    head = "\n".join(
        [str(attempt.status_code), *(f"{key}: {value}" for key, value in attempt.response_headers.items())]
    )
    shown = attempt.response_body[:most]
    rest = len(attempt.response_body) - len(shown)
    cut = "The endpoint sent more. Only the first bytes were stored." if attempt.truncated and not rest else None
    return [
        components.code(text(head.encode(errors="replace")), name="response headers"),
        components.code(text(shown), name="response body") if shown else tag("p", "The body is empty.", class_="quiet"),
        tag("p", f"{rest:,} more bytes. ", more, class_="quiet") if rest else None,
        tag("p", cut, class_="quiet") if cut else None,
    ]


def payload_block(payload: bytes, *, raw: bool) -> Safe:
    indented = None if raw else pretty(payload)
    if indented is not None:
        return components.code(indented, name="payload")
    shown = payload[:MAX_FORMATTED]
    rest = len(payload) - len(shown)
    return join(
        components.code(text(shown), name="payload"),
        tag("p", f"{rest:,} more bytes. Download the payload to see them.", class_="quiet") if rest else None,
    )
