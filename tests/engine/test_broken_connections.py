"""Receivers that break kept-alive connections: the request is sent again at once, and no attempt counts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from msgspec.structs import replace

from hookline.model.endpoints import Ordering
from hookline.model.policy import CircuitPolicy, PolicyOverride
from hookline.model.states import Circuit, DeliveryState, ErrorKind, Reason
from tests.support.certs import Authority
from tests.support.receiver import Behaviour, Received, Receiver
from tests.support.scene import Scene
from tests.support.working import LOOPBACK, PATIENCE, reaches, settled, working

ONE_ATTEMPT = PolicyOverride(max_attempts=1)
Answer = Callable[[Received], Behaviour]
CLOSED, RESET = Behaviour(close=True), Behaviour(reset="after")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certs"))


def once_per_connection(end: Behaviour) -> Answer:
    """Answer the first request of each connection, and end the connection with `end` at the second."""
    used: set[int] = set()

    def answer(received: Received) -> Behaviour:
        if received.connection in used:
            return end
        used.add(received.connection)
        return Behaviour()

    return answer


async def sent_one_by_one(scene: Scene, count: int, **fields: Any) -> list[str]:
    """Send messages one after the other, so that each finds the connection of the previous one idle."""
    messages = []
    for _ in range(count):
        [message_id] = await scene.send(**fields)
        [delivery] = await settled(scene.store, message_id)
        assert (delivery.state, delivery.attempts) == (DeliveryState.DELIVERED, 1), delivery
        messages.append(message_id)
    return messages


async def errors_of(scene: Scene, messages: list[str]) -> list[ErrorKind | None]:
    return [attempt.error for message_id in messages for attempt in await scene.store.history.attempts(message_id)]


async def test_a_receiver_that_closes_after_each_answer_costs_no_attempt(scene: Scene, receiver: Receiver) -> None:
    receiver.behave(Behaviour(close_after=True))
    endpoint = await scene.endpoint(url=receiver.url)
    async with working(scene.store):
        messages = await sent_one_by_one(scene, 20, policy=ONE_ATTEMPT)
    assert {received.headers["webhook-id"] for received in receiver.requests} == set(messages)
    assert len(receiver.requests) >= 20
    errors = await errors_of(scene, messages)
    assert set(errors) <= {None, ErrorKind.AMBIGUOUS}
    assert (await scene.lane(endpoint)).failures == 0


@pytest.mark.parametrize("end", [CLOSED, RESET], ids=["closed", "reset"])
@pytest.mark.parametrize("tls", [False, True], ids=["http", "https"])
async def test_both_requests_are_attempts_and_only_the_second_counts(
    scene: Scene, authority: Authority, end: Behaviour, tls: bool
) -> None:
    with ExitStack() as stack:
        receiver = stack.enter_context(Receiver(tls=authority.context("127.0.0.1") if tls else None))
        receiver.behave(once_per_connection(end))
        endpoint = await scene.endpoint(url=receiver.url)
        async with working(scene.store, sender=replace(LOOPBACK, ca_bundle=str(authority.bundle))):
            messages = await sent_one_by_one(scene, 8, policy=ONE_ATTEMPT)
    seen = [received.headers["webhook-id"] for received in receiver.requests]
    recorded = await errors_of(scene, messages)
    assert len(seen) == len(recorded)
    assert list(dict.fromkeys(seen)) == messages
    assert recorded[:3] == [None, ErrorKind.AMBIGUOUS, None]
    attempts = await scene.store.history.attempts(messages[1])
    assert [(one.number, one.outcome, one.status_code) for one in attempts] == [
        (1, "retry", None),
        (2, "delivered", 200),
    ]
    assert (await scene.delivery(messages[1])).sent == 2
    lane = await scene.lane(endpoint)
    assert (lane.failures, lane.circuit) == (0, Circuit.CLOSED)


async def test_the_request_is_sent_again_only_once(scene: Scene, receiver: Receiver) -> None:
    """The second request uses a new connection. If that breaks too, the failure counts like any other."""
    await scene.endpoint(url=receiver.url)
    async with working(scene.store):
        await sent_one_by_one(scene, 1)
        receiver.behave(CLOSED)
        [message_id] = await scene.send(policy=ONE_ATTEMPT)
        [delivery] = await settled(scene.store, message_id)
    assert (delivery.reason, delivery.attempts, delivery.sent) == (Reason.ATTEMPTS_EXHAUSTED, 1, 2)
    assert await errors_of(scene, [message_id]) == [ErrorKind.AMBIGUOUS, ErrorKind.RESET]
    assert [received.connection for received in receiver.requests] == [1, 1, 2]


@pytest.mark.parametrize(
    "fields",
    [{"concurrency": 1}, {"throttle_rate": 200.0}, {"ordering": Ordering.FIFO}],
    ids=["concurrency", "throttle", "order"],
)
async def test_the_limits_and_the_order_of_an_endpoint_hold(
    scene: Scene, receiver: Receiver, fields: dict[str, Any]
) -> None:
    receiver.behave(once_per_connection(CLOSED))
    await scene.endpoint(url=receiver.url, **fields)
    async with working(scene.store):
        messages = await scene.send(12, policy=ONE_ATTEMPT)
        for message_id in messages:
            [delivery] = await settled(scene.store, message_id)
            assert (delivery.state, delivery.attempts) == (DeliveryState.DELIVERED, 1)
    seen = [received.headers["webhook-id"] for received in receiver.requests]
    assert len(seen) == len(await errors_of(scene, messages))
    if "ordering" in fields:
        assert list(dict.fromkeys(seen)) == messages


async def test_the_delivery_keeps_its_place_in_the_lane(scene: Scene, receiver: Receiver) -> None:
    """If the delivery moved to the end of the lane, its second request would wait for all others in the lane."""
    await scene.endpoint(url=receiver.url, concurrency=1)
    async with working(scene.store):
        await sent_one_by_one(scene, 1)
        answered = threading.Event()
        receiver.behave(
            lambda received: replace(CLOSED, answer_when=answered) if received.connection == 1 else Behaviour()
        )
        [broken] = await scene.send()
        await receiver.arrived(2)
        waiting = await scene.send(3)
        answered.set()
        for message_id in waiting:
            await settled(scene.store, message_id)
    assert [received.headers["webhook-id"] for received in receiver.requests][1:] == [broken, broken, *waiting]


@pytest.mark.store_options(circuit=CircuitPolicy(cooldown=0.2, spread=0.05, recovery_step=0.05))
async def test_a_probe_on_a_broken_connection_is_repeated_and_has_not_failed(scene: Scene, receiver: Receiver) -> None:
    receiver.behave(Behaviour(status=500))
    endpoint = await scene.endpoint(url=receiver.url, concurrency=1)  # so that all requests use one connection
    breaks = iter([CLOSED])

    def fail_until_open(received: Received) -> Behaviour:
        return Behaviour(status=500) if not opened.is_set() else next(breaks, Behaviour())

    opened = threading.Event()
    receiver.behave(fail_until_open)
    async with working(scene.store):
        messages = await scene.send(6)
        async with asyncio.timeout(PATIENCE):
            while (await scene.lane(endpoint)).trips < 1:
                await asyncio.sleep(0.01)
        opened.set()
        for message_id in messages:
            assert [one.state for one in await settled(scene.store, message_id)] == [DeliveryState.DELIVERED]
    assert ErrorKind.AMBIGUOUS in await errors_of(scene, messages)
    events = await scene.raw.rows("SELECT kind FROM lane_event WHERE endpoint_no = $1 ORDER BY id", endpoint.no)
    assert [event["kind"] for event in events].count("circuit_probe_failed") == 0


async def test_a_worker_that_stops_leaves_the_second_request_to_the_next_one(scene: Scene, receiver: Receiver) -> None:
    answered = threading.Event()
    await scene.endpoint(url=receiver.url)
    async with working(scene.store, drain=60.0):
        await sent_one_by_one(scene, 1)
        receiver.behave(replace(CLOSED, answer_when=answered))
        [message_id] = await scene.send(policy=ONE_ATTEMPT)
        await receiver.arrived(2)
        asyncio.get_running_loop().call_later(0.1, answered.set)  # after the worker was told to stop
    delivery = await scene.delivery(message_id)
    assert (delivery.state, delivery.attempts, delivery.sent) == (DeliveryState.SCHEDULED, 0, 1)
    receiver.behave(Behaviour())
    async with working(scene.store):
        delivery = await reaches(scene.store, message_id, DeliveryState.DELIVERED)
    assert (delivery.attempts, delivery.sent) == (1, 2)
