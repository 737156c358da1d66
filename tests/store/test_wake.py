"""Arm, wait, wake: new work wakes a sleeping worker, and no work is lost between its last claim and its sleep."""

from __future__ import annotations

import asyncio
import threading

import pytest

from hookline.model.dead import DeadFilter
from hookline.model.endpoints import OnDeath
from hookline.model.states import EndpointStatus
from hookline.store import Store
from tests.support import factory
from tests.support.scene import Scene

LONG = 120.0  # far longer than any test, so that a wait that only its timeout ends is a failure
SOON = 60.0


async def asleep(store: Store, scene: Scene) -> asyncio.Task[None]:
    """Return the wait of a worker that has armed and claimed nothing."""
    assert await store.pipeline.arm()
    assert await scene.claim(by=store) == []
    task = asyncio.create_task(store.pipeline.wait(LONG))
    await asyncio.sleep(0)  # let the wait begin
    return task


async def test_a_wait_ends_at_its_timeout(store: Store) -> None:
    await store.pipeline.arm()
    await asyncio.wait_for(store.pipeline.wait(0.01), SOON)


async def test_a_wait_ends_by_wake(scene: Scene) -> None:
    waiting = await asleep(scene.store, scene)
    scene.store.pipeline.wake()
    await asyncio.wait_for(waiting, SOON)


async def test_a_wait_ends_by_wake_from_another_thread(scene: Scene) -> None:
    waiting = await asleep(scene.store, scene)
    thread = threading.Thread(target=scene.store.pipeline.wake)
    thread.start()
    await asyncio.wait_for(waiting, SOON)
    thread.join()


async def test_a_wake_before_the_wait_is_not_lost(scene: Scene) -> None:
    await scene.store.pipeline.arm()
    scene.store.pipeline.wake()
    await asyncio.wait_for(scene.store.pipeline.wait(LONG), SOON)


async def test_ingest_of_this_process_wakes_a_worker(scene: Scene) -> None:
    await scene.endpoint()
    waiting = await asleep(scene.store, scene)
    await scene.send()
    await asyncio.wait_for(waiting, SOON)
    assert len(await scene.claim()) == 1


async def test_ingest_of_another_process_wakes_a_worker(scene: Scene, second: Store) -> None:
    await scene.endpoint()
    waiting = await asleep(scene.store, scene)
    await second.pipeline.ingest([factory.new_message(scene.app.no)])
    await asyncio.wait_for(waiting, SOON)
    assert len(await scene.claim()) == 1


async def test_work_that_comes_between_arming_and_waiting_is_not_lost(scene: Scene, second: Store) -> None:
    await scene.endpoint()
    assert await scene.store.pipeline.arm()
    await second.pipeline.ingest([factory.new_message(scene.app.no)])
    await asyncio.wait_for(scene.store.pipeline.wait(LONG), SOON)
    assert len(await scene.claim()) == 1


async def test_a_worker_can_sleep_again_and_again(scene: Scene, second: Store) -> None:
    await scene.endpoint()
    for _ in range(5):
        waiting = await asleep(scene.store, scene)
        await second.pipeline.ingest([factory.new_message(scene.app.no)])
        await asyncio.wait_for(waiting, SOON)
        await scene.record(*factory.all_delivered(await scene.claim()))


@pytest.mark.parametrize("how", ["replay", "resume", "resend"])
async def test_deliveries_that_operators_create_are_claimable_at_once(scene: Scene, second: Store, how: str) -> None:
    endpoint = await scene.endpoint()
    (message,) = await scene.send()
    await scene.record(*(factory.dead(job) for job in await scene.claim()))
    if how == "resume":
        await scene.store.repair.replay(DeadFilter())
        await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.PAUSED, "wait")
        assert await scene.claim() == []
        await second.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.ACTIVE, "go")
    elif how == "replay":
        await second.repair.replay(DeadFilter())
    else:
        await second.repair.resend(endpoint.no, message)
    assert [job.message_id for job in await scene.claim()] == [message]


async def test_resolving_a_dead_letter_wakes_the_deliveries_behind_it(scene: Scene) -> None:
    await scene.endpoint(on_death=OnDeath.BLOCK)
    _, behind = await scene.send(2, ordering_key="k")
    (head,) = await scene.claim()
    await scene.record(factory.dead(head))
    assert await scene.claim() == []
    waiting = await asleep(scene.store, scene)
    assert await scene.store.repair.resolve(DeadFilter(), "never mind") == 1
    await asyncio.wait_for(waiting, SOON)
    assert [job.message_id for job in await scene.claim()] == [behind]
