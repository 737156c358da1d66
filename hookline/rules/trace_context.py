"""The W3C Trace Context of a message. It is stored as one string: the traceparent, a space, and the tracestate.

The input is untrusted: request headers, or rows written by hand. Malformed parts are dropped, as the specification
requires, because the stored string becomes headers of outgoing requests. A malformed trace never causes a message to
be refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

PARENT, STATE = "traceparent", "tracestate"
MAX_MEMBERS = 32  # a tracestate with more members is dropped
MAX_STATE = 512  # maximum characters of a tracestate; a longer one loses whole members: see `_shortened`
_LONG = 128  # characters; members longer than this are removed first

_PARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_MEMBER = re.compile(
    r"([a-z0-9][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13})"
    r"=[ -+\--<>-~]{0,255}[!-+\--<>-~]"
)


def well_formed(trace: object) -> str | None:
    """Return the valid part of a trace context: all of it, only the traceparent, or None."""
    if not isinstance(trace, str):
        return None
    parent, _, state = trace.partition(" ")
    return joined(parent, state)


def joined(parent: str, state: str) -> str | None:
    kept = _parent(parent)
    if kept is None:
        return None
    members = _state(state) if state else ""
    return f"{kept} {members}" if members else kept


def of_headers(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Read the trace context from request headers with lower-case names. Several tracestates are joined.

    The result is None unless there is exactly one traceparent.
    """
    found = [(name, value.decode("latin-1")) for name, value in headers if name in (b"traceparent", b"tracestate")]
    parents = [value for name, value in found if name == b"traceparent"]
    if len(parents) != 1:
        return None
    return joined(parents[0].strip(" \t"), ",".join(value for name, value in found if name == b"tracestate"))


def header_lines(trace: str) -> list[str]:
    """Return the header lines of a request. The trace is checked again, because a line break in it could inject a
    header."""
    kept = well_formed(trace)
    if kept is None:
        return []
    parent, _, state = kept.partition(" ")
    return [f"{PARENT}: {parent}", f"{STATE}: {state}"] if state else [f"{PARENT}: {parent}"]


def trace_id(trace: str) -> str:
    """Return the trace id of a well-formed trace context."""
    return trace[3:35]


def _parent(text: str) -> str | None:
    """Return the traceparent if it is valid, and None if it is not. Convert a later version to version 00."""
    found = _PARENT.fullmatch(text)
    if found is None:
        return None
    version, trace, span, flags, rest = found.groups()
    if version == "ff" or not trace.strip("0") or not span.strip("0"):
        return None
    if version == "00":
        return text if rest is None else None
    return f"00-{trace}-{span}-{int(flags, 16) & 1:02x}"


def _state(text: str) -> str:
    """Return the tracestate, without some of its members if it is longer than `MAX_STATE`.

    The result is empty if a member is malformed, if two members have the same key, or if there are more than
    `MAX_MEMBERS` members.
    """
    members = [member for part in text.split(",") if (member := part.strip(" \t"))]
    if len(members) > MAX_MEMBERS:
        return ""
    found = [_MEMBER.fullmatch(member) for member in members]
    if None in found or len({member[1] for member in found if member}) < len(members):
        return ""
    return ",".join(_shortened(members))


def _shortened(members: list[str]) -> list[str]:
    """Remove members until the tracestate is short enough: long ones first, then from the end, as the specification
    says."""
    kept = dict(enumerate(members))
    order = sorted(kept, key=lambda place: (len(members[place]) <= _LONG, -place))
    while len(",".join(kept.values())) > MAX_STATE:
        del kept[order.pop(0)]
    return list(kept.values())
