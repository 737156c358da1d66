"""Request and answer of an attempt side by side, and bytes as text: what tenants sent and what receivers answered. Pure."""

from __future__ import annotations

import re

import msgspec

from hookline.dashboard import components
from hookline.dashboard.request_preview import Request
from hookline.model import Attempt
from hookline.web.html import Child, Safe, join, tag

PRETTY = 16 * 1024  # bytes of a payload that is laid out; of a larger one the beginning is shown as it is
MAX_PRETTY = 64 * 1024  # characters: what is nested deeply grows as it is laid out

# Line ends and tabs stay. Marks that turn the direction of writing would show another text than there is.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def text(raw: bytes) -> str:
    """For people: what cannot be seen is a � ."""
    return _UNSEEN.sub("\ufffd", raw.decode(errors="replace").replace("\r\n", "\n"))


def pretty(payload: bytes) -> str | None:
    """JSON laid out, every number and every key as it came. None: it is too large for that, or nested too deeply."""
    if len(payload) > PRETTY:
        return None
    try:
        laid_out = msgspec.json.format(payload, indent=2)
    except (msgspec.DecodeError, RecursionError):
        return None
    return text(laid_out) if len(laid_out) <= MAX_PRETTY else None


def sides(request: Request | None, attempt: Attempt, *, most: int, changed: bool, more: Child = None) -> Safe:
    """`most` bytes of the answer's body are shown; `more` leads to the rest. `changed`: the endpoint is not what it was."""
    return components.columns(_request(request, changed), _response(attempt, most, more))


def _request(request: Request | None, changed: bool) -> Safe:
    if request is None:
        return tag("div", tag("h3", "Request"), tag("p", "The endpoint is gone.", class_="quiet"))
    note = tag("p", "The endpoint was changed since: URL and headers are as they are now.", class_="quiet")
    return tag("div", tag("h3", "Request"), note if changed else None, request_block(request))


def request_block(request: Request) -> Safe:
    lines = "\n".join([f"POST {request.url}", *request.lines])
    return components.code(text(lines.encode(errors="replace")), name="request headers")


def _response(attempt: Attempt, most: int, more: Child) -> Safe:
    return tag("div", tag("h3", "Response"), *_answer(attempt, most, more))


def _answer(attempt: Attempt, most: int, more: Child) -> list[Child]:
    if attempt.status_code is None:
        words = f"No answer: {attempt.error.value if attempt.error else 'it is not known why'}"
        return [tag("p", f"{words}. {attempt.detail}".strip())]
    head = "\n".join(
        [str(attempt.status_code), *(f"{key}: {value}" for key, value in attempt.response_headers.items())]
    )
    shown = attempt.response_body[:most]
    rest = len(attempt.response_body) - len(shown)
    cut = "The endpoint sent more; only the beginning of it was kept." if attempt.truncated and not rest else None
    return [
        components.code(text(head.encode(errors="replace")), name="response headers"),
        components.code(text(shown), name="response body") if shown else tag("p", "An empty body.", class_="quiet"),
        tag("p", f"{rest:,} bytes more. ", more, class_="quiet") if rest else None,
        tag("p", cut, class_="quiet") if cut else None,
    ]


def payload_block(payload: bytes, *, raw: bool) -> Safe:
    laid_out = None if raw else pretty(payload)
    if laid_out is not None:
        return components.code(laid_out, name="payload")
    shown = payload[:PRETTY]
    rest = len(payload) - len(shown)
    return join(
        components.code(text(shown), name="payload"),
        tag("p", f"{rest:,} bytes more: download it to see them.", class_="quiet") if rest else None,
    )
