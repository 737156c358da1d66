"""OpenTelemetry, configured by its own environment variables: when it is on, and that its failures do no harm."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from hookline.observe.otel import tracing, wanted
from hookline.observe.span_queue import QueueSettings, SpanQueue
from hookline.observe.spans import Context, Span
from hookline.observe.traces import Traces
from tests.api.conftest import Client
from tests.support.collector import Collector
from tests.support.ports import free_port
from tests.support.processes import PATIENT
from tests.support.receiver import Behaviour, Receiver
from tests.support.serving import serving

TRACE, PUBLISHER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as found:
        yield found


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr("hookline.observe.otel.FLUSH_TIME", 60.0)  # a flush may take long on a busy machine


def some_span(number: int = 1) -> Span:
    place = Context(trace_id=7, span_id=number, flags=1)
    return Span(
        name=f"span {number}",
        kind="INTERNAL",
        context=place,
        parent=Context(trace_id=7, span_id=0),
        start=1,
        end=2,
        attributes={},
    )


def accepts(traces: Traces | None, count: int = 1) -> None:
    assert traces is not None
    for _ in range(count):
        traces.accept(None).answered("/here", 202)


# ── on and off ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("given", "on"),
    [
        ({}, False),
        (ENDPOINT, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        (ENDPOINT | {"OTEL_SDK_DISABLED": "TRUE"}, False),
        (ENDPOINT | {"OTEL_TRACES_EXPORTER": "none"}, False),
        (ENDPOINT | {"OTEL_TRACES_EXPORTER": "console, otlp"}, True),
    ],
)
def test_tracing_is_on_when_the_variables_name_an_endpoint(given: dict[str, str], on: bool) -> None:
    assert wanted(given) is on


def test_disabled_tracing_starts_no_thread_and_logs_nothing() -> None:
    before = threading.active_count()
    with capture_logs() as lines, tracing({}) as traces:
        assert traces is None
        assert threading.active_count() <= before  # threads of other tests may end meanwhile
    assert lines == []


def test_an_unsupported_protocol_is_logged() -> None:
    with capture_logs() as lines, tracing(ENDPOINT | {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}) as traces:
        assert traces is None
    [line] = lines
    assert line["event"] == "traces_off"
    assert "http/protobuf" in line["reason"]


def test_without_the_package_one_log_line_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "hookline.observe.otlp", raising=False)
    monkeypatch.delattr("hookline.observe.otlp", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with capture_logs() as lines, tracing(ENDPOINT) as traces:
        assert traces is None
    [line] = lines
    assert (line["event"], line["log_level"]) == ("traces_off", "warning")
    assert "hookline[otel]" in line["reason"]


def test_an_invalid_setting_is_logged_without_its_value(monkeypatch: pytest.MonkeyPatch, collector: Collector) -> None:
    wrong = {
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization is my-secret-key",
        "OTEL_TRACES_SAMPLER": "no_such_sampler",
        "OTEL_BSP_MAX_QUEUE_SIZE": "-3",
    }
    for name, value in collector.settings(**wrong).items():
        monkeypatch.setenv(name, value)
    with capture_logs() as lines, tracing() as traces:
        accepts(traces)
    assert {line["event"] for line in lines} == {"traces_setting_ignored"}
    assert "OTEL_BSP_MAX_QUEUE_SIZE: must be a number above 0" in [line["reason"] for line in lines]
    assert len(lines) == 3
    assert "my-secret-key" not in repr(lines)
    assert len(collector.spans) == 1


def test_the_variables_set_the_service_name(monkeypatch: pytest.MonkeyPatch, collector: Collector) -> None:
    named = {
        "OTEL_SERVICE_NAME": "webhooks",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=test",
        "OTEL_EXPORTER_OTLP_HEADERS": "x-key=abc",
        "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
    }
    for name, value in collector.settings(**named).items():
        monkeypatch.setenv(name, value)
    with tracing() as traces:
        accepts(traces)
    [span] = collector.spans
    assert span.resource["service.name"] == "webhooks"
    assert span.resource["deployment.environment"] == "test"
    [request] = collector.receiver.requests
    assert (request.headers["x-key"], request.headers["content-encoding"]) == ("abc", "gzip")


# ── a collector that is unavailable ───────────────────────────────────────────────────────────────────────────────


def test_an_unavailable_collector_is_logged_once_and_its_return_once(
    monkeypatch: pytest.MonkeyPatch, collector: Collector
) -> None:
    for name, value in collector.settings(OTEL_BSP_MAX_EXPORT_BATCH_SIZE="1").items():
        monkeypatch.setenv(name, value)
    collector.receiver.behave(Behaviour(status=401))
    with capture_logs() as lines, tracing() as traces:
        accepts(traces, 3)
        collector.receiver.wait_for(3)
        collector.receiver.behave(Behaviour())
        accepts(traces)
        collector.receiver.wait_for(4)
    assert [(line["event"], line["log_level"]) for line in lines] == [
        ("traces_not_sent", "warning"),
        ("traces_sent_again", "info"),
    ]
    assert "401" in lines[0]["error"]
    assert lines[1]["lost"] == 3


@pytest.mark.timeout(60)
def test_nothing_waits_for_a_collector_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of the process does not wait for long either."""
    with Receiver() as mute:
        mute.behave(Behaviour(hang=True))
        given = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": mute.url,
            "OTEL_EXPORTER_OTLP_TIMEOUT": "600",
            "OTEL_BSP_SCHEDULE_DELAY": "1",
            "NO_PROXY": "127.0.0.1",
        }
        for name, value in given.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr("hookline.observe.otel.FLUSH_TIME", 0.1)
        with capture_logs(), tracing() as traces:
            accepts(traces)
            mute.wait_for(1)
            accepts(traces, 10_000)  # five times the size of the queue
        assert len(mute.requests) == 1


