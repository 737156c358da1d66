"""Trace spans as plain data: one per acceptance, delivery and attempt.

No span is stored while it is open. Its id is derived from the ids of its message, delivery and claim. So attempts of
different workers are children of the same delivery span, and the worker that records the end can create the whole
delivery span.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from hookline.clock import to_micros
from hookline.model.deliveries import LeasedDelivery
from hookline.model.states import Reason
from hookline.model.sweep import Death
from hookline.model.verdicts import OUTCOMES, Dead, Delivered, Result
from hookline.rules.redaction import loggable
from hookline.rules.trace_context import well_formed

SAMPLED = 1  # the sampled bit in the flags of a traceparent

Value = str | int | bool


class Context(Struct, frozen=True, kw_only=True):
    """A span context: the content of a traceparent and its tracestate."""

    trace_id: int
    span_id: int  # 0 means no span: children are root spans
    flags: int = 0
    state: str = ""

    @property
    def sampled(self) -> bool:
        return bool(self.flags & SAMPLED)

    def child(self, span_id: int, *, sampled: bool) -> Context:
        flags = self.flags | SAMPLED if sampled else self.flags & ~SAMPLED
        return Context(trace_id=self.trace_id, span_id=span_id, flags=flags, state=self.state)

    def text(self) -> str:
        """Return the traceparent and tracestate as one string, as a message stores them."""
        parent = f"00-{self.trace_id:032x}-{self.span_id:016x}-{self.flags:02x}"
        return f"{parent} {self.state}" if self.state else parent


class Span(Struct, frozen=True, kw_only=True):
    """A finished span. Times are nanoseconds since 1970."""

    name: str
    kind: str  # a name of OpenTelemetry's `SpanKind`, such as SERVER
    context: Context
    parent: Context
    start: int
    end: int
    attributes: Mapping[str, Value]
    events: tuple[tuple[str, int], ...] = ()  # name and time of each event
    fault: str | None = None  # error message for operators


# ── span contexts ─────────────────────────────────────────────────────────────────────────────────────────────────


def of_message(message_id: str, trace: str | None) -> Context:
    """Return the parent of a message's delivery spans: the publisher's span, or a trace derived from the message
    id."""
    return read(trace) or Context(trace_id=_derived(16, "trace", message_id), span_id=0)


def read(trace: str | None) -> Context | None:
    """Parse a stored trace context; None if it is malformed."""
    kept = well_formed(trace)
    if kept is None:
        return None
    parent, _, state = kept.partition(" ")
    _, trace_id, span_id, flags = parent.split("-")
    return Context(trace_id=int(trace_id, 16), span_id=int(span_id, 16), flags=int(flags, 16), state=state)


def of_delivery(message: Context, message_id: str, delivery_id: int, *, manual: bool = False) -> Context:
    """Return the parent of a delivery's attempt spans, for a sampled message.

    A replayed delivery has already ended, and so has its span. Attempts of a replay are children of the message's
    span.
    """
    span_id = message.span_id if manual else _derived(8, "delivery", message_id, delivery_id)
    return message.child(span_id, sampled=True)


def of_attempt(message: Context, job: LeasedDelivery) -> Context:
    """Return the span context of an attempt. Its id is derived from the claim too, so each attempt has its own id."""
    return message.child(_derived(8, "attempt", job.message_id, job.delivery_id, job.claim), sampled=True)


def _derived(size: int, *parts: str | int) -> int:
    """Derive an id from `parts`. They must include the message id, because two deployments can have spans in the
    same trace, with equal delivery ids and claim tokens."""
    text = ":".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=size).digest()) or 1


# ── spans ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def attempt(result: Result, delivery: Context, endpoint: str) -> Span:
    """Return the span of an attempt, from its start to the end of the response, by the database's clock."""
    job, timing = result.job, result.sent.timing
    end = end_of(result)
    start = end - timing.total * 1000
    phases = (("dns", timing.dns), ("connect", timing.connect), ("tls", timing.tls), ("first_byte", timing.first_byte))
    return Span(
        name="hookline.attempt",
        kind="CLIENT",
        context=of_attempt(delivery, job),
        parent=delivery,
        start=start,
        end=end,
        attributes=_of_attempt(result, endpoint),
        events=tuple((name, start + micros * 1000) for name, micros in phases if micros),
        fault=None if isinstance(result.judgement.verdict, Delivered) else _fault(result),
    )


def _of_attempt(result: Result, endpoint: str) -> dict[str, Value]:
    """Return the attributes of an attempt. The URL is not included, because its path may contain a secret."""
    job, sent = result.job, result.sent
    found: dict[str, Value] = {
        "http.request.method": "POST",
        "hookline.message.id": job.message_id,
        "hookline.endpoint.id": endpoint,
        "hookline.event_type": job.event_type,
        "hookline.attempt.id": result.attempt_id,
        "hookline.attempt.number": job.sent + 1,
        "hookline.outcome": OUTCOMES[type(result.judgement.verdict)],
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


def _error_type(result: Result) -> str:
    sent = result.sent
    return sent.error.value if sent.error is not None else str(sent.status)


def _fault(result: Result) -> str:
    """Return the error message. For a response it is only the status, because a redirect's location may contain a
    secret."""
    sent, verdict = result.sent, result.judgement.verdict
    if sent.status is not None:
        return f"{verdict.reason.value}: {sent.status}" if isinstance(verdict, Dead) else str(sent.status)
    return loggable(sent.detail) if sent.detail else _error_type(result)


def delivery(
    found: LeasedDelivery | Death,
    message: Context,
    context: Context,
    endpoint: str,
    *,
    end: int,
    attempts: int,
    reason: Reason | None,
) -> Span:
    """Return the span of a delivery, from acceptance to its end. `reason` is None if it was delivered."""
    start = nanos(found.accepted_at)
    attributes: dict[str, Value] = {
        "hookline.message.id": found.message_id,
        "hookline.endpoint.id": endpoint,
        "hookline.event_type": found.event_type,
        "hookline.attempts": attempts,
        "hookline.outcome": "delivered" if reason is None else "dead",
    }
    if reason is not None:
        attributes["hookline.reason"] = attributes["error.type"] = reason.value
    return Span(
        name="hookline.delivery",
        kind="INTERNAL",
        context=context,
        parent=message,
        start=start,
        end=max(start, end),
        attributes=attributes,
        fault=None if reason is None else reason.value,
    )


def end_of(result: Result) -> int:
    if result.ended_at is not None:
        return nanos(result.ended_at)
    return nanos(result.sent.started_at) + result.sent.timing.total * 1000


def nanos(at: datetime) -> int:
    return to_micros(at) * 1000
