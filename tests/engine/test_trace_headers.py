"""The trace of a message as two request headers: the same on each attempt, and no other header by accident."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from hookline import clock
from hookline.model.deliveries import LeasedDelivery
from hookline.model.endpoints import Endpoint, Secret
from hookline.model.states import DeliveryState
from hookline.rules.request import Target
from tests.support import factory
from tests.support.receiver import Behaviour, Received, Receiver
from tests.support.scene import Scene
from tests.support.working import settled, working

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
INJECTED = "x-admin"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


async def test_each_attempt_sends_the_trace(scene: Scene, receiver: Receiver) -> None:
    def fail_once(received: Received) -> Behaviour:
        return Behaviour(status=503 if received.headers["webhook-attempt"] == "1" else 200)

    receiver.behave(fail_once)
    await scene.endpoint(url=receiver.url)
    async with working(scene.store):
        [message_id] = await scene.send(trace=f"{PARENT} a=1,b=2")
        [delivery] = await settled(scene.store, message_id)
    assert (delivery.state, delivery.sent) == (DeliveryState.DELIVERED, 2)
    assert [(one.headers["traceparent"], one.headers["tracestate"]) for one in receiver.requests] == [
        (PARENT, "a=1,b=2"),
        (PARENT, "a=1,b=2"),
    ]


async def test_a_trace_that_was_smuggled_into_the_store_is_not_sent(scene: Scene, receiver: Receiver) -> None:
    """The test writes a trace that the earlier checks would not let through. The last check, where a trace becomes a
    header, must not let it through either."""
    await scene.endpoint(url=receiver.url)
    traces = [f"{PARENT}\r\n{INJECTED}: 1", f"{PARENT} a=1\r\n{INJECTED}: 1", f"{PARENT}\n{INJECTED}: 1 a=1", PARENT]
    async with working(scene.store):
        for trace in traces:
            [message_id] = await scene.send(trace=trace)
            [delivery] = await settled(scene.store, message_id)
            assert delivery.state == DeliveryState.DELIVERED
    sent = [(one.headers.get("traceparent"), one.headers.get("tracestate")) for one in receiver.requests]
    assert sent == [(None, None), (PARENT, None), (None, None), (PARENT, None)]
    assert not any(INJECTED in one.headers for one in receiver.requests)


def _lines(trace: str | None, **headers: str) -> list[str]:
    now = clock.wall()
    endpoint = Endpoint(
        no=1,
        id="ep_1",
        app_no=2,
        app_id="app_2",
        org_id="org_3",
        url="https://hooks.example.com",
        created_at=now,
        updated_at=now,
        secrets=(Secret(key=factory.secret_key()),),
        headers=headers,
    )
    job = LeasedDelivery(
        delivery_id=4,
        claim=5,
        message_id="msg_6",
        app_no=2,
        endpoint_no=1,
        revision=1,
        event_type="order.paid",
        payload=b"{}",
        attempts=0,
        sent=0,
        accepted_at=now,
        expires_at=now + timedelta(hours=1),
        claimed_at=now,
        lease_until=now + timedelta(minutes=1),
        due_at=now,
        epoch=0,
        counted=False,
        probe=False,
        trigger=0,
        trace=trace,
    )
    return [line for line in Target(endpoint).headers(job, now) if line.lower().startswith("trace")]


def test_an_endpoints_own_header_is_the_only_one() -> None:
    """Each header has one value. A receiver that gets two would reject the trace."""
    assert _lines(f"{PARENT} a=1") == [f"traceparent: {PARENT}", "tracestate: a=1"]
    assert _lines(f"{PARENT} a=1", TraceParent="mine") == ["TraceParent: mine"]
    assert _lines(f"{PARENT} a=1", tracestate="mine=1") == ["tracestate: mine=1"]
    assert _lines(None) == []
