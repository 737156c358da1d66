"""The trace that a message belongs to: W3C Trace Context, kept as one text, the traceparent and a tracestate after a space. Pure.

It comes from anywhere: a caller's headers, a row that was written by hand. What is not well formed is dropped, as the
specification asks: a message is worth more than its trace, and what is kept becomes headers of a request.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

PARENT, STATE = "traceparent", "tracestate"
MAX_MEMBERS = 32  # of a tracestate
MAX_STATE = 512  # characters of it that are passed on
_LONG = 128  # characters of a member that is among the first to go

_PARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_MEMBER = re.compile(
    r"([a-z0-9][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13})"
    r"=[ -+\--<>-~]{0,255}[!-+\--<>-~]"
)


def well_formed(trace: object) -> str | None:
    """What can be kept of it: all, the traceparent alone, or nothing."""
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
    """Of a request, names in lower case. Two traceparents are none; several tracestates are one."""
    found = [(name, value.decode("latin-1")) for name, value in headers if name in (b"traceparent", b"tracestate")]
    parents = [value for name, value in found if name == b"traceparent"]
    if len(parents) != 1:
        return None
    return joined(parents[0].strip(" \t"), ",".join(value for name, value in found if name == b"tracestate"))


def header_lines(trace: str) -> list[str]:
    """Judged once more: a line break in it would be a header of somebody's choosing."""
    kept = well_formed(trace)
    if kept is None:
        return []
    parent, _, state = kept.partition(" ")
    return [f"{PARENT}: {parent}", f"{STATE}: {state}"] if state else [f"{PARENT}: {parent}"]


def trace_id(trace: str) -> str:
    """What people look for, of one that is well formed."""
    return trace[3:35]


def _parent(text: str) -> str | None:
    """Of a later version what this one knows of it, in this one's form."""
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
    """All of it or nothing, where a member is wrong; whole members less, where it is too long."""
    members = [member for part in text.split(",") if (member := part.strip(" \t"))]
    if len(members) > MAX_MEMBERS:
        return ""
    found = [_MEMBER.fullmatch(member) for member in members]
    if None in found or len({member[1] for member in found if member}) < len(members):
        return ""
    return ",".join(_shortened(members))


def _shortened(members: list[str]) -> list[str]:
    """The long ones go first, then those at the end, as the specification asks."""
    kept = dict(enumerate(members))
    order = sorted(kept, key=lambda place: (len(members[place]) <= _LONG, -place))
    while len(",".join(kept.values())) > MAX_STATE:
        del kept[order.pop(0)]
    return list(kept.values())