def test_spans_beyond_the_queue_size_are_dropped_and_logged_once() -> None:
    at_it, go = threading.Event(), threading.Event()
    sent: list[int] = []

    def slow(spans: Sequence[Span]) -> str | None:
        at_it.set()
        assert go.wait(60)
        sent.extend(span.context.span_id for span in spans)
        return None

    with capture_logs() as lines:
        queue = SpanQueue(slow, QueueSettings(limit=5, batch=2, delay=1))
        queue.add([some_span(1)])
        assert at_it.wait(60)
        queue.add([some_span(number) for number in range(2, 11)])
        queue.add([some_span(11)])
        go.set()
        queue.close(10)
    assert sent == [1, 2, 3, 4, 5, 6]
    [line] = lines
    assert (line["event"], line["count"]) == ("traces_dropped", 5)


def test_an_exception_in_the_sender_is_logged_as_an_unavailable_collector() -> None:
    def broken(_spans: Sequence[Span]) -> str | None:
        raise OSError("a secret")

    with capture_logs() as lines:
        queue = SpanQueue(broken, QueueSettings(delay=1))
        queue.add([some_span()])
        queue.close(10)
    assert [(line["event"], line["error"]) for line in lines] == [("traces_not_sent", "OSError")]


def test_log_lines_of_opentelemetry_itself_are_suppressed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """OpenTelemetry would log one line for each attempt."""
    port = free_port()
    given = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://user:password@127.0.0.1:{port}/?key=secret",
        "OTEL_BSP_SCHEDULE_DELAY": "1",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "1",
        "NO_PROXY": "127.0.0.1",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with capture_logs() as lines, tracing() as traces:
        accepts(traces)
    assert [line["event"] for line in lines] == ["traces_not_sent"]
    assert "password" not in repr(lines)
    assert "secret" not in repr(lines)
    assert caplog.records == []


def test_a_span_is_dropped_when_the_sampler_fails(monkeypatch: pytest.MonkeyPatch, collector: Collector) -> None:
    from opentelemetry.sdk.trace import sampling

    def fails(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    for name, value in collector.settings(OTEL_TRACES_SAMPLER="parentbased_traceidratio").items():
        monkeypatch.setenv(name, value)
    with tracing() as traces:
        accepts(traces)
        monkeypatch.setattr(sampling.ParentBased, "should_sample", fails)
        accepts(traces)
    assert len(collector.spans) == 1


@pytest.mark.parametrize("span_id", [0, 5])
@pytest.mark.parametrize("flags", [0, 1, 2, 3])
def test_the_fast_path_decides_like_the_default_sampler(
    monkeypatch: pytest.MonkeyPatch, span_id: int, flags: int
) -> None:
    from opentelemetry.sdk.trace import sampling

    from hookline.observe import otlp

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", ENDPOINT["OTEL_EXPORTER_OTLP_ENDPOINT"])
    parent = Context(trace_id=7, span_id=span_id, flags=flags if span_id else 0)
    with closing(otlp.Sender()) as sender:
        quick = sender.sampled(parent)
        monkeypatch.setattr(sender, "_sampler", sampling.ParentBased(sampling.ALWAYS_ON))
        assert sender.sampled(parent) is quick is (not span_id or bool(flags & 1))


# ── the real command ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_real_command_sends_its_spans(tmp_path: Path, collector: Collector) -> None:
    """One real process, configured by environment variables. It sends the remaining spans when it stops."""
    settings = collector.settings(OTEL_BSP_SCHEDULE_DELAY="600000", HOOKLINE_ALLOW_NETS="127.0.0.0/8", **PATIENT)
    with Receiver() as receiver, serving(f"sqlite:///{tmp_path}/hookline.db", tmp_path, **settings) as served:
        client = Client(served.address.removeprefix("http://"), served.token)
        app = (await client.post("/api/v1/app", {"name": "Shop", "uid": "shop"})).json(201)
        await client.post("/api/v1/app/shop/endpoint", {"url": receiver.url})
        given = {"eventType": "order.paid", "payload": {}}
        parent = f"00-{TRACE}-{PUBLISHER}-01"
        (await client.post("/api/v1/app/shop/msg", given, traceparent=parent)).json(202)
        [request] = await receiver.arrived(1)
        served.ended_well()
    accept, delivery, attempt = sorted(collector.spans, key=lambda span: (span.start, -span.end))
    assert [span.name for span in (accept, delivery, attempt)] == [
        "hookline.accept",
        "hookline.delivery",
        "hookline.attempt",
    ]
    assert [accept.parent_id, delivery.parent_id, attempt.parent_id] == [PUBLISHER, accept.span_id, delivery.span_id]
    assert request.headers["traceparent"] == attempt.parent
    assert accept.attributes["hookline.application.id"] == app["id"]
