"""Read the id and the type of an event from a header or from the body, after its signature was checked."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from hookline.signing.signature_headers import Request, SignedParts

_LONGEST = 256
_STRIPE_EVENTS = ("event", "v2.core.event")


class Label(NamedTuple):
    id: str | None
    event_type: str | None


# ── one function for each way to find id and type ─────────────────────────────────────────────────────────────────


def of_dotted(prefix: str, request: Request, _: SignedParts) -> Label:
    return Label(in_header(request, f"{prefix}-id"), _event_type(request))


of_hookline = partial(of_dotted, "webhook")


def of_stripe(request: Request, signed: SignedParts) -> Label:
    """Use the id in the body if the body is an event of Stripe. In another body, `id` may be the id of an order."""
    event = in_body(request)
    event_id = as_label(event.id) if event.object in _STRIPE_EVENTS else None
    return of_hookline(request, signed) if event_id is None else Label(event_id, as_label(event.type))


def of_slack(request: Request, _: SignedParts) -> Label:
    """Read the id and the type from the body. Slack's commands and interactions are forms and have no id."""
    event = in_body(request)
    inner = event.event.get("type") if isinstance(event.event, dict) else None
    return Label(as_label(event.event_id), as_label(inner) or as_label(event.type))


def both_in(id_header: str, type_header: str, request: Request, _: SignedParts) -> Label:
    """Read the id and the type from headers.

    Hookline sends its own type header even if it signs like another provider.
    """
    event_type = in_header(request, type_header) or in_header(request, "webhook-event-type")
    return Label(in_header(request, id_header), event_type)


def _event_type(request: Request) -> str | None:
    """Return the type from Hookline's header, or else from the field `type` of the body (Standard Webhooks)."""
    return in_header(request, "webhook-event-type") or as_label(in_body(request).type)


# ── reading headers and body ──────────────────────────────────────────────────────────────────────────────────────


def in_header(request: Request, name: str) -> str | None:
    return request.headers.optional(name, _LONGEST)


class Event(Struct, frozen=True):
    """The JSON fields in which providers put ids and types.

    A field may have any value, and is None if it is missing.
    """

    id: Any = None
    type: Any = None
    object: Any = None
    event_id: Any = None
    event: Any = None


_decoder = msgspec.json.Decoder(Event)


def in_body(request: Request) -> Event:
    """Decode the body. If it is a form, or JSON that is not an object or is nested too deeply, return an event
    without id and type."""
    try:
        return _decoder.decode(request.body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return Event()


def as_label(value: object) -> str | None:
    """Return the value if it can be an id or a type: a printable str of 1 to 256 characters. Otherwise return None."""
    return value if isinstance(value, str) and 0 < len(value) <= _LONGEST and value.isprintable() else None
