"""Spans as plain data: where in a trace a message is, and what its acceptance, deliveries and attempts say of themselves. Pure.

No span is kept while it runs: its id is made of the ids that it is about, so that any worker's attempts are children of one
delivery, and whoever records the end of that delivery can tell its whole span.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from enum import Enum

from msgspec import Struct

from hookline.clock import to_micros
from hookline.model import Dead, Death, Delivered, LeasedDelivery, Result, Retry
from hookline.model.states import Reason
from hookline.observe.attempt_log import told
from hookline.rules.trace_context import well_formed

SAMPLED = 1  # of a traceparent's flags

Value = str | int | bool


class Context(Struct, frozen=True, kw_only=True):
    """A place in a trace: what a traceparent and its tracestate say."""

    trace_id: int
    span_id: int  # 0: none, what follows is at the root
    flags: int = 0
    state: str = ""

    @property
    def sampled(self) -> bool:
        return bool(self.flags & SAMPLED)

    def child(self, span_id: int, *, sampled: bool) -> Context:
        flags = self.flags | SAMPLED if sampled else self.flags & ~SAMPLED
        return Context(trace_id=self.trace_id, span_id=span_id, flags=flags, state=self.state)

    def text(self) -> str:
        """As it is kept with a message, and becomes headers."""
        parent = f"00-{self.trace_id:032x}-{self.span_id:016x}-{self.flags:02x}"
        return f"{parent} {self.state}" if self.state else parent


class Kind(Enum):
    SERVER = "server"
    INTERNAL = "internal"
    CLIENT = "client"


class Span(Struct, frozen=True, kw_only=True):
    """Finished. Instants are nanoseconds since 1970."""

    name: str
    kind: Kind
    context: Context
    parent: Context
    start: int
    end: int
    attributes: Mapping[str, Value]
    events: tuple[tuple[str, int], ...] = ()  # names and instants
    fault: str | None = None  # what went wrong, for people


# ── where ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def of_message(message_id: str, trace: str | None) -> Context:
    """What its deliveries are children of: the publisher's span, or the root of a trace that is made of the message's id."""
    return read(trace) or Context(trace_id=_derived(16, "trace", message_id), span_id=0)


def read(trace: str | None) -> Context | None:
    """None where it is not well formed."""
    kept = well_formed(trace)
    if kept is None:
        return None
    parent, _, state = kept.partition(" ")
    _, trace_id, span_id, flags = parent.split("-")
    return Context(trace_id=int(trace_id, 16), span_id=int(span_id, 16), flags=int(flags, 16), state=state)


def of_delivery(message: Context, message_id: str, delivery_id: int, *, manual: bool = False) -> Context:
    """What its attempts are children of, of a message that is sampled.

    One that somebody asked for is a replay of what has ended, its span too: its attempts are the message's own children.
    """
    span_id = message.span_id if manual else _derived(8, "delivery", message_id, delivery_id)
    return message.child(span_id, sampled=True)


def of_attempt(message: Context, job: LeasedDelivery) -> Context:
    """Its claim is what tells it from the delivery's other attempts."""
    return message.child(_derived(8, "attempt", job.message_id, job.delivery_id, job.claim), sampled=True)


def _derived(size: int, *parts: str | int) -> int:
    """The message's id is among them: two deployments may have deliveries of one number in one trace."""
    text = ":".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=size).digest()) or 1


# ── what ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def attempt(result: Result, delivery: Context, endpoint: str) -> Span:
    """From its start to the end of the answer, by the database's clock, as the delivery's; the phases are events."""
    job, timing = result.job, result.sent.timing
    end = _end(result)
    start = end - timing.total * 1000
    phases = (("dns", timing.dns), ("connect", timing.connect), ("tls", timing.tls), ("first_byte", timing.first_byte))
    return Span(
        name="hookline.attempt",
        kind=Kind.CLIENT,
        context=of_attempt(delivery, job),
        parent=delivery,
        start=start,
        end=end,
        attributes=_of_attempt(result, endpoint),
        events=tuple((name, start + micros * 1000) for name, micros in phases if micros),
        fault=None if isinstance(result.judgement.verdict, Delivered) else _fault(result),
    )


