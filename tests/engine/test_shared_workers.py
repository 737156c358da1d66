"""Applications that share workers: one that hangs leaves slots for the next, and one with a rate keeps to it."""

from __future__ import annotations

import asyncio
import threading
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


def claims_of(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> list[ClaimBatch]:
    """Return a list that gets the batch of each claim."""
    batches: list[ClaimBatch] = []
    claim = scene.store.pipeline.claim

    async def noted(want: int, budgets: SlotBudgets) -> ClaimBatch:
        batches.append(await claim(want, budgets))
        return batches[-1]

    monkeypatch.setattr(scene.store.pipeline, "claim", noted)
    return batches


@pytest.mark.store_options(lease=600.0)
async def test_an_application_that_hangs_leaves_room_for_the_others(scene: Scene, receiver: Receiver) -> None:
    await add_hanging_application(scene, receiver, lanes=60)
    await scene.endpoint(url=f"{receiver.url}/healthy")
    async with working(scene.store, drain=0.5, deadline=500.0, silent_slots=64):
        await receiver.arrived(48)
        for _ in range(5):
            for message_id in await scene.send(10):
                assert [one.state for one in await settled(scene.store, message_id)] == [DeliveryState.DELIVERED]
        paths = Counter(received.path for received in receiver.requests)
    assert paths == {"/hangs": 48, "/healthy": 50}


@pytest.mark.store_options(lease=600.0)
async def test_endpoints_that_hang_leave_room_for_one_that_answers_in_the_same_application(
    scene: Scene, receiver: Receiver
) -> None:
    receiver.behave(Behaviour(hang=True), path="/hangs")
    for number in range(300):
        await scene.endpoint(url=f"{receiver.url}/hangs", channels=[f"c{number}"])
    await scene.endpoint(url=f"{receiver.url}/healthy", channels=["healthy"])
    async with working(scene.store, drain=0.5, deadline=500.0, slots=16, silent_slots=1024):
        await scene.ingest(
            [factory.new_message(scene.app.no, channels=[f"c{n}"]) for n in range(300) for _ in range(4)]
        )
        for _ in range(20):
            (message_id,) = await scene.send(channels=["healthy"])
            assert [one.state for one in await settled(scene.store, message_id)] == [DeliveryState.DELIVERED]
    assert Counter(received.path for received in receiver.requests)["/healthy"] == 20


@pytest.mark.store_options(lease=600.0)
async def test_endpoints_that_stop_answering_free_the_slots_of_those_that_answer(
    scene: Scene, receiver: Receiver
) -> None:
    """All slots are taken by an endpoint that answered before, and hangs now."""
    await scene.endpoint(url=f"{receiver.url}/stops", channels=["stops"])
    await scene.endpoint(url=f"{receiver.url}/healthy", channels=["healthy"])
    async with working(scene.store, drain=0.5, deadline=500.0, slots=8, share=8, app_share=1.0, silent_slots=64):
        for channel in ("stops", "healthy"):
            (message_id,) = await scene.send(channels=[channel])
            await settled(scene.store, message_id)
        receiver.behave(Behaviour(hang=True), path="/stops")
        await scene.send(8, channels=["stops"])
        await receiver.arrived(10)
        (message_id,) = await scene.send(channels=["healthy"])
        assert [one.state for one in await settled(scene.store, message_id)] == [DeliveryState.DELIVERED]


@pytest.mark.store_options(lease=600.0)
async def test_lanes_that_wait_for_their_application_keep_no_worker_busy(
    scene: Scene, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hundreds of lanes wait and no slot is free. The worker checks only now and then."""
    await add_hanging_application(scene, receiver, lanes=250, messages=1)
    made = claims_of(scene, monkeypatch)
    async with working(scene.store, drain=0.2, deadline=500.0, poll=5.0, silent_slots=64):
        await receiver.arrived(48)
        async with asyncio.timeout(60):
            while sum(len(batch.refused) for batch in made) < 202:
                await asyncio.sleep(0.02)
        made.clear()
        await asyncio.sleep(1.5)  # count what happens while nothing is done
        claims, lanes = len(made), sum(len(batch.refused) for batch in made)
    assert claims <= 150
    assert lanes <= 1000


@pytest.mark.store_options(lease=600.0)
async def test_large_payloads_in_flight_are_limited_by_their_bytes(scene: Scene, receiver: Receiver) -> None:
    """The receiver holds its answers back. Small payloads of the same application do not wait for the large ones."""
    may_answer = threading.Event()
    receiver.behave(Behaviour(answer_when=may_answer), path="/large")
    for number in range(8):
        await scene.endpoint(url=f"{receiver.url}/large", channels=[f"c{number}"])
    await scene.endpoint(url=f"{receiver.url}/small", channels=["small"])
    large = [
        factory.new_message(scene.app.no, channels=[f"c{number}"], payload=b'"' + b"x" * 199_998 + b'"')
        for number in range(8)
        for _ in range(5)
    ]
    async with working(scene.store, deadline=500.0, max_bytes=1_000_000, app_share=1.0):
        await scene.ingest(large)
        await receiver.arrived(5)
        for message_id in await scene.send(20, channels=["small"]):
            assert [one.state for one in await settled(scene.store, message_id)] == [DeliveryState.DELIVERED]
        paths = Counter(received.path for received in receiver.requests)
        may_answer.set()
        for message in large:
            assert [one.state for one in await settled(scene.store, message.id)] == [DeliveryState.DELIVERED]
    assert paths == {"/large": 5, "/small": 20}


@pytest.mark.store_options(lease=600.0)
async def test_lanes_that_wait_for_bytes_keep_no_worker_busy(
    scene: Scene, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each lane has more large payloads than a claim may take from it. No claim leases deliveries to return them."""
    receiver.behave(Behaviour(hang=True), path="/hangs")
    lanes = {(await scene.endpoint(url=f"{receiver.url}/hangs")).no for _ in range(8)}
    claims = claims_of(scene, monkeypatch)
    async with working(scene.store, drain=0.2, deadline=500.0, poll=5.0, max_bytes=1_000_000, app_share=0.75):
        await scene.send(25, payload=b'"' + b"x" * 199_998 + b'"')
        await receiver.arrived(4)
        async with asyncio.timeout(60):
            while not {no for batch in claims for no in batch.heavy} >= lanes:
                await asyncio.sleep(0.02)
        claims.clear()
        await asyncio.sleep(1.5)  # count what happens while nothing can be sent
        refused = sum(len(batch.refused) for batch in claims)
    assert len(claims) <= 150
    assert refused <= 1000
    assert len(receiver.requests) == 4


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
