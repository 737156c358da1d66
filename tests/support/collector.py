"""A real OTLP receiver on loopback. It decodes the spans that it received with OpenTelemetry's own definitions."""

from __future__ import annotations

import asyncio
import gzip
from types import TracebackType
from typing import Self

from msgspec import Struct
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Proto
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from tests.support.receiver import Received, Receiver

Value = str | int | bool


class ReceivedSpan(Struct, frozen=True, kw_only=True):
    """One span as the collector received it."""

    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str  # empty: the span has no parent
    start: int
    end: int
    state: str
    attributes: dict[str, Value]
    events: dict[str, int]
    failed: bool
    fault: str
    resource: dict[str, Value]

    @property
    def parent(self) -> str:
        """The `traceparent` value that this span gives to its children."""
        return f"00-{self.trace_id}-{self.span_id}-01"


class Collector:
    """An OTLP server that runs during a block: `with Collector() as collector:`. It reads spans from the requests that
    it received."""

    def __init__(self) -> None:
        self.receiver = Receiver()

    def __enter__(self) -> Self:
        self.receiver.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.receiver.__exit__(kind, error, trace)

    def settings(self, **more: str) -> dict[str, str]:
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.receiver.url,
            "OTEL_BSP_SCHEDULE_DELAY": "20",
            "NO_PROXY": "127.0.0.1",
            **more,
        }

    @property
    def spans(self) -> list[ReceivedSpan]:
        return [span for request in list(self.receiver.requests) for span in read(request)]

    async def wait_for_spans(self, count: int, timeout: float = 60.0) -> list[ReceivedSpan]:
        """Wait until `count` spans have arrived, and return them ordered by time."""
        async with asyncio.timeout(timeout):
            # Count the requests before reading them: the next one may arrive in between.
            seen = len(self.receiver.requests)
            while len(found := self.spans) < count:
                seen = len(await self.receiver.arrived(seen + 1, timeout))
        return sorted(found, key=lambda span: (span.start, -span.end))


def read(request: Received) -> list[ReceivedSpan]:
    assert (request.method, request.path) == ("POST", "/v1/traces")
    body = gzip.decompress(request.body) if request.headers.get("content-encoding") == "gzip" else request.body
    found = ExportTraceServiceRequest.FromString(body)
    return [
        _span(span, _values(group.resource.attributes))
        for group in found.resource_spans
        for scope in group.scope_spans
        for span in scope.spans
    ]


def _span(span: Proto, resource: dict[str, Value]) -> ReceivedSpan:
    return ReceivedSpan(
        name=span.name,
        kind=Proto.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        start=span.start_time_unix_nano,
        end=span.end_time_unix_nano,
        state=span.trace_state,
        attributes=_values(span.attributes),
        events={event.name: event.time_unix_nano for event in span.events},
        failed=span.status.code == Status.STATUS_CODE_ERROR,
        fault=span.status.message,
        resource=resource,
    )


def _values(pairs: object) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for pair in pairs:  # type: ignore[attr-defined]
        assert isinstance(pair, KeyValue)
        found[pair.key] = getattr(pair.value, pair.value.WhichOneof("value"))
    return found
