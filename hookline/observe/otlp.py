"""Our spans in OpenTelemetry's terms: its sampler, its resource, its exporter over HTTP. Imported only where it is installed."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from opentelemetry import trace as api
from opentelemetry.context import Context as Around
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.sampling import DEFAULT_ON, Decision
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from hookline import __version__
from hookline.observe.attempt_log import told
from hookline.observe.spans import Context, Kind, Span

_LOGGER = logging.getLogger("opentelemetry")
_KINDS = {Kind.SERVER: SpanKind.SERVER, Kind.INTERNAL: SpanKind.INTERNAL, Kind.CLIENT: SpanKind.CLIENT}
_SCOPE = InstrumentationScope("hookline", __version__)


@contextmanager
def sending() -> Iterator[Sender]:
    """As the variables say. From here on its own lines are not logged: there is one for each request that fails, and the
    last may come after the end."""
    heard = _Heard()
    _LOGGER.handlers[:] = [heard]
    _LOGGER.propagate = False
    sender = Sender(heard)
    try:
        yield sender
    finally:
        sender.close()


class Sender:
    def __init__(self, heard: _Heard) -> None:
        self._heard = heard
        provider = TracerProvider(resource=_resource(), shutdown_on_exit=False)
        self._sampler = provider.sampler
        self._resource = provider.resource
        self._exporter = OTLPSpanExporter()
        self.faults = tuple(dict.fromkeys(heard.templates))

    def sampled(self, parent: Context) -> bool:
        if self._sampler is DEFAULT_ON:  # says the same, in a tenth of the time
            return parent.sampled or not parent.span_id
        try:
            judged = self._sampler.should_sample(_around(parent), parent.trace_id, "hookline")
        except Exception:  # anybody may have written it
            return False
        return judged.decision is Decision.RECORD_AND_SAMPLE

    def send(self, spans: Sequence[Span]) -> str | None:
        self._heard.first = ""
        if self._exporter.export([self._readable(span) for span in spans]) is SpanExportResult.SUCCESS:
            return None
        return told(self._heard.first) or "unknown"

    def close(self) -> None:
        self._exporter.shutdown()  # type: ignore[no-untyped-call]

    def _readable(self, span: Span) -> ReadableSpan:
        """Made directly: a tracer would give it an id of its own."""
        return ReadableSpan(
            name=span.name,
            context=_place(span.context, is_remote=False),
            parent=_place(span.parent, is_remote=True) if span.parent.span_id else None,
            resource=self._resource,
            attributes=span.attributes,
            events=[Event(name, timestamp=at) for name, at in span.events],
            kind=_KINDS[span.kind],
            status=Status() if span.fault is None else Status(StatusCode.ERROR, span.fault),
            start_time=span.start,
            end_time=span.end,
            instrumentation_scope=_SCOPE,
        )


class _Heard(logging.Handler):
    """What OpenTelemetry has to say."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.first = ""  # since it was emptied; what follows repeats it, or only says that time is over
        self.templates: list[str] = []  # without what was put into them: it may be a header's value

    def emit(self, record: logging.LogRecord) -> None:
        if len(self.templates) < 10:
            self.templates.append(str(record.msg))
        self.first = self.first or record.getMessage()


def _resource() -> Resource:
    """The service's name is ours where the variables give none."""
    found = Resource.create()
    if str(found.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        found = found.merge(Resource({SERVICE_NAME: "hookline"}))
    return Resource({SERVICE_VERSION: __version__}).merge(found)


def _around(parent: Context) -> Around:
    if not parent.span_id:
        return Around()
    return api.set_span_in_context(NonRecordingSpan(_place(parent, is_remote=True)), Around())


def _place(context: Context, *, is_remote: bool) -> SpanContext:
    state = TraceState.from_header([context.state]) if context.state else None
    return SpanContext(context.trace_id, context.span_id, is_remote, TraceFlags(context.flags), state)
