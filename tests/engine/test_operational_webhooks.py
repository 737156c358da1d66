"""An operational webhook from the change, through the outbox, to a receiver that verifies it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from ipaddress import ip_network

import msgspec
import pytest
import standardwebhooks

from hookline.engine.relay import OwnOutbox, Relay
from hookline.model.endpoints import Endpoint, NewEndpoint
from hookline.model.policy import PolicyOverride
from hookline.model.states import DeliveryState
from hookline.rules.guard import Guard
from hookline.services import endpoints
from hookline.store import Store
from hookline.store.outage import Outage
from tests.support import factory
from tests.support.receiver import Behaviour, Received, Receiver
from tests.support.scene import Scene
from tests.support.services import caller, deps
from tests.support.working import settled, working

LOOPBACK = Guard([ip_network("127.0.0.0/8")])


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


@asynccontextmanager
async def delivering(store: Store) -> AsyncIterator[None]:
    """Run a worker and the relay."""
    stop = asyncio.Event()
    relay = asyncio.create_task(Relay(OwnOutbox(store), Outage(random.Random(3))).run(stop))
    try:
        async with working(store):
            yield
    finally:
        stop.set()
        await relay


async def listen(store: Store, org_id: str, url: str) -> Endpoint:
    return await endpoints.create_operational(deps(store, LOOPBACK), caller(org_id), NewEndpoint(url=url))


async def received_at(receiver: Receiver, path: str, count: int) -> list[Received]:
    while True:
        seen = list(receiver.requests)
        found = [each for each in seen if each.path == path]
        if len(found) >= count:
            return found
        await receiver.arrived(len(seen) + 1)


async def test_a_failing_endpoint_causes_signed_events(scene: Scene, receiver: Receiver) -> None:
    """The fourth failed attempt causes the event `failing`, and the fifth and last one causes `exhausted`. Each event
    is sent once, signed with the endpoint's secret."""
    receiver.behave(Behaviour(status=409, headers={"Retry-After": "0"}), "/failing")
    listener = await listen(scene.store, scene.organization.id, receiver.url + "/ops")
    async with delivering(scene.store):
        endpoint = await scene.endpoint(
            url=receiver.url + "/failing", policy=PolicyOverride(max_attempts=5, base=0.001, cap=0.001)
        )
        (message,) = await scene.send(event_id="order-17")
        (delivery,) = await settled(scene.store, message)
        assert delivery.state == DeliveryState.DEAD
        arrived = await received_at(receiver, "/ops", 3)
    webhook = standardwebhooks.Webhook(listener.secrets[0].key)
    bodies = {each.headers["webhook-event-type"]: webhook.verify(each.body, each.headers) for each in arrived}
    assert bodies.keys() == {"endpoint.created", "message.attempt.failing", "message.attempt.exhausted"}
    assert [body["type"] for body in bodies.values()] == list(bodies)
    attempts = await scene.store.history.attempts(message)
    failing, exhausted = (bodies[f"message.attempt.{how}"]["data"] for how in ("failing", "exhausted"))
    assert (failing["msgId"], failing["msgEventId"], failing["endpointId"]) == (message, "order-17", endpoint.id)
    assert failing["lastAttempt"]["id"] == attempts[3].id
    assert exhausted["lastAttempt"]["id"] == attempts[4].id
    assert (exhausted["reason"], exhausted["deadLetterId"]) == ("attempts_exhausted", f"dl_{delivery.id}")
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(factory.secret_key()).verify(arrived[0].body, arrived[0].headers)


async def test_a_receiver_that_refuses_makes_no_further_events(scene: Scene, receiver: Receiver) -> None:
    receiver.behave(Behaviour(status=400), "/ops")
    listener = await listen(scene.store, scene.organization.id, receiver.url + "/ops")
    async with delivering(scene.store):
        await scene.endpoint()
        (arrived,) = await received_at(receiver, "/ops", 1)
        (delivery,) = await settled(scene.store, arrived.headers["webhook-id"])
    assert (delivery.state, delivery.endpoint_id) == (DeliveryState.DEAD, listener.id)
    assert await scene.raw.count("outbox") == 0
    assert [msgspec.json.decode(each.body)["type"] for each in receiver.requests] == ["endpoint.created"]


async def test_another_organization_gets_no_event(scene: Scene, receiver: Receiver) -> None:
    other = await scene.store.catalogue.save_organization(factory.organization())
    await listen(scene.store, other.id, receiver.url + "/theirs")
    await listen(scene.store, scene.organization.id, receiver.url + "/ours")
    async with delivering(scene.store):
        endpoint = await scene.endpoint()
        await scene.store.catalogue.delete_endpoint(endpoint.no)
        await received_at(receiver, "/ours", 2)
    assert {each.path for each in receiver.requests} == {"/ours"}
