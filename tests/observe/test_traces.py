"""Traces as a real collector receives them: one tree from the publisher's span to the receiver's."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from datetime import timedelta

import msgspec
import pytest
from structlog.testing import capture_logs

from hookline.engine.recorder import Recorder
from hookline.engine.sweep import Sweeper, SweepSettings
from hookline.model.dead import DeadFilter
from hookline.model.policy import PolicyOverride
from hookline.model.states import DeliveryState
from hookline.observe.otel import tracing
from hookline.observe.traces import Traces
from hookline.store.outage import Outage
from tests.support import factory
from tests.support.collector import Collector, ReceivedSpan
from tests.support.measured import measuring
from tests.support.receiver import Behaviour, Received, Receiver
from tests.support.scene import Scene
from tests.support.working import reaches, settled, working

TRACE, PUBLISHER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{PUBLISHER}-01"


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as found:
        yield found


@pytest.fixture
def environment(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    for name, value in collector.settings().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("hookline.observe.otel.FLUSH_TIME", 60.0)  # a flush may take long on a busy machine


@pytest.fixture
def traces(environment: None) -> Iterator[Traces]:
    with tracing() as found:
        assert found is not None
        yield found


def named(spans: list[ReceivedSpan], name: str) -> list[ReceivedSpan]:
    return [span for span in spans if span.name == f"hookline.{name}"]


# ── the tree ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_one_trace_from_the_caller_to_the_receiver(
    scene: Scene, receiver: Receiver, collector: Collector, traces: Traces
) -> None:
    def once_ill(received: Received) -> Behaviour:
        return Behaviour(status=503 if received.headers["webhook-attempt"] == "1" else 204, body=b"")

    receiver.behave(once_ill)
    endpoint = await scene.endpoint(url=f"{receiver.url}/secret-path?key=secret")
    async with measuring(scene, traces=traces) as api, working(scene.store, traces=traces):
        given = {"eventType": "order.paid", "payload": {"a": "secret"}}
        path = f"/api/v1/app/{scene.app.id}/msg"
        status, _, body = await api.post(path, given, traceparent=PARENT, tracestate="a=1")
        assert status == 202
        message_id = msgspec.json.decode(body)["id"]
        found = await collector.wait_for_spans(4)
        await settled(scene.store, message_id)
    [accept], [delivery] = named(found, "accept"), named(found, "delivery")
    first, second = sorted(named(found, "attempt"), key=lambda span: span.attributes["hookline.attempt.number"])
    spans = [accept, delivery, first, second]
    assert [span.kind for span in spans] == ["SERVER", "INTERNAL", "CLIENT", "CLIENT"]
    assert {span.trace_id for span in spans} == {TRACE}
    assert [span.parent_id for span in spans] == [PUBLISHER, accept.span_id, delivery.span_id, delivery.span_id]
    assert len({span.span_id for span in spans}) == 4
    assert {span.state for span in spans} == {"a=1"}
    assert [one.headers["traceparent"] for one in receiver.requests] == [first.parent, second.parent]
    assert [one.headers["tracestate"] for one in receiver.requests] == ["a=1", "a=1"]

    assert accept.attributes == {
        "http.request.method": "POST",
        "http.route": "/api/v1/app/{app_id}/msg",
        "http.response.status_code": 202,
        "hookline.application.id": scene.app.id,
        "hookline.message.id": message_id,
        "hookline.event_type": "order.paid",
        "hookline.deliveries": 1,
    }
    about = {
        "hookline.message.id": message_id,
        "hookline.endpoint.id": endpoint.id,
        "hookline.event_type": "order.paid",
    }
    assert delivery.attributes == about | {"hookline.outcome": "delivered", "hookline.attempts": 2}
    ids = [first.attributes.pop("hookline.attempt.id"), second.attributes.pop("hookline.attempt.id")]
    assert sorted(ids) == sorted(one.id for one in await scene.store.history.attempts(message_id))
    peer = {"network.peer.address": "127.0.0.1", "network.peer.port": receiver.port}
    sent = about | peer | {"http.request.method": "POST"}
    assert first.attributes == sent | {
        "hookline.attempt.number": 1,
        "hookline.outcome": "retry",
        "http.response.status_code": 503,
        "error.type": "503",
    }
    assert second.attributes == sent | {
        "hookline.attempt.number": 2,
        "hookline.outcome": "delivered",
        "http.response.status_code": 204,
        "http.request.resend_count": 1,
    }
    assert [span.failed for span in spans] == [False, False, True, False]
    # Each attempt estimates the database clock from its own claim. On a busy machine the two attempts may overlap.
    assert delivery.start <= first.start <= first.events["connect"] <= first.end
    assert delivery.start <= second.start <= second.end <= delivery.end
    assert "secret" not in repr(spans)
    assert {span.resource["service.name"] for span in spans} == {"hookline"}


async def test_a_batch_is_accepted_under_one_span(scene: Scene, collector: Collector, traces: Traces) -> None:
    async with measuring(scene, traces=traces) as api:
        given = {"eventType": "order.paid", "payload": {}}
        path = f"/api/v1/app/{scene.app.id}/msg/batch"
        status, _, body = await api.post(path, {"messages": [given, given]}, traceparent=PARENT)
        assert status == 202
        made = [one["message"]["id"] for one in msgspec.json.decode(body)["results"]]
        [accept] = await collector.wait_for_spans(1)
    assert (accept.attributes["hookline.messages"], accept.parent_id) == (2, PUBLISHER)
    assert [one.trace for one in await scene.store.history.messages_of(scene.app.no, made)] == [accept.parent] * 2


async def test_a_request_without_a_trace_starts_one(
    scene: Scene, receiver: Receiver, collector: Collector, traces: Traces
) -> None:
    await scene.endpoint(url=receiver.url)
    async with measuring(scene, traces=traces) as api, working(scene.store, traces=traces):
        path = f"/api/v1/app/{scene.app.id}/msg"
        for _ in range(2):
            await api.post(path, {"eventType": "order.paid", "payload": {}})
        spans = await collector.wait_for_spans(6)
    accepts = named(spans, "accept")
    assert [span.parent_id for span in accepts] == ["", ""]
    assert len({span.trace_id for span in accepts}) == 2
    assert {(span.trace_id, span.parent_id) for span in named(spans, "delivery")} == {
        (span.trace_id, span.span_id) for span in accepts
    }


async def test_a_refused_request_has_a_span_without_children(
    scene: Scene, collector: Collector, traces: Traces
) -> None:
    async with measuring(scene, traces=traces) as api:
        path = f"/api/v1/app/{scene.app.id}/msg"
        status, _, _ = await api.post(path, {"eventType": "not a name", "payload": {}}, traceparent=PARENT)
        [accept] = await collector.wait_for_spans(1)
    assert accept.attributes["http.response.status_code"] == status == 422
    assert not accept.failed  # the caller caused the error


async def test_a_delivery_from_an_outbox_is_a_child_of_its_publisher(
    scene: Scene, receiver: Receiver, collector: Collector, traces: Traces
) -> None:
    """A message without a trace starts one, and all its deliveries share it."""
    for _ in range(2):
        await scene.endpoint(url=receiver.url)
    async with working(scene.store, traces=traces):
        [known] = await scene.send(trace=PARENT)
        [unknown] = await scene.send()
        spans = await collector.wait_for_spans(8)
    of_known = [span for span in named(spans, "delivery") if span.attributes["hookline.message.id"] == known]
    of_unknown = [span for span in named(spans, "delivery") if span.attributes["hookline.message.id"] == unknown]
    assert [(span.trace_id, span.parent_id) for span in of_known] == [(TRACE, PUBLISHER)] * 2
    assert [span.parent_id for span in of_unknown] == ["", ""]
    assert len({span.trace_id for span in of_unknown}) == 1
    assert {one.headers["traceparent"] for one in receiver.requests} == {
        span.parent for span in named(spans, "attempt")
    }
    assert {span.parent_id for span in named(spans, "attempt")} == {span.span_id for span in (*of_known, *of_unknown)}


# ── end of a delivery ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_span_of_a_dead_delivery_has_the_reason_and_its_replay_has_no_second_span(
    scene: Scene, receiver: Receiver, collector: Collector, traces: Traces
) -> None:
    receiver.behave(Behaviour(status=404))
    await scene.endpoint(url=receiver.url)
    async with working(scene.store, traces=traces):
        [message_id] = await scene.send(trace=PARENT)
        await reaches(scene.store, message_id, DeliveryState.DEAD)
        receiver.behave(Behaviour())
        assert await scene.store.repair.replay(DeadFilter(app_no=scene.app.no), limit=10)
        await reaches(scene.store, message_id, DeliveryState.DELIVERED)
        spans = await collector.wait_for_spans(3)
    [delivery] = named(spans, "delivery")
    died, again = sorted(named(spans, "attempt"), key=lambda span: span.attributes["hookline.attempt.number"])
    assert (delivery.failed, delivery.fault) == (True, "permanent_failure")
    assert delivery.attributes["hookline.reason"] == "permanent_failure"
    assert (died.failed, died.parent_id) == (True, delivery.span_id)
    assert (again.failed, again.parent_id) == (False, PUBLISHER)
    assert again.attributes["hookline.manual"] is True
    assert len(collector.spans) == 3


async def test_a_delivery_that_dies_while_it_waits_has_a_span(
    scene: Scene, collector: Collector, traces: Traces
) -> None:
    endpoint = await scene.endpoint()
    [message_id] = await scene.send(trace=PARENT, policy=PolicyOverride(max_age=30.0))
    [untraced] = await scene.send()
    await scene.age(3600)
    sweeper = Sweeper(scene.store, SweepSettings(every=1e-9), Outage(random.Random(1)), random.Random(1), traces=traces)
    await sweeper.once()
    [span] = await collector.wait_for_spans(1)
    assert (span.name, span.trace_id, span.parent_id) == ("hookline.delivery", TRACE, PUBLISHER)
    assert (span.fault, span.attributes["hookline.attempts"]) == ("budget_exhausted", 0)
    assert span.attributes["hookline.endpoint.id"] == endpoint.id
    assert span.attributes["hookline.message.id"] == message_id != untraced
    assert span.end - span.start >= 3600 * 10**9


async def test_an_attempt_with_a_lost_lease_does_not_end_the_delivery_span(
    scene: Scene, collector: Collector, traces: Traces
) -> None:
    """The late attempt gets a span. The delivery gets one span, from the worker that records its end."""
    await scene.endpoint()
    await scene.send(2, trace=PARENT)
    stale = await scene.claim()
    await scene.age(3600)
    await scene.store.upkeep.sweep_leases()
    [held, *_rest] = current = await scene.claim()
    late = next(job for job in stale if job.delivery_id == held.delivery_id)
    recorder = Recorder(scene.store, factory.slots(), Outage(random.Random(1)), lambda: None, str, traces=traces)
    for result in (factory.delivered(late), factory.delivered(held)):
        recorder.add(result)
    recorder.close()
    await recorder.run()
    spans = await collector.wait_for_spans(3)
    assert len(current) == 2
    assert len({span.span_id for span in named(spans, "attempt")}) == 2
    [delivery] = named(spans, "delivery")
    assert {span.parent_id for span in named(spans, "attempt")} == {delivery.span_id}


@pytest.mark.parametrize("ill", [False, True])
async def test_the_report_lists_the_attempts_with_a_lost_lease(scene: Scene, ill: bool) -> None:
    """PostgreSQL records outcomes of healthy and of unhealthy (`ill`) lanes in two ways. The test covers both."""
    endpoint = await scene.endpoint()
    if ill:
        await scene.send()
        await scene.record(*(factory.retry(job, after=3600.0) for job in await scene.claim_all()))
    await scene.send(3)
    jobs = await scene.claim_all()
    assert len(jobs) == 3
    stale = factory.delivered(factory.with_claim(jobs[1], jobs[1].claim + 99))
    good = [factory.delivered(jobs[0]), factory.delivered(jobs[2])]
    report = await scene.record(good[0], stale, good[1])
    assert (report.recorded, report.stale, report.lost) == (2, 1, (stale.attempt_id,))
    assert (await scene.record(factory.delivered(jobs[1]))).lost == ()
    assert (await scene.lane(endpoint)).endpoint_no == endpoint.no


async def test_attempts_that_could_not_be_recorded_have_a_span(
    scene: Scene, collector: Collector, traces: Traces
) -> None:
    await scene.endpoint()
    await scene.send(trace=PARENT)
    [job] = await scene.claim()
    recorder = Recorder(scene.store, factory.slots(), Outage(random.Random(1)), lambda: None, str, traces=traces)
    recorder.add(factory.delivered(job))
    assert recorder.abandon() == 1
    [span] = await collector.wait_for_spans(1)
    assert span.name == "hookline.attempt"


async def test_an_error_in_tracing_loses_the_spans_but_not_the_outcome(scene: Scene) -> None:
    def broken(_spans: object) -> None:
        raise ZeroDivisionError

    await scene.endpoint()
    [message_id] = await scene.send(trace=PARENT)
    [job] = await scene.claim()
    traces = Traces(lambda _parent: True, broken)
    recorder = Recorder(scene.store, factory.slots(), Outage(random.Random(1)), lambda: None, str, traces=traces)
    recorder.add(factory.delivered(job))
    recorder.close()
    with capture_logs() as lines:
        await recorder.run()
    assert await scene.state(message_id) == DeliveryState.DELIVERED
    assert [line["event"] for line in lines] == ["trace_failed"]


async def test_an_error_in_sampling_sends_the_request_with_the_original_trace(scene: Scene, receiver: Receiver) -> None:
    def broken(_parent: object) -> bool:
        raise ZeroDivisionError

    await scene.endpoint(url=receiver.url)
    with capture_logs() as lines:
        async with working(scene.store, traces=Traces(broken, lambda _spans: None)):
            [message_id] = await scene.send(trace=PARENT)
            await reaches(scene.store, message_id, DeliveryState.DELIVERED)
    assert [one.headers["traceparent"] for one in receiver.requests] == [PARENT]
    assert {line["event"] for line in lines} == {"trace_failed"}


# ── sampling ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_unsampled_trace_stays_unsampled(
    scene: Scene, receiver: Receiver, collector: Collector, traces: Traces
) -> None:
    await scene.endpoint(url=receiver.url)
    async with measuring(scene, traces=traces) as api, working(scene.store, traces=traces):
        path = f"/api/v1/app/{scene.app.id}/msg"
        await api.post(path, {"eventType": "order.paid", "payload": {}}, traceparent=PARENT[:-2] + "00")
        [request] = await receiver.arrived(1)
        [message_id] = await scene.send(trace=PARENT)
        await settled(scene.store, message_id)
        spans = await collector.wait_for_spans(2)
    assert request.headers["traceparent"] == f"00-{TRACE}-{PUBLISHER}-00"
    assert {span.attributes["hookline.message.id"] for span in spans} == {message_id}
    assert len(collector.spans) == 2


async def test_the_standard_samplers_decide(
    environment: None, monkeypatch: pytest.MonkeyPatch, scene: Scene, receiver: Receiver, collector: Collector
) -> None:
    """The samplers decide by the trace id, so that every process of a fleet decides alike."""
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.5")
    await scene.endpoint(url=receiver.url)
    with tracing() as traces:
        async with working(scene.store, traces=traces):
            for message_id in await scene.send(60):
                await settled(scene.store, message_id)
    told = {span.attributes["hookline.message.id"] for span in collector.spans}
    assert len(collector.spans) == 2 * len(told)
    assert 5 < len(told) < 55
    passed_on = {one.headers["webhook-id"] for one in receiver.requests if "traceparent" in one.headers}
    assert passed_on == told


async def test_a_trace_that_the_api_did_not_sample_is_not_sampled_by_a_worker(
    environment: None, monkeypatch: pytest.MonkeyPatch, scene: Scene, receiver: Receiver, collector: Collector
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
    await scene.endpoint(url=receiver.url)
    with tracing() as of_api:
        async with measuring(scene, traces=of_api) as api:
            await api.post(f"/api/v1/app/{scene.app.id}/msg", {"eventType": "order.paid", "payload": {}})
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_always_on")
    with tracing() as of_worker:
        async with working(scene.store, traces=of_worker):
            [request] = await receiver.arrived(1)
    assert request.headers["traceparent"].endswith("-00")
    assert collector.spans == []


async def test_an_unsampled_trace_is_passed_on_with_the_publishers_span(
    environment: None, monkeypatch: pytest.MonkeyPatch, scene: Scene, receiver: Receiver, collector: Collector
) -> None:
    """The receiver must not refer to a span that was never exported. The publisher's span stays its parent."""
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    await scene.endpoint(url=receiver.url)
    with tracing() as traces:
        async with working(scene.store, traces=traces):
            [message_id] = await scene.send(trace=f"{PARENT} a=1")
            await settled(scene.store, message_id)
    [request] = receiver.requests
    assert (request.headers["traceparent"], request.headers["tracestate"]) == (f"00-{TRACE}-{PUBLISHER}-00", "a=1")
    assert collector.spans == []


async def test_no_span_ends_before_it_starts(scene: Scene, traces: Traces, collector: Collector) -> None:
    """A span never ends before it starts, even if the worker's clock is behind the database's."""
    await scene.endpoint()
    await scene.send(trace=PARENT)
    [job] = await scene.claim()
    result = factory.delivered(job)
    early = msgspec.structs.replace(result, ended_at=job.accepted_at - timedelta(hours=1))
    traces.recorded([early], await scene.record(result), str)
    assert all(span.end >= span.start for span in await collector.wait_for_spans(2))
