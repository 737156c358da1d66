"""Sleeping workers. Work of this process wakes them at once. They poll the file version for work of others."""

from __future__ import annotations

import asyncio

from hookline.store import Store
from tests.support import factory
from tests.support.counts import count
from tests.support.scene import Scene

FOREVER = 120.0  # a test that waits this long fails by its own timeout first


async def asleep(store: Store) -> asyncio.Task[None]:
    assert await store.pipeline.arm()
    waiting = asyncio.create_task(store.pipeline.wait(FOREVER))
    await asyncio.sleep(0)
    return waiting


async def test_a_message_of_this_process_ends_the_wait(scene: Scene) -> None:
    await scene.endpoint()
    waiting = await asleep(scene.store)
    await scene.send()
    await asyncio.wait_for(waiting, 60)


async def test_a_message_of_another_process_ends_the_wait(scene: Scene, second: Store) -> None:
    await scene.endpoint()
    waiting = await asleep(second)
    await scene.send()
    await asyncio.wait_for(waiting, 60)
    assert len(await scene.claim(by=second)) == 1


async def test_reads_and_its_own_claims_do_not_end_the_wait(scene: Scene) -> None:
    await scene.endpoint()
    waiting = await asleep(scene.store)
    for _ in range(3):
        await scene.claim()
        await count(scene.store)
    assert not waiting.done()
    await asyncio.to_thread(scene.store.pipeline.wake)
    await asyncio.wait_for(waiting, 60)


async def test_work_that_arrives_between_arming_and_waiting_ends_the_wait(scene: Scene) -> None:
    await scene.endpoint()
    await scene.store.pipeline.arm()
    await scene.send()
    await asyncio.wait_for(scene.store.pipeline.wait(FOREVER), 60)


async def test_a_retry_that_is_due_sooner_ends_the_wait(scene: Scene) -> None:
    await scene.endpoint()
    await scene.send()
    (job,) = await scene.claim()
    waiting = await asleep(scene.store)
    await scene.record(factory.retry(job, after=0.5))
    await asyncio.wait_for(waiting, 60)
