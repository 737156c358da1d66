"""Shows the request and the response of an attempt side by side, and untrusted bytes as text."""

from __future__ import annotations

import re

import msgspec

from hookline.dashboard import components, request_preview
from hookline.dashboard.request_preview import Request
from hookline.model.attempts import Attempt
from hookline.model.endpoints import Endpoint
from hookline.model.messages import Message
from hookline.web.html import Child, Safe, join, tag

MAX_FORMATTED = 16 * 1024  # bytes; a larger payload is not indented, and only its first bytes are shown
MAX_INDENTED = 64 * 1024  # maximum bytes after indenting, which makes a deeply nested payload much longer

# Control characters except line feeds and tabs, and characters that change the direction of text.
_INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def text(raw: bytes) -> str:
    """Return bytes as text in which U+FFFD replaces every invisible character."""
    return _INVISIBLE.sub("\ufffd", raw.decode(errors="replace").replace("\r\n", "\n"))


def pretty(payload: bytes) -> str | None:
    """Return the payload as indented JSON with unchanged numbers and keys. Return None if it is not JSON, too large or
    nested too deeply."""
    if len(payload) > MAX_FORMATTED:
        return None
    try:
        indented = msgspec.json.format(payload, indent=2)
    except (msgspec.DecodeError, RecursionError):
        return None
    return text(indented) if len(indented) <= MAX_INDENTED else None


def sides(endpoint: Endpoint | None, message: Message, attempt: Attempt, *, most: int, more: Child = None) -> Safe:
    """Show request and response, with at most `most` bytes of the response body. `more` links to the whole body.

    `endpoint` is None if the endpoint was deleted.
    """
    request = tag("div", tag("h3", "Request"), *_request(endpoint, message, attempt))
    response = tag("div", tag("h3", "Response"), *_answer(attempt, most, more))
    return components.columns(request, response)


def _request(endpoint: Endpoint | None, message: Message, attempt: Attempt) -> list[Child]:
    if endpoint is None:
        return [components.quiet("The endpoint was deleted.")]
    request = request_preview.request(endpoint, message, number=attempt.number, at=attempt.started_at)
    words = "The endpoint was changed after this attempt. URL and headers are the current ones."
    changed = endpoint.updated_at > attempt.started_at
    return [components.quiet(words) if changed else None, request_block(request)]


def request_block(request: Request) -> Safe:
    lines = "\n".join([f"POST {request.url}", *request.lines])
    return components.code(text(lines.encode(errors="replace")), name="request headers")


def _answer(attempt: Attempt, most: int, more: Child) -> list[Child]:
    if attempt.status_code is None:
        words = f"No response: {attempt.error.value if attempt.error else 'unknown reason'}"
        return [tag("p", f"{words}. {attempt.detail}".strip())]
    lines = (f"{key}: {value}" for key, value in attempt.response_headers.items())
    head = "\n".join([str(attempt.status_code), *lines])
    shown = attempt.response_body[:most]
    rest = len(attempt.response_body) - len(shown)
    found: list[Child] = [
        components.code(text(head.encode(errors="replace")), name="response headers"),
        components.code(text(shown), name="response body") if shown else components.quiet("The body is empty."),
    ]
    if rest:
        found.append(components.quiet(f"{rest:,} more bytes. ", more))
    elif attempt.truncated:
        found.append(components.quiet("The endpoint sent more. Only the first bytes were stored."))
    return found


def payload_block(payload: bytes, *, raw: bool) -> Safe:
    indented = None if raw else pretty(payload)
    if indented is not None:
        return components.code(indented, name="payload")
    shown = payload[:MAX_FORMATTED]
    rest = len(payload) - len(shown)
    return join(
        components.code(text(shown), name="payload"),
        components.quiet(f"{rest:,} more bytes. Download the payload to see them.") if rest else None,
    )