def _of_attempt(result: Result, endpoint: str) -> dict[str, Value]:
    """Never the URL: there are secrets in the paths of some."""
    job, sent = result.job, result.sent
    found: dict[str, Value] = {
        "http.request.method": "POST",
        "hookline.message.id": job.message_id,
        "hookline.endpoint.id": endpoint,
        "hookline.event_type": job.event_type,
        "hookline.attempt.id": result.attempt_id,
        "hookline.attempt.number": job.sent + 1,
        "hookline.outcome": _OUTCOMES[type(result.judgement.verdict)],
    }
    if sent.status is not None:
        found["http.response.status_code"] = sent.status
    host, _, port = sent.address.rpartition(":")
    if host and port.isdecimal():
        found |= {"network.peer.address": host.strip("[]"), "network.peer.port": int(port)}
    if found["hookline.outcome"] != "delivered":
        found["error.type"] = _error_type(result)
    if job.sent:
        found["http.request.resend_count"] = job.sent
    if job.probe:
        found["hookline.probe"] = True
    if job.trigger:
        found["hookline.manual"] = True
    return found


_OUTCOMES: dict[type, str] = {Delivered: "delivered", Retry: "retry", Dead: "dead"}


def _error_type(result: Result) -> str:
    sent = result.sent
    return sent.error.value if sent.error is not None else str(sent.status)


def _fault(result: Result) -> str:
    """Not the words for people where there was an answer: a redirect's name its location, and there are secrets in paths."""
    sent, verdict = result.sent, result.judgement.verdict
    if sent.status is not None:
        return f"{verdict.reason.value}: {sent.status}" if isinstance(verdict, Dead) else str(sent.status)
    return told(sent.detail) if sent.detail else _error_type(result)


def delivery(result: Result, message: Context, context: Context, endpoint: str, reason: Reason | None) -> Span:
    """From acceptance to the end: `reason` says why it died, None that it was delivered."""
    job = result.job
    return _delivery(
        message,
        context,
        start=_nanos(job.accepted_at),
        end=_end(result),
        reason=reason,
        attributes={
            "hookline.message.id": job.message_id,
            "hookline.endpoint.id": endpoint,
            "hookline.event_type": job.event_type,
            "hookline.attempts": job.sent + 1,
        },
    )


def death(found: Death, message: Context, context: Context, endpoint: str) -> Span:
    """Of a delivery that died while it waited."""
    return _delivery(
        message,
        context,
        start=_nanos(found.accepted_at),
        end=_nanos(found.died_at),
        reason=found.reason,
        attributes={
            "hookline.message.id": found.message_id,
            "hookline.endpoint.id": endpoint,
            "hookline.event_type": found.event_type,
            "hookline.attempts": found.sent,
        },
    )


def _delivery(
    message: Context,
    context: Context,
    *,
    start: int,
    end: int,
    reason: Reason | None,
    attributes: dict[str, Value],
) -> Span:
    attributes["hookline.outcome"] = "delivered" if reason is None else "dead"
    if reason is not None:
        attributes["hookline.reason"] = attributes["error.type"] = reason.value
    return Span(
        name="hookline.delivery",
        kind=Kind.INTERNAL,
        context=context,
        parent=message,
        start=start,
        end=max(start, end),
        attributes=attributes,
        fault=None if reason is None else reason.value,
    )


def _end(result: Result) -> int:
    if result.ended_at is not None:
        return _nanos(result.ended_at)
    return _nanos(result.sent.started_at) + result.sent.timing.total * 1000


def _nanos(at: datetime) -> int:
    return to_micros(at) * 1000
