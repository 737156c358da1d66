"""Retention deletes finished and old data, but never the payload of an open delivery or a dead letter."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hookline.model.attempts import AttemptFilter
from hookline.model.dead import DeadFilter
from hookline.model.policy import PolicyOverride
from hookline.model.states import DeliveryState
from hookline.store import Page, Store
from tests.support import factory
from tests.support.scene import Scene

DAY = 86_400.0

pytestmark = pytest.mark.store_options(retention_days=10, dead_retention_days=20)


async def retire(store: Store) -> int:
    """Run retention until nothing more is deleted. Return the number of deleted rows."""
    taken = 0
    while gone := (await store.upkeep.retire()).retired:
        taken += gone
    return taken


async def settle(scene: Scene, how: str) -> str:
    """Create a message whose only delivery is in the state `how`."""
    (message,) = await scene.send()
    if how == "open":
        return message
    (job,) = [job for job in await scene.claim_all() if job.message_id == message]
    await scene.record(factory.delivered(job) if how == "delivered" else factory.dead(job))
    if how == "resolved":
        await scene.store.repair.resolve(DeadFilter(ids=(job.delivery_id,)), "by hand")
    return message


async def test_nothing_is_deleted_before_its_time(scene: Scene) -> None:
    await scene.endpoint()
    messages = [await settle(scene, how) for how in ("delivered", "dead", "resolved", "open")]
    await scene.age(9 * DAY)
    await retire(scene.store)
    for message in messages:
        found = await scene.store.history.message_by_id(message)
        assert found is not None
        assert found.payload is not None
        assert len(await scene.store.history.deliveries(message)) == 1


async def test_a_delivered_message_is_deleted_with_all_its_history(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    old = await settle(scene, "delivered")
    await scene.age(9 * DAY)
    young = await settle(scene, "delivered")
    await scene.age(2 * DAY)
    assert await retire(scene.store) > 0
    assert await scene.store.history.message_by_id(old) is None
    assert await scene.store.history.deliveries(old) == []
    assert await scene.store.history.attempts(old) == []
    assert await scene.store.history.message_by_id(young) is not None
    assert len(await scene.store.history.attempts(young)) == 1
    assert len((await scene.store.history.endpoint_attempts(endpoint.no, AttemptFilter(), Page())).rows) == 1


async def test_the_payload_of_an_open_delivery_stays(scene: Scene) -> None:
    """A time budget may be longer than the retention. A worker must still be able to send the message."""
    await scene.endpoint()
    message = await settle(scene, "open")
    long = await scene.raw.now() + timedelta(days=60)
    await scene.raw.execute("UPDATE delivery SET expires_at = $1", long)
    await scene.age(50 * DAY)
    await retire(scene.store)
    found = await scene.store.history.message_by_id(message)
    assert found is not None
    assert found.payload is not None
    (job,) = await scene.claim_all()
    assert job.payload == found.payload


async def test_the_payload_of_a_dead_letter_stays_until_the_dead_letter_retention(scene: Scene) -> None:
    await scene.endpoint()
    message = await settle(scene, "dead")
    await scene.age(15 * DAY)
    await retire(scene.store)
    found = await scene.store.history.message_by_id(message)
    assert found is not None
    assert found.payload is not None
    assert await scene.store.repair.replay(DeadFilter()) == 1
    (job,) = await scene.claim_all()
    assert job.payload == found.payload


async def test_an_old_message_that_died_recently_can_be_replayed(scene: Scene) -> None:
    """The age of the dead letter counts, not the age of the message."""
    await scene.endpoint()
    message = await settle(scene, "open")
    await scene.raw.execute("UPDATE delivery SET expires_at = due_at")
    await scene.age(30 * DAY)
    assert (await scene.store.upkeep.sweep_expired()).expired == 1
    await scene.age(1 * DAY)
    await retire(scene.store)
    assert await scene.state(message) == DeliveryState.DEAD
    assert await scene.store.repair.replay(DeadFilter()) == 1
    assert len(await scene.claim_all()) == 1


async def test_dead_letters_are_deleted_after_their_own_retention_and_counted(scene: Scene) -> None:
    await scene.endpoint()
    message = await settle(scene, "dead")
    await settle(scene, "dead")
    await settle(scene, "resolved")
    await scene.age(21 * DAY)
    report = await scene.store.upkeep.retire()
    assert report.dead_expired == 2  # nobody has resolved the dead letters
    assert report.retired >= 3
    assert (await scene.store.upkeep.retire()).dead_expired == 0
    assert (await scene.store.repair.dead_stats(DeadFilter(resolved=None))).dead == 0
    assert await scene.store.history.deliveries(message) == []
    await retire(scene.store)
    assert await scene.store.history.message_by_id(message) is None


async def test_a_message_with_an_open_delivery_is_kept(scene: Scene) -> None:
    """The message was delivered to one endpoint and is still open at another, so it is kept completely."""
    quick, slow = await scene.endpoint(), await scene.endpoint()
    (message,) = await scene.send(policy=PolicyOverride(max_age=20 * DAY))
    jobs = {job.endpoint_no: job for job in await scene.claim_all()}
    await scene.record(factory.delivered(jobs[quick.no]))
    await scene.store.pipeline.release([jobs[slow.no]])
    await scene.age(11 * DAY)
    await retire(scene.store)
    assert [job.message_id for job in await scene.claim_all()] == [message]


async def test_retention_deletes_in_batches(scene: Scene) -> None:
    await scene.endpoint()
    await scene.send(30)
    await scene.record(*factory.all_delivered(await scene.claim_all()))
    await scene.age(11 * DAY)
    rounds = 0
    while (await scene.store.upkeep.retire(limit=7)).retired:
        rounds += 1
        assert rounds < 100
    assert (
        await scene.raw.count("message")
        == await scene.raw.count("attempt")
        == await scene.raw.count("delivery_done")
        == 0
    )


async def test_an_event_id_is_free_again_after_its_message(scene: Scene) -> None:
    await scene.ingest([factory.new_message(scene.app.no, event_id="evt-1")])
    await scene.age(11 * DAY)
    await retire(scene.store)
    (again,) = await scene.ingest([factory.new_message(scene.app.no, event_id="evt-1")])
    assert again.status == "accepted"


async def test_old_partitions_are_dropped_on_postgres(scene: Scene) -> None:
    """On PostgreSQL a day of history is a partition that is dropped. SQLite has no partitions and deletes rows."""
    await scene.endpoint()
    if scene.store.engine == "postgres":
        await scene.raw.execute("SELECT make_partitions((now() AT TIME ZONE 'UTC')::date - 12, 3)")
    await scene.send(3)
    await scene.record(*factory.all_delivered(await scene.claim_all()))
    await scene.age(11 * DAY)
    partitions = "SELECT count(*) AS n FROM pg_class WHERE relispartition AND relkind = 'r' AND relname ~ '_[0-9]{8}$'"
    before = await scene.raw.value(partitions) if scene.store.engine == "postgres" else 0
    assert await retire(scene.store) > 0
    assert await scene.raw.count("message") == 0
    if scene.store.engine == "postgres":
        assert await scene.raw.value(partitions) < before


async def test_a_partition_with_a_dead_letter_is_kept(scene: Scene) -> None:
    await scene.endpoint()
    if scene.store.engine == "postgres":
        await scene.raw.execute("SELECT make_partitions((now() AT TIME ZONE 'UTC')::date - 12, 3)")
    message = await settle(scene, "dead")
    await settle(scene, "delivered")
    await scene.age(11 * DAY)
    await retire(scene.store)
    assert await scene.store.repair.replay(DeadFilter()) == 1
    (job,) = await scene.claim_all()
    assert (job.message_id, bool(job.payload)) == (message, True)
