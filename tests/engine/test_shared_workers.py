"""Applications that share workers: one that hangs leaves slots for the next, and one with a rate keeps to it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from hookline import clock
from hookline.model.catalogue import Application, ApplicationChange
from hookline.model.deliveries import ClaimBatch, SlotBudgets
from hookline.model.states import DeliveryState
from hookline.store import Store
from tests.support import factory
from tests.support.receiver import Behaviour, Receiver
from tests.support.scene import Scene
from tests.support.working import settled, working


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


async def application(scene: Scene, **fields: object) -> Application:
    return await scene.store.catalogue.create_application(scene.organization.id, factory.new_application(**fields))


async def add_hanging_application(scene: Scene, receiver: Receiver, lanes: int, messages: int = 4) -> None:
    """Create an application with many endpoints, all of which hang."""
    receiver.behave(Behaviour(hang=True), path="/hangs")
    app = await application(scene)
    for _ in range(lanes):
        await scene.endpoint(app, url=f"{receiver.url}/hangs")
    await scene.ingest(factory.new_messages(app.no, messages))


@pytest.mark.store_options(lease=600.0)
async def test_an_application_that_hangs_leaves_room_for_the_others(scene: Scene, receiver: Receiver) -> None:
    await add_hanging_application(scene, receiver, lanes=60)
    await scene.endpoint(url=f"{receiver.url}/healthy")
    async with working(scene.store, drain=0.5, deadline=500.0):
        await receiver.arrived(48)
        for _ in range(5):
            for message_id in await scene.send(10):
                assert [one.state for one in await settled(scene.store, message_id)] == [DeliveryState.DELIVERED]
        paths = Counter(received.path for received in receiver.requests)
    assert paths == {"/hangs": 48, "/healthy": 50}


@pytest.mark.store_options(lease=600.0)
async def test_lanes_that_wait_for_their_application_keep_no_worker_busy(
    scene: Scene, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hundreds of lanes wait and no slot is free. The worker checks only now and then."""
    await add_hanging_application(scene, receiver, lanes=250, messages=1)
    refused_counts: list[int] = []
    claim = scene.store.pipeline.claim

    async def counted(want: int, budgets: SlotBudgets) -> ClaimBatch:
        batch = await claim(want, budgets)
        refused_counts.append(len(batch.refused))
        return batch

    monkeypatch.setattr(scene.store.pipeline, "claim", counted)
    async with working(scene.store, drain=0.2, deadline=500.0, poll=5.0):
        await receiver.arrived(48)
        async with asyncio.timeout(60):
            while sum(refused_counts) < 202:
                await asyncio.sleep(0.02)
        refused_counts.clear()
        await asyncio.sleep(1.5)  # count what happens while nothing is done
        claims, lanes = len(refused_counts), sum(refused_counts)
    assert claims <= 150
    assert lanes <= 1000


async def test_refused_lanes_continue_as_soon_as_slots_are_free(scene: Scene, receiver: Receiver) -> None:
    """There are far more lanes than slots. Each outcome lets the next lane start, and none is forgotten."""
    receiver.behave(Behaviour(delay=0.02))
    app = await application(scene)
    for _ in range(50):
        await scene.endpoint(app, url=receiver.url)
    async with working(scene.store, slots=16, share=4):
        messages = [one.message_id for one in await scene.ingest(factory.new_messages(app.no, 6))]
        await receiver.arrived(300)
        for message_id in messages:
            assert {one.state for one in await settled(scene.store, message_id)} == {DeliveryState.DELIVERED}


async def test_an_applications_rate_holds_over_all_workers(scene: Scene, second: Store, receiver: Receiver) -> None:
    """With two workers and five endpoints, the receiver counts 20 requests a second in total."""
    app = await application(scene, throttle_rate=20)
    for _ in range(5):
        await scene.endpoint(app, url=receiver.url)
    await scene.ingest(factory.new_messages(app.no, 40))
    began = clock.monotonic()
    async with AsyncExitStack() as workers:
        await workers.enter_async_context(working(scene.store))
        await workers.enter_async_context(working(second))
        arrived = [one.at for one in await receiver.arrived(101)]
        await scene.store.catalogue.change_application(app.no, ApplicationChange(throttle_rate=None))
        await receiver.arrived(200)
    # A delayed request comes later, never sooner. So at no time have more arrived than the rate allows since the start.
    assert all(number <= 3 + 20 * (at - began) for number, at in enumerate(arrived, 1))
