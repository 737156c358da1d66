"""Retention drops whole daily partitions of history, unless a row in one is still needed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.support import factory
from tests.support.raw import RawPostgres
from tests.support.scene import Scene

OLD = datetime(2021, 3, 4, 5, 6, 7, tzinfo=UTC)
TABLES = ("attempt", "delivery_done", "message")


async def old_days(scene: Scene) -> None:
    """Create partitions of past days, as a deployment that ran then would have."""
    await scene.raw.execute("SELECT make_partitions('2021-03-03', 2)")


async def days(scene: Scene) -> set[str]:
    found = await scene.raw.rows(
        "SELECT relname FROM pg_class WHERE relnamespace = 'hookline'::regnamespace AND relispartition AND relkind = 'r'"
    )
    return {row["relname"] for row in found}


async def move_to_the_past(scene: Scene, *messages: str) -> None:
    """Move the whole history of these messages to the day `OLD`."""
    await scene.raw.execute("UPDATE message SET created_at = $2 WHERE id = ANY ($1)", messages, OLD)
    await scene.raw.execute("UPDATE attempt SET recorded_at = $2 WHERE message_id = ANY ($1)", messages, OLD)
    await scene.raw.execute(
        "UPDATE delivery_done SET finished_at = $2, message_at = $2 WHERE message_id = ANY ($1)", messages, OLD
    )
    for table in ("delivery", "dead_letter"):
        await scene.raw.execute(f"UPDATE {table} SET message_at = $2 WHERE message_id = ANY ($1)", messages, OLD)


async def test_partitions_older_than_the_retention_are_dropped(scene: Scene) -> None:
    await old_days(scene)
    await scene.endpoint()
    old, young = await scene.send(2)
    await scene.record(*factory.all_delivered(await scene.claim()))
    await move_to_the_past(scene, old)
    assert (await scene.store.upkeep.retire()).retired >= 9
    assert not any("_2021" in name for name in await days(scene))
    assert await scene.store.history.message_by_id(old) is None
    assert await scene.store.history.message_by_id(young) is not None


async def test_a_partition_with_needed_rows_loses_only_its_other_rows(scene: Scene) -> None:
    await old_days(scene)
    await scene.endpoint()
    done, dead, opened = await scene.send(3)
    jobs = {job.message_id: job for job in await scene.claim()}
    await scene.record(factory.delivered(jobs[done]), factory.dead(jobs[dead]), factory.retry(jobs[opened], after=0))
    await move_to_the_past(scene, done, dead, opened)
    await scene.store.upkeep.retire()
    kept = {name for name in await days(scene) if "_2021" in name}
    assert kept == {"message_20210304", "attempt_20210304", "attempt_20210305"}
    assert await scene.store.history.message_by_id(done) is None
    for message in (dead, opened):
        found = await scene.store.history.message_by_id(message)
        assert found is not None
        assert found.payload is not None
        assert len(await scene.store.history.attempts(message)) == 1
    (again,) = await scene.claim_all()
    assert (again.message_id, again.accepted_at) == (opened, OLD)


async def test_retention_that_waits_for_a_reader_does_not_block_ingest(scene: Scene, other: RawPostgres) -> None:
    """DROP waits for the reader, and later queries wait for DROP. So retention must wait only briefly."""
    await old_days(scene)
    await scene.endpoint()
    async with other.connection.transaction():
        await other.rows("SELECT * FROM message WHERE created_at < $1", OLD + timedelta(days=10))
        await scene.store.upkeep.retire()
        assert len(await scene.send(2)) == 2
        assert {name for name in await days(scene) if "_2021" in name and name.startswith("message")} != set()
    await scene.store.upkeep.retire()
    assert not any("_2021" in name for name in await days(scene))
    await scene.claim()


async def test_future_partitions_are_created_and_rows_of_a_missing_day_go_to_the_default_partition(
    scene: Scene,
) -> None:
    now = await scene.store.now()
    today, ahead = f"message_{now:%Y%m%d}", f"message_{now + timedelta(days=3):%Y%m%d}"
    await scene.raw.execute(f"DROP TABLE {today}")
    await scene.raw.execute(f"DROP TABLE {ahead}")
    await scene.endpoint()
    (message,) = await scene.send()
    assert await scene.raw.count("message_default") == 1
    await scene.store.upkeep.retire()
    assert ahead in await days(scene)
    assert today not in await days(scene)  # today's rows are already in the default partition
    assert [job.message_id for job in await scene.claim()] == [message]
