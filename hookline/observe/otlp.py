"""Exports spans with OpenTelemetry's sampler and HTTP exporter. Import it only if OpenTelemetry is installed."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from opentelemetry import trace as api
from opentelemetry.context import Context as OtelContext
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.sampling import DEFAULT_ON, Decision
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from hookline import __version__
from hookline.observe.spans import Context, Span
from hookline.rules.redaction import loggable

_LOGGER = logging.getLogger("opentelemetry")
_SCOPE = InstrumentationScope("hookline", __version__)


class Sender:
    """The exporter that the OTEL_* variables configure.

    It captures OpenTelemetry's own log lines and keeps them out of Hookline's log. OpenTelemetry writes one line for
    each failed request, even after shutdown.
    """

    def __init__(self) -> None:
        captured = self._captured = _CapturedLogs()
        _LOGGER.handlers[:] = [captured]
        _LOGGER.propagate = False
        provider = TracerProvider(resource=_resource(), shutdown_on_exit=False)
        self._sampler = provider.sampler
        self._resource = provider.resource
        self._exporter = OTLPSpanExporter()
        self.faults = tuple(dict.fromkeys(captured.templates))

    def sampled(self, parent: Context) -> bool:
        if self._sampler is DEFAULT_ON:  # the same result as below, ten times faster
            return parent.sampled or not parent.span_id
        try:
            result = self._sampler.should_sample(_otel_context(parent), parent.trace_id, "hookline")
        except Exception:  # a custom sampler may raise anything
            return False
        return result.decision is Decision.RECORD_AND_SAMPLE

    def send(self, spans: Sequence[Span]) -> str | None:
        self._captured.first = ""
        if self._exporter.export([self._readable(span) for span in spans]) is SpanExportResult.SUCCESS:
            return None
        return loggable(self._captured.first) or "unknown"

    def close(self) -> None:
        self._exporter.shutdown()  # type: ignore[no-untyped-call]

    def _readable(self, span: Span) -> ReadableSpan:
        """Convert a span for the exporter. Create it directly, because a tracer would choose another span id."""
        return ReadableSpan(
            name=span.name,
            context=_span_context(span.context, is_remote=False),
            parent=_span_context(span.parent, is_remote=True) if span.parent.span_id else None,
            resource=self._resource,
            attributes=span.attributes,
            events=[Event(name, timestamp=at) for name, at in span.events],
            kind=SpanKind[span.kind],
            status=Status() if span.fault is None else Status(StatusCode.ERROR, span.fault),
            start_time=span.start,
            end_time=span.end,
            instrumentation_scope=_SCOPE,
        )


class _CapturedLogs(logging.Handler):
    """A log handler that keeps OpenTelemetry's warnings and errors."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        # The first log message since the last `send` began. Later messages repeat it or report a timeout.
        self.first = ""
        # The format strings of up to ten log messages. Their arguments are left out, because an argument may contain a
        # header's value.
        self.templates: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if len(self.templates) < 10:
            self.templates.append(str(record.msg))
        self.first = self.first or record.getMessage()


def _resource() -> Resource:
    """Return the resource from the OTEL_* variables. The default service name is `hookline`."""
    resource = Resource.create()
    if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: "hookline"}))
    return Resource({SERVICE_VERSION: __version__}).merge(resource)


def _otel_context(parent: Context) -> OtelContext:
    if not parent.span_id:
        return OtelContext()
    return api.set_span_in_context(NonRecordingSpan(_span_context(parent, is_remote=True)), OtelContext())


def _span_context(context: Context, *, is_remote: bool) -> SpanContext:
    state = TraceState.from_header([context.state]) if context.state else None
    return SpanContext(context.trace_id, context.span_id, is_remote, TraceFlags(context.flags), state)
