"""Traces: which spans there are of what this process does. Whoever sends them off is `observe/otel.py`.

Nothing here may fail a request or a delivery: a trace is worth less than what it is about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import structlog

from hookline.clock import quick_chance, to_micros, wall
from hookline.model import Dead, Death, LeasedDelivery, RecordReport, Result, Retry
from hookline.model.states import Reason
from hookline.observe import spans
from hookline.observe.spans import Context, Kind, Span, Value

log = structlog.get_logger()

Sampled = Callable[[Context], bool]  # whether what follows there is to be told; always the same of one place
Export = Callable[[Sequence[Span]], None]  # neither waits nor raises


class Traces:
    """Of one process."""

    def __init__(self, sampled: Sampled, export: Export) -> None:
        self._sampled = sampled
        self._export = export

    # ── accept ──

    def accept(self, trace: str | None) -> Accept:
        """A request that brings messages, under the caller's trace or a new one.

        Of a new one that is not sampled the messages keep that: a worker would choose again.
        """
        parent = spans.read(trace) or Context(trace_id=quick_chance.getrandbits(128) or 1, span_id=0)
        sampled = self._sampled(parent)
        span_id = parent.span_id if parent.span_id and not sampled else quick_chance.getrandbits(64) or 1
        return Accept(parent.child(span_id, sampled=sampled), parent, self._export)

    # ── attempt ──

    def outgoing(self, job: LeasedDelivery) -> str | None:
        """What the receiver's spans are children of: the attempt that is about to be made, or whoever it is made for."""
        try:
            return self._outgoing(job)
        except Exception:  # to the worker it would be a request that cannot be made: a dead letter
            log.exception("trace_failed")
            return job.trace

    def _outgoing(self, job: LeasedDelivery) -> str | None:
        message = spans.of_message(job.message_id, job.trace)
        if self._sampled(message):
            return spans.of_attempt(message, job).text()
        return message.child(message.span_id, sampled=False).text() if message.span_id else None

    def recorded(self, batch: Iterable[Result], report: RecordReport, name_of: Callable[[int], str]) -> None:
        """The attempts, and the deliveries that they have ended. One whose lease was lost has ended nothing."""
        try:
            self._export(self._of_batch(batch, report, name_of))
        except Exception:
            log.exception("trace_failed")

    def abandoned(self, batch: Iterable[Result], name_of: Callable[[int], str]) -> None:
        """Attempts that were made, and will be made again."""
        batch = list(batch)
        lost = tuple(result.attempt_id for result in batch)
        self.recorded(batch, RecordReport(recorded=0, stale=len(lost), lost=lost), name_of)

    def _of_batch(self, batch: Iterable[Result], report: RecordReport, name_of: Callable[[int], str]) -> list[Span]:
        lost, refused = frozenset(report.lost), frozenset(report.refused)
        made: list[Span] = []
        for result in batch:
            job = result.job
            message = spans.of_message(job.message_id, job.trace)
            if not self._sampled(message):
                continue
            delivery = spans.of_delivery(message, job.message_id, job.delivery_id, manual=bool(job.trigger))
            endpoint = name_of(job.endpoint_no)
            made.append(spans.attempt(result, delivery, endpoint))
            verdict = result.judgement.verdict
            is_refused = job.delivery_id in refused
            if job.trigger or result.attempt_id in lost or (isinstance(verdict, Retry) and not is_refused):
                continue
            reason = Reason.UNSENDABLE if is_refused else verdict.reason if isinstance(verdict, Dead) else None
            made.append(spans.delivery(result, message, delivery, endpoint, reason))
        return made

    # ── sweep ──

    def died(self, deaths: Iterable[Death], names: Mapping[int, str]) -> None:
        """Deliveries that ended without an attempt."""
        try:
            self._export([span for death in deaths if not death.manual and (span := self._of_death(death, names))])
        except Exception:
            log.exception("trace_failed")

    def _of_death(self, death: Death, names: Mapping[int, str]) -> Span | None:
        message = spans.of_message(death.message_id, death.trace)
        if not self._sampled(message):
            return None
        context = spans.of_delivery(message, death.message_id, death.delivery_id)
        endpoint = names.get(death.endpoint_no, f"number {death.endpoint_no}")
        return spans.death(death, message, context, endpoint)


class Accept:
    """One request that brings messages, until it is answered."""

    __slots__ = ("_attributes", "_context", "_export", "_parent", "_start")

    def __init__(self, context: Context, parent: Context, export: Export) -> None:
        self._context = context
        self._parent = parent
        self._export = export
        self._attributes: dict[str, Value] = {"http.request.method": "POST"}
        self._start = to_micros(wall()) * 1000

    @property
    def trace(self) -> str:
        """That its messages belong to."""
        return self._context.text()

    def note(self, facts: Mapping[str, Value]) -> None:
        """What came of it, each under our own prefix."""
        self._attributes.update((f"hookline.{name}", value) for name, value in facts.items())

    def answered(self, route: str, status: int) -> None:
        """With 0: the caller has gone away."""
        if not self._context.sampled:
            return
        self._attributes["http.route"] = route
        if status:
            self._attributes["http.response.status_code"] = status
        fault = "the caller has gone away" if not status else f"status {status}" if status >= 500 else None
        if fault is not None:
            self._attributes["error.type"] = str(status) if status else "cancelled"
        span = Span(
            name="hookline.accept",
            kind=Kind.SERVER,
            context=self._context,
            parent=self._parent,
            start=self._start,
            end=max(self._start, to_micros(wall()) * 1000),
            attributes=self._attributes,
            fault=fault,
        )
        self._export([span])
