"""The task runner: every worker takes part in every task, and no task is lost with a worker."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from hookline.engine.tasks import TRIES, TaskRunner
from hookline.model.tasks import NewTask, Task, TaskKind, TaskStatus, TaskWork
from hookline.security.vault import Vault
from hookline.store import Store, StoreOptions, open_store
from hookline.store.outage import Outage
from tests.support import factory
from tests.support.processes import environment, running
from tests.support.raw import open_raw
from tests.support.receiver import Receiver
from tests.support.scene import Scene


def runner(store: Store, **settings: float) -> TaskRunner:
    return TaskRunner(store, Outage(random.Random(3)), random.Random(5), **settings)  # type: ignore[arg-type]


@asynccontextmanager
async def working(*runners: TaskRunner) -> AsyncIterator[None]:
    stop = asyncio.Event()
    tasks = [asyncio.create_task(each.run(stop)) for each in runners]
    try:
        yield
    finally:
        stop.set()
        await asyncio.gather(*tasks)


async def ended(store: Store, task: Task, within: float = 60.0) -> Task:
    """Wait for the end of a task. Another asyncio task or process does the work, so there is no event to await."""
    async with asyncio.timeout(within):
        while True:
            found = await store.repair.task(task.org_id, task.id)
            assert found is not None
            if found.status != TaskStatus.RUNNING:
                return found
            await asyncio.sleep(0.01)


async def buried(scene: Scene, count: int) -> list[str]:
    messages = await scene.send(count)
    await scene.record(*(factory.dead(job) for job in await scene.claim_all(1000)))
    return messages


async def add(scene: Scene, by: Store | None = None) -> Task:
    new = NewTask(org_id=scene.organization.id, app_no=scene.app.no, kind=TaskKind.REPLAY_DEAD, work=TaskWork())
    return await (by or scene.store).repair.add_task(new)


async def test_a_task_that_is_added_here_is_done_at_once(scene: Scene) -> None:
    """The poll interval is too long to matter here."""
    await scene.endpoint()
    messages = await buried(scene, 5)
    async with working(runner(scene.store, poll=3600)):
        for _ in range(3):
            await asyncio.sleep(0)  # the runner has checked, and waits
        done = await ended(scene.store, await add(scene))
    assert (done.status, done.done, done.total) == (TaskStatus.FINISHED, 5, 5)
    assert len(await scene.claim_all()) == len(messages)


async def test_the_runner_stops_checking_when_all_tasks_are_done(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    checks: list[list[str]] = []
    check = scene.store.repair.open_tasks

    async def counted(limit: int) -> list[str]:
        checks.append(await check(limit))
        return list(checks[-1])

    monkeypatch.setattr(scene.store.repair, "open_tasks", counted)
    async with working(runner(scene.store, poll=3600)):
        await ended(scene.store, await add(scene))
        async with asyncio.timeout(60):
            while checks[-1]:  # the runner checks once more after the last step of the task
                await asyncio.sleep(0.01)  # there is no event for this
        before = len(checks)
        await asyncio.sleep(0.2)  # there is no event for something that must not happen
    assert len(checks) == before


async def test_a_task_of_another_process_is_found_by_polling(scene: Scene, second: Store) -> None:
    await scene.endpoint()
    await buried(scene, 5)
    async with working(runner(scene.store, poll=0.02)):
        assert (await ended(second, await add(scene, by=second))).done == 5
    await scene.claim_all()


@pytest.mark.store_options(pause_dead_per_day=200)
async def test_several_workers_share_several_tasks_and_do_each_row_once(scene: Scene, second: Store) -> None:
    await scene.endpoint()
    messages = await buried(scene, 200)
    tasks = [await add(scene) for _ in range(3)]
    async with working(*(runner(store, poll=0.02, step=7) for store in (scene.store, second))):
        results = [await ended(scene.store, task) for task in tasks]
    assert sum(task.done for task in results) == 200
    assert Counter(job.message_id for job in await scene.claim_all(1000)) == Counter(messages)


async def test_each_round_gives_every_task_one_step(scene: Scene) -> None:
    await scene.endpoint()
    await buried(scene, 30)
    tasks = [await add(scene) for _ in range(3)]
    assert await runner(scene.store, step=4).once() == 3
    found = [await scene.store.repair.task(task.org_id, task.id) for task in tasks]
    assert sum(task.done for task in found if task is not None) == 12
    await scene.claim_all()


async def test_cancel_ends_a_task_between_two_steps(scene: Scene) -> None:
    await scene.endpoint()
    await buried(scene, 30)
    task = await add(scene)
    each = runner(scene.store, step=10)
    await each.once()
    await scene.store.repair.cancel_task(task.id)
    assert await each.once() == 0
    assert len(await scene.claim_all()) == 10


async def test_a_step_that_keeps_failing_fails_only_its_own_task(scene: Scene) -> None:
    await scene.endpoint()
    await buried(scene, 5)
    broken, healthy = await add(scene), await add(scene)
    await scene.raw.execute("UPDATE task SET position = 'nowhere' WHERE id = $1", broken.id)
    each = runner(scene.store)
    with capture_logs() as logs:
        assert await each.once() == 1
        for _ in range(TRIES):
            each._failing = {task_id: (failures, 0.0) for task_id, (failures, _) in each._failing.items()}
            await each.once()
    failed, done = await ended(scene.store, broken), await ended(scene.store, healthy)
    assert (failed.status, failed.done) == (TaskStatus.FAILED, 0)
    assert "nowhere" in (failed.error or "")
    assert (done.status, done.done) == (TaskStatus.FINISHED, 5)
    assert sum(entry["event"] == "task_step_failed" for entry in logs) == TRIES
    await scene.claim_all()


async def test_a_failed_step_is_retried_later(scene: Scene) -> None:
    task = await add(scene)
    await scene.raw.execute("UPDATE task SET position = 'nowhere'")
    each = runner(scene.store)
    with capture_logs():
        assert [await each.once() for _ in range(20)] == [0] * 20
    await scene.raw.execute("UPDATE task SET position = NULL")
    assert (await scene.store.repair.task(task.org_id, task.id)).status == TaskStatus.RUNNING  # type: ignore[union-attr]
    each._failing.clear()
    await each.once()
    assert (await ended(scene.store, task)).status == TaskStatus.FINISHED


LETTERS = 4000  # enough for several steps
# Each letter takes a millisecond or two, so no worker has finished before the test can read the state.
_SLOW = {
    "sqlite": ["CREATE TRIGGER slow BEFORE DELETE ON dead_letter BEGIN SELECT length(hex(zeroblob(300000))); END"],
    "postgres": [
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.002); RETURN OLD; END $$",
        "CREATE TRIGGER slow BEFORE DELETE ON dead_letter FOR EACH ROW EXECUTE FUNCTION slow()",
    ],
}
_QUICK = {"sqlite": ["DROP TRIGGER slow"], "postgres": ["DROP TRIGGER slow ON dead_letter", "DROP FUNCTION slow()"]}


@pytest.mark.parametrize("signal", ["kill", "stop"])
async def test_a_killed_worker_loses_and_repeats_no_row(database_url: str, tmp_path: Path, signal: str) -> None:
    """A real process is killed while it works on a task. Another process finishes it."""
    env = environment(database_url)
    store = await open_store(database_url, vault=Vault([env["HOOKLINE_SECRET_KEY"]]), options=StoreOptions())
    await store.migrate()
    with Receiver() as receiver:
        organization = await store.catalogue.save_organization(factory.organization())
        app = await store.catalogue.create_application(organization.id, factory.new_application())
        endpoint = await store.catalogue.create_endpoint(
            app.no, factory.new_endpoint(url=receiver.url, throttle_rate=1.0)
        )
        messages = await _dead(store, database_url, app.no, LETTERS)
        task = await store.repair.add_task(
            NewTask(
                org_id=organization.id,
                app_no=app.no,
                endpoint_no=endpoint.no,
                kind=TaskKind.RECOVER,
                work=TaskWork(),
            )
        )
        await _run(database_url, _SLOW)
        with running(["worker"], env, tmp_path / "first.log") as first:
            seen = await _under_way(store, task)
            first.kill() if signal == "kill" else first.stop()
        await _run(database_url, _QUICK)
        assert seen.total == LETTERS
        with running(["worker"], env, tmp_path / "second.log") as other:
            done = await ended(store, task)
            other.stop()
        assert (done.status, done.done, done.skipped) == (TaskStatus.FINISHED, LETTERS, 0)
    await store.close()
    await _check_each_once(database_url, messages)


async def _dead(store: Store, url: str, app_no: int, count: int) -> list[str]:
    """Create dead letters for several steps. The throttle of the lane keeps nearly all replayed ones waiting."""
    messages: list[str] = []
    while len(messages) < count:
        batch = factory.new_messages(app_no, 1000)
        await store.pipeline.ingest(batch)
        messages += [message.id for message in batch]
    await _make_all_dead(url)
    return messages


async def _run(url: str, statements: dict[str, list[str]]) -> None:
    raw = await open_raw(url)
    for statement in statements[raw.engine]:
        await raw.execute(statement)
    await raw.close()


async def _make_all_dead(url: str) -> None:
    raw = await open_raw(url)
    await raw.execute(
        "INSERT INTO dead_letter (id, app_no, endpoint_no, message_seq, message_at, message_id, event_type, attempts, sent,"
        " reason, detail, died_at) SELECT id, app_no, endpoint_no, message_seq, message_at, message_id, event_type, 3, 3,"
        " 'attempts_exhausted', 'no', message_at FROM delivery"
    )
    await raw.execute("DELETE FROM delivery")
    await raw.close()


async def _under_way(store: Store, task: Task) -> Task:
    async with asyncio.timeout(120):
        while True:
            found = await store.repair.task(task.org_id, task.id)
            assert found is not None
            assert found.status == TaskStatus.RUNNING
            if found.done:
                return found
            await asyncio.sleep(0.001)


async def _check_each_once(url: str, messages: list[str]) -> None:
    raw = await open_raw(url)
    rows = await raw.rows("SELECT message_id FROM delivery UNION ALL SELECT message_id FROM delivery_done")
    assert Counter(row["message_id"] for row in rows) == Counter(messages)
    assert await raw.count("dead_letter") == 0
    await raw.close()
