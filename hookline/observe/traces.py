"""Creates the spans for the work of this process. `observe/otel.py` sends them.

An error here must never fail a request or a delivery.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import structlog

from hookline.clock import quick_chance, wall
from hookline.model.deliveries import LeasedDelivery
from hookline.model.states import Reason
from hookline.model.sweep import Death
from hookline.model.verdicts import Dead, RecordReport, Result, Retry
from hookline.observe import spans
from hookline.observe.spans import Context, Span, Value

log = structlog.get_logger()

Sampled = Callable[[Context], bool]  # whether children of this context are exported; always the same for one context
Export = Callable[[Sequence[Span]], None]  # must neither wait nor raise


class Traces:
    """Creates and exports the spans of one process."""

    def __init__(self, sampled: Sampled, export: Export) -> None:
        self._sampled = sampled
        self._export = export

    # ── accept ──

    def accept(self, trace: str | None) -> Accept:
        """Begin the span of a request that publishes messages, in the caller's trace or a new one.

        If a new trace is not sampled, the messages store that decision, so that no worker decides again.
        """
        parent = spans.read(trace) or Context(trace_id=quick_chance.getrandbits(128) or 1, span_id=0)
        sampled = self._sampled(parent)
        span_id = parent.span_id if parent.span_id and not sampled else quick_chance.getrandbits(64) or 1
        return Accept(parent.child(span_id, sampled=sampled), parent, self._export)

    # ── attempt ──

    def outgoing(self, job: LeasedDelivery) -> str | None:
        """Return the trace context to send to the receiver: the attempt's span. If the message's trace is not sampled,
        return the span that the message stores instead, or None if it stores none."""
        try:
            message = spans.of_message(job.message_id, job.trace)
            if self._sampled(message):
                return spans.of_attempt(message, job).text()
            return message.child(message.span_id, sampled=False).text() if message.span_id else None
        except Exception:  # an exception here would make the delivery a dead letter
            log.exception("trace_failed")
            return job.trace

    def recorded(self, batch: Iterable[Result], report: RecordReport, name_of: Callable[[int], str]) -> None:
        """Export the spans of attempts, and of the deliveries that these attempts ended. If the worker lost the lease,
        the attempt did not end its delivery."""
        self._export_safely(self._of_batch(batch, report, name_of))

    def _of_batch(self, batch: Iterable[Result], report: RecordReport, name_of: Callable[[int], str]) -> Iterator[Span]:
        lost, refused = frozenset(report.lost), frozenset(report.refused)
        for result in batch:
            job = result.job
            message = spans.of_message(job.message_id, job.trace)
            if not self._sampled(message):
                continue
            delivery = spans.of_delivery(message, job.message_id, job.delivery_id, manual=bool(job.trigger))
            endpoint = name_of(job.endpoint_no)
            yield spans.attempt(result, delivery, endpoint)
            verdict = result.judgement.verdict
            is_refused = job.delivery_id in refused
            if job.trigger or result.attempt_id in lost or (isinstance(verdict, Retry) and not is_refused):
                continue
            reason = Reason.UNSENDABLE if is_refused else verdict.reason if isinstance(verdict, Dead) else None
            end = spans.end_of(result)
            yield spans.delivery(job, message, delivery, endpoint, end=end, attempts=job.sent + 1, reason=reason)

    # ── sweep ──

    def died(self, deaths: Iterable[Death], names: Mapping[int, str]) -> None:
        """Export the spans of deliveries that died while they waited."""
        self._export_safely(self._of_deaths(deaths, names))

    def _of_deaths(self, deaths: Iterable[Death], names: Mapping[int, str]) -> Iterator[Span]:
        for death in deaths:
            message = spans.of_message(death.message_id, death.trace)
            if death.manual or not self._sampled(message):
                continue
            context = spans.of_delivery(message, death.message_id, death.delivery_id)
            endpoint = names.get(death.endpoint_no, f"number {death.endpoint_no}")
            end = spans.nanos(death.died_at)
            yield spans.delivery(death, message, context, endpoint, end=end, attempts=death.sent, reason=death.reason)

    def _export_safely(self, made: Iterable[Span]) -> None:
        try:
            self._export(list(made))
        except Exception:
            log.exception("trace_failed")


class Accept:
    """The open span of one request that publishes messages."""

    __slots__ = ("_attributes", "_context", "_export", "_parent", "_start")

    def __init__(self, context: Context, parent: Context, export: Export) -> None:
        self._context = context
        self._parent = parent
        self._export = export
        self._attributes: dict[str, Value] = {"http.request.method": "POST"}
        self._start = spans.nanos(wall())

    @property
    def trace(self) -> str:
        """The trace context that the request's messages store."""
        return self._context.text()

    def note(self, facts: Mapping[str, Value]) -> None:
        """Add attributes to the span, with the prefix `hookline.`."""
        self._attributes.update((f"hookline.{name}", value) for name, value in facts.items())

    def answered(self, route: str, status: int) -> None:
        """End the span. Status 0 means that the caller disconnected."""
        if not self._context.sampled:
            return
        self._attributes["http.route"] = route
        if status:
            self._attributes["http.response.status_code"] = status
        fault = "the caller disconnected" if not status else f"status {status}" if status >= 500 else None
        if fault is not None:
            self._attributes["error.type"] = str(status) if status else "cancelled"
        span = Span(
            name="hookline.accept",
            kind="SERVER",
            context=self._context,
            parent=self._parent,
            start=self._start,
            end=max(self._start, spans.nanos(wall())),
            attributes=self._attributes,
            fault=fault,
        )
        self._export([span])
