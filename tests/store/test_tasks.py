"""Tasks: long work in steps that workers share. A crash neither repeats nor loses a step."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from hookline import ids
from hookline.errors import Conflict, NotFound
from hookline.model.dead import DeadFilter
from hookline.model.deliveries import LeasedDelivery
from hookline.model.endpoints import Endpoint
from hookline.model.states import DeliveryState, EndpointStatus, Reason
from hookline.model.tasks import NewTask, Task, TaskFilter, TaskKind, TaskStatus, TaskWork
from hookline.store import Page, Store
from hookline.store.bounds import MAX_RUNNING
from tests.support import factory
from tests.support.raw import RawPostgres
from tests.support.scene import Scene

HOUR = timedelta(hours=1)


async def new_task(scene: Scene, kind: TaskKind, endpoint: Endpoint | None = None, **work: Any) -> NewTask:
    return NewTask(
        org_id=scene.organization.id,
        app_no=scene.app.no,
        kind=kind,
        work=TaskWork(**work),
        endpoint_no=None if endpoint is None else endpoint.no,
    )


async def add(scene: Scene, kind: TaskKind, endpoint: Endpoint | None = None, **work: Any) -> Task:
    return await scene.store.repair.add_task(await new_task(scene, kind, endpoint, **work))


async def last_hour(scene: Scene) -> dict[str, Any]:
    now = await scene.store.now()
    return {"since": now - HOUR, "until": now + HOUR}


async def finish(store: Store, task: Task, limit: int = 3) -> list[Task]:
    """Run every step of the task."""
    steps = []
    while (stepped := await store.repair.step_task(task.id, limit)) is not None:
        steps.append(stepped)
        assert len(steps) < 100
    return steps


async def bury(scene: Scene, count: int = 1, reason: Reason = Reason.PERMANENT_FAILURE, **fields: Any) -> list[str]:
    messages = await scene.send(count, **fields)
    await scene.record(*(factory.dead(job, reason) for job in await scene.claim_all()))
    await scene.age(1)
    return messages


def messages_of(jobs: Sequence[LeasedDelivery]) -> list[str]:
    return sorted(job.message_id for job in jobs)


# ── storing tasks ──


async def test_every_field_of_a_task_is_stored(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await bury(scene, 4)
    window = await last_hour(scene)
    added = await add(
        scene, TaskKind.RECOVER, endpoint, **window, reason=Reason.PERMANENT_FAILURE, event_types=("a", "b")
    )
    assert added.id.startswith(ids.TASK)
    assert (added.org_id, added.app_no, added.app_id) == (scene.organization.id, scene.app.no, scene.app.id)
    assert (added.endpoint_no, added.endpoint_id, added.kind) == (endpoint.no, endpoint.id, TaskKind.RECOVER)
    assert (added.status, added.done, added.skipped, added.position) == (TaskStatus.RUNNING, 0, 0, None)
    assert added.work == TaskWork(**window, reason=Reason.PERMANENT_FAILURE, event_types=("a", "b"))
    assert await scene.store.repair.task(scene.organization.id, added.id) == added


async def test_a_task_of_another_organization_is_not_found(scene: Scene) -> None:
    other = await scene.store.catalogue.save_organization(factory.organization())
    task = await add(scene, TaskKind.REPLAY_DEAD)
    assert await scene.store.repair.task(other.id, task.id) is None
    assert await scene.store.repair.task(scene.organization.id, "qtask_unknown") is None
    assert await scene.store.repair.tasks(TaskFilter(org_id=other.id), Page()) == []


async def test_tasks_are_listed_in_both_directions_and_filtered(scene: Scene) -> None:
    sibling = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())
    kinds = [TaskKind.REPLAY_DEAD, TaskKind.RESOLVE_DEAD, TaskKind.REPLAY_DEAD]
    mine = [(await add(scene, kind)).id for kind in kinds]
    theirs = await scene.store.repair.add_task(
        NewTask(org_id=scene.organization.id, app_no=sibling.no, kind=TaskKind.REPLAY_DEAD, work=TaskWork())
    )
    await scene.store.repair.cancel_task(mine[0])
    everything = sorted([*mine, theirs.id])

    async def listed(page: Page = Page(), *, newest_first: bool = True, **where: Any) -> list[str]:  # noqa: B008
        chosen = TaskFilter(org_id=scene.organization.id, **where)
        return [task.id for task in await scene.store.repair.tasks(chosen, page, newest_first=newest_first)]

    assert await listed() == everything[::-1]
    assert await listed(newest_first=False) == everything
    assert await listed(app_no=scene.app.no) == sorted(mine, reverse=True)
    assert await listed(kinds=(TaskKind.RESOLVE_DEAD,)) == [mine[1]]
    assert await listed(statuses=(TaskStatus.CANCELED, TaskStatus.FAILED)) == [mine[0]]
    assert await listed(kinds=()) == []
    newest = everything[::-1]
    assert await listed(Page(limit=2)) == newest[:2]
    assert await listed(Page(limit=2, iterator=newest[1])) == newest[2:]
    assert await listed(Page(limit=2, iterator=newest[3], backwards=True)) == newest[1:3]
    assert await listed(Page(limit=2, iterator=everything[1]), newest_first=False) == everything[2:]
    assert await listed(Page(limit=2, iterator=everything[3], backwards=True), newest_first=False) == everything[1:3]


async def test_the_number_of_open_tasks_of_an_application_is_limited(scene: Scene) -> None:
    tasks = [await add(scene, TaskKind.REPLAY_DEAD) for _ in range(MAX_RUNNING)]
    with pytest.raises(Conflict, match=str(MAX_RUNNING)):
        await add(scene, TaskKind.REPLAY_DEAD)
    sibling = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())
    await scene.store.repair.add_task(
        NewTask(org_id=scene.organization.id, app_no=sibling.no, kind=TaskKind.REPLAY_DEAD, work=TaskWork())
    )
    await finish(scene.store, tasks[3])
    await add(scene, TaskKind.REPLAY_DEAD)


async def test_the_total_is_counted_up_to_a_limit(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = await scene.endpoint()
    await bury(scene, 5)
    await bury(scene, 2, Reason.ATTEMPTS_EXHAUSTED)
    assert (await add(scene, TaskKind.REPLAY_DEAD)).total == 7
    assert (await add(scene, TaskKind.RECOVER, endpoint, reason=Reason.ATTEMPTS_EXHAUSTED)).total == 2
    chosen = {"reason": Reason.ATTEMPTS_EXHAUSTED, "event_types": ("order.paid",)}
    assert (await add(scene, TaskKind.REPLAY_DEAD, endpoint, **chosen)).total == 2
    assert (await add(scene, TaskKind.RESOLVE_DEAD, event_types=("order.paid", "order.shipped"))).total == 7
    assert (await add(scene, TaskKind.REPLAY_DEAD, died_until=await scene.store.now() - HOUR)).total == 0
    monkeypatch.setattr("hookline.store.plans.tasks.COUNTED", 7)
    assert (await add(scene, TaskKind.RECOVER, endpoint)).total is None
    assert (await add(scene, TaskKind.REPLAY_DEAD)).total == 7
    monkeypatch.setattr("hookline.store.plans.tasks.COUNTED_DEAD", 7)
    assert (await add(scene, TaskKind.REPLAY_DEAD)).total is None


async def test_retention_deletes_finished_tasks(scene: Scene) -> None:
    running, finished, young = [await add(scene, TaskKind.REPLAY_DEAD) for _ in range(3)]
    await finish(scene.store, finished)
    await scene.age(31 * 86_400)
    await finish(scene.store, young)
    while (await scene.store.upkeep.retire()).retired:
        pass
    left = {task.id for task in await scene.store.repair.tasks(TaskFilter(org_id=scene.organization.id), Page())}
    assert left == {running.id, young.id}


# ── steps over dead letters ──


async def test_dead_letters_are_replayed_in_steps_oldest_first(scene: Scene) -> None:
    await scene.endpoint()
    messages = [message for _ in range(8) for message in await bury(scene)]
    task = await add(scene, TaskKind.REPLAY_DEAD)
    first = await scene.store.repair.step_task(task.id, 3)
    assert first is not None
    assert (first.status, first.done, first.total) == (TaskStatus.RUNNING, 3, 8)
    assert messages_of(await scene.claim_all()) == sorted(messages[:3])
    steps = await finish(scene.store, task)
    assert [(step.status, step.done) for step in steps] == [(TaskStatus.RUNNING, 6), (TaskStatus.FINISHED, 8)]
    assert messages_of(await scene.claim_all()) == sorted(messages[3:])
    assert await scene.store.repair.open_tasks(10) == []


@pytest.mark.parametrize("ahead", [False, True])
async def test_a_delivery_that_dies_again_while_a_task_runs_is_not_replayed_again(scene: Scene, ahead: bool) -> None:
    """Otherwise dead letters of a failing endpoint would be replayed for ever, also if the time window ends in the
    future."""
    await scene.endpoint()
    await bury(scene, 5)
    window = {"died_until": await scene.store.now() + HOUR} if ahead else {}
    task = await add(scene, TaskKind.REPLAY_DEAD, **window)
    for _ in range(20):
        if (stepped := await scene.store.repair.step_task(task.id, 2)) is None:
            break
        await scene.record(*(factory.dead(job) for job in await scene.claim_all()))
        last = stepped
    assert (last.status, last.done, last.skipped) == (TaskStatus.FINISHED, 5, 0)
    assert (await scene.store.repair.dead_stats(DeadFilter())).dead == 5


async def test_a_task_uses_its_filter_and_leaves_other_applications(scene: Scene) -> None:
    sibling = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())
    await scene.endpoint(sibling)
    endpoint = await scene.endpoint()
    await bury(scene, 2, event_type="a")
    (wanted,) = await bury(scene, 1, Reason.ATTEMPTS_EXHAUSTED, event_type="b")
    await bury(scene, 2, event_type="b")
    await scene.ingest(factory.new_messages(sibling.no, 2, event_type="b"))
    await scene.record(*(factory.dead(job, Reason.ATTEMPTS_EXHAUSTED) for job in await scene.claim_all()))
    for of in (None, endpoint):
        task = await add(scene, TaskKind.REPLAY_DEAD, of, event_types=("b",), reason=Reason.ATTEMPTS_EXHAUSTED)
        steps = await finish(scene.store, task, 1)
        assert (steps[-1].done, steps[-1].total) == (1, 1)
        (job,) = await scene.claim_all()
        assert job.message_id == wanted
        await scene.record(factory.dead(job, Reason.ATTEMPTS_EXHAUSTED))
    assert (await scene.store.repair.dead_stats(DeadFilter(app_no=sibling.no))).dead == 2


async def test_the_time_window_of_deaths_is_half_open(scene: Scene) -> None:
    await scene.endpoint()
    for _ in range(4):
        await bury(scene)
    letters = (await scene.store.repair.dead_letters(DeadFilter(), Page()))[::-1]
    task = await add(scene, TaskKind.REPLAY_DEAD, died_since=letters[1].died_at, died_until=letters[3].died_at)
    assert (await finish(scene.store, task, 1))[-1].done == 2
    assert messages_of(await scene.claim_all()) == sorted(letter.message_id for letter in letters[1:3])


async def test_a_recovery_selects_by_the_time_of_acceptance(scene: Scene) -> None:
    endpoint, other = await scene.endpoint(), await scene.endpoint()
    await bury(scene)
    await scene.age(7200)
    (recovered,) = await bury(scene)
    await bury(scene, 1, Reason.BUDGET_EXHAUSTED)
    resolved = (await scene.store.repair.dead_letters(DeadFilter(endpoint_no=endpoint.no), Page(limit=1)))[0]
    await scene.store.repair.resolve(DeadFilter(ids=(resolved.id,)), "by hand")
    task = await add(scene, TaskKind.RECOVER, endpoint, **await last_hour(scene))
    assert (await finish(scene.store, task))[-1].done == 1
    assert [(job.message_id, job.endpoint_no, job.trigger) for job in await scene.claim_all()] == [
        (recovered, endpoint.no, 1)
    ]
    assert (await scene.store.repair.dead_stats(DeadFilter(endpoint_no=other.no))).dead == 3


async def test_dead_letters_that_cannot_be_sent_are_skipped_and_counted(scene: Scene) -> None:
    disabled, well = await scene.endpoint(event_types=("a",)), await scene.endpoint(event_types=("b",))
    await bury(scene, 3, event_type="a")
    await bury(scene, 4, event_type="b")
    (lost,) = await bury(scene, 1, event_type="b")
    await scene.raw.execute("UPDATE message SET payload = NULL WHERE id = $1", lost)
    await scene.store.catalogue.set_endpoint_status(disabled.no, EndpointStatus.DISABLED, "left us")
    task = await add(scene, TaskKind.REPLAY_DEAD)
    last = (await finish(scene.store, task, 2))[-1]
    assert (last.status, last.done, last.skipped, last.total) == (TaskStatus.FINISHED, 4, 4, 8)
    assert {job.endpoint_no for job in await scene.claim_all()} == {well.no}
    assert (await scene.store.repair.dead_stats(DeadFilter())).dead == 4


async def test_many_dead_letters_are_resolved_with_the_note_whatever_their_endpoint(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await bury(scene, 5)
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.DISABLED, "left us")
    task = await add(scene, TaskKind.RESOLVE_DEAD, endpoint, note="refunded")
    last = (await finish(scene.store, task, 2))[-1]
    assert (last.status, last.done, last.skipped) == (TaskStatus.FINISHED, 5, 0)
    found = await scene.store.repair.dead_letters(DeadFilter(resolved=True), Page())
    assert [letter.note for letter in found] == ["refunded"] * 5
    assert await scene.claim_all() == []


# ── steps over messages ──


async def test_missed_messages_are_sent_in_steps(scene: Scene) -> None:
    await scene.send(2, event_type="b")
    missed = await scene.send(7, event_type="a")
    endpoint = await scene.endpoint(event_types=("a",))
    task = await add(scene, TaskKind.REPLAY_MISSING, endpoint, **await last_hour(scene))
    assert task.total == 7
    steps = await finish(scene.store, task, 4)
    assert (steps[-1].status, steps[-1].done, steps[-1].skipped) == (TaskStatus.FINISHED, 7, 0)
    assert len(steps) == 3
    assert messages_of(await scene.claim_all()) == sorted(missed)
    again = await add(scene, TaskKind.REPLAY_MISSING, endpoint, **await last_hour(scene))
    assert (await finish(scene.store, again))[-1].done == 0


@pytest.mark.store_options(retention_days=10, dead_retention_days=100)
async def test_a_message_whose_delivery_record_was_deleted_is_not_missed(scene: Scene) -> None:
    """The message is kept for another endpoint's dead letter. The record of its delivery to this endpoint is already
    deleted."""
    well, sick = await scene.endpoint(), await scene.endpoint()
    await scene.send()
    jobs = {job.endpoint_no: job for job in await scene.claim_all()}
    await scene.record(factory.delivered(jobs[well.no]), factory.dead(jobs[sick.no]))
    await scene.age(12 * 86_400)
    while (await scene.store.upkeep.retire()).retired:
        pass
    assert await scene.raw.count("delivery_done") == 0
    assert await scene.raw.count("message") == 1
    now = await scene.store.now()
    since, until = now - timedelta(days=30), now + HOUR
    task = await add(scene, TaskKind.REPLAY_MISSING, well, since=since, until=until)
    assert (await finish(scene.store, task))[-1].done == 0
    assert await scene.claim_all() == []


async def settle(scene: Scene, endpoint: Endpoint) -> dict[str, str]:
    """Create one message for each state that it can have at an endpoint."""
    names = {}
    for name in ("delivered", "dead", "resolved", "open"):
        (names[name],) = await scene.send(event_type=name, tags=(name,), channels=(name,))
        (job,) = await scene.claim_all()
        if name == "delivered":
            await scene.record(factory.delivered(job))
        elif name == "open":
            await scene.record(factory.retry(job, after=3000))
        else:
            await scene.record(factory.dead(job))
    letters = {letter.message_id: letter.id for letter in await scene.store.repair.dead_letters(DeadFilter(), Page())}
    await scene.store.repair.resolve(DeadFilter(ids=(letters[names["resolved"]],)), "by hand")
    return names


@pytest.mark.parametrize(
    ("work", "sent"),
    [
        ({}, ["delivered", "dead", "resolved"]),
        ({"outcome": DeliveryState.DELIVERED}, ["delivered"]),
        ({"outcome": DeliveryState.DEAD}, ["dead", "resolved"]),
        ({"event_types": ("dead", "open")}, ["dead"]),
        ({"tag": "delivered"}, ["delivered"]),
        ({"channel": "resolved"}, ["resolved"]),
        ({"channel": "nowhere"}, []),
    ],
)
async def test_a_bulk_replay_resends_earlier_messages(scene: Scene, work: dict[str, Any], sent: list[str]) -> None:
    endpoint = await scene.endpoint()
    names = await settle(scene, endpoint)
    task = await add(scene, TaskKind.BULK_REPLAY, endpoint, **await last_hour(scene), **work)
    assert task.total == len(sent)
    last = (await finish(scene.store, task, 2))[-1]
    assert (last.status, last.done) == (TaskStatus.FINISHED, len(sent))
    assert messages_of(await scene.claim_all()) == sorted(names[name] for name in sent)


async def test_a_bulk_replay_skips_messages_that_are_already_open(scene: Scene) -> None:
    """Of two concurrent tasks, the second finds nothing to do and counts the rows as skipped."""
    endpoint = await scene.endpoint()
    await scene.send(3)
    await scene.record(*factory.all_delivered(await scene.claim_all()))
    tasks = [await add(scene, TaskKind.BULK_REPLAY, endpoint, **await last_hour(scene)) for _ in range(2)]
    last = [(await finish(scene.store, task))[-1] for task in tasks]
    assert [(task.done, task.skipped) for task in last] == [(3, 0), (0, 3)]
    assert len(await scene.claim_all()) == 3


async def test_a_bulk_replay_does_not_send_messages_the_endpoint_never_got(scene: Scene) -> None:
    await scene.send(2)
    endpoint = await scene.endpoint()
    task = await add(scene, TaskKind.BULK_REPLAY, endpoint, **await last_hour(scene))
    assert (await finish(scene.store, task))[-1].done == 0


# ── end of a task ──


@pytest.mark.parametrize("kind", [TaskKind.RECOVER, TaskKind.REPLAY_MISSING, TaskKind.BULK_REPLAY])
async def test_a_task_of_an_endpoint_that_cannot_receive_fails(scene: Scene, kind: TaskKind) -> None:
    endpoint = await scene.endpoint()
    await bury(scene, 4)
    window = await last_hour(scene)
    tasks = [await add(scene, kind, endpoint, **window) for _ in range(2)]
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.DISABLED, "left us")
    disabled = await scene.store.repair.step_task(tasks[0].id)
    await scene.store.catalogue.delete_endpoint(endpoint.no)
    deleted = await scene.store.repair.step_task(tasks[1].id)
    assert disabled is not None
    assert deleted is not None
    assert (disabled.status, deleted.status) == (TaskStatus.FAILED, TaskStatus.FAILED)
    assert "disabled" in (disabled.error or "")
    assert deleted.error
    assert (await scene.store.repair.dead_stats(DeadFilter())).dead == 4


async def test_a_canceled_task_does_no_more(scene: Scene) -> None:
    await scene.endpoint()
    await bury(scene, 6)
    task = await add(scene, TaskKind.REPLAY_DEAD)
    await scene.store.repair.step_task(task.id, 2)
    canceled = await scene.store.repair.cancel_task(task.id)
    assert (canceled.status, canceled.done) == (TaskStatus.CANCELED, 2)
    assert await scene.store.repair.step_task(task.id) is None
    assert await scene.store.repair.open_tasks(10) == []
    assert (await scene.store.repair.cancel_task(task.id)).status == TaskStatus.CANCELED
    assert len(await scene.claim_all()) == 2
    with pytest.raises(NotFound):
        await scene.store.repair.cancel_task("qtask_unknown")


async def test_a_finished_task_cannot_be_canceled_or_failed(scene: Scene) -> None:
    task = await add(scene, TaskKind.REPLAY_DEAD)
    await finish(scene.store, task)
    await scene.store.repair.fail_task(task.id, "too late")
    assert (await scene.store.repair.cancel_task(task.id)).status == TaskStatus.FINISHED


async def test_a_failed_task_has_the_reason(scene: Scene) -> None:
    task = await add(scene, TaskKind.REPLAY_DEAD)
    await scene.store.repair.fail_task(task.id, "the disk is full")
    failed = await scene.store.repair.task(scene.organization.id, task.id)
    assert failed is not None
    assert (failed.status, failed.error) == (TaskStatus.FAILED, "the disk is full")


# ── sharing ──


async def test_tasks_take_turns(scene: Scene) -> None:
    await scene.endpoint()
    await bury(scene, 9)
    tasks = [(await add(scene, TaskKind.REPLAY_DEAD)).id for _ in range(3)]
    order = []
    for _ in range(6):
        (turn,) = await scene.store.repair.open_tasks(1)
        order.append(turn)
        await scene.store.repair.step_task(turn, 1)
    assert order[:3] == order[3:]
    assert sorted(order[:3]) == sorted(tasks)


async def test_two_workers_never_process_a_row_twice(scene: Scene, second: Store) -> None:
    await scene.endpoint()
    messages = await bury(scene, 60)
    task = await add(scene, TaskKind.REPLAY_DEAD)

    async def work(store: Store) -> None:
        while (await scene.store.repair.task(scene.organization.id, task.id)).status == TaskStatus.RUNNING:  # type: ignore[union-attr]
            await store.repair.step_task(task.id, 4)

    await asyncio.gather(*(work(store) for store in (scene.store, second) * 2))
    ended = await scene.store.repair.task(scene.organization.id, task.id)
    assert ended is not None
    assert (ended.status, ended.done, ended.skipped) == (TaskStatus.FINISHED, 60, 0)
    assert messages_of(await scene.claim_all()) == sorted(messages)


async def test_two_tasks_on_the_same_messages_create_one_delivery_each(scene: Scene, second: Store) -> None:
    missed = await scene.send(40)
    endpoint = await scene.endpoint()
    tasks = [await add(scene, TaskKind.REPLAY_MISSING, endpoint, **await last_hour(scene)) for _ in range(2)]
    ended = await asyncio.gather(finish(scene.store, tasks[0], 7), finish(second, tasks[1], 7))
    assert sum(steps[-1].done for steps in ended) == 40
    assert messages_of(await scene.claim_all()) == sorted(missed)


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
async def test_a_step_of_a_worker_that_dies_is_undone_and_done_by_the_next(scene: Scene) -> None:
    """While the dying worker's transaction is open, no other worker takes the task. Afterwards any worker does."""
    await scene.endpoint()
    messages = await bury(scene, 6)
    task = await add(scene, TaskKind.REPLAY_DEAD)
    await scene.store.repair.step_task(task.id, 2)
    dying = await RawPostgres.connect(scene.url)
    try:
        await dying.execute("BEGIN")
        await dying.execute("SELECT * FROM task WHERE id = $1 FOR UPDATE", task.id)
        await dying.execute("DELETE FROM dead_letter")
        await dying.execute("UPDATE task SET done = 6, position = $1", "9_9")
        assert await scene.store.repair.step_task(task.id, 2) is None
        pid = await dying.value("SELECT pg_backend_pid() AS pid")
        await scene.raw.execute("SELECT pg_terminate_backend($1)", pid)
    finally:
        dying.connection.terminate()
    async with asyncio.timeout(60):
        while await scene.store.repair.step_task(task.id, 100) is None:
            await asyncio.sleep(0.01)  # the server needs a moment to end the session
    ended = await scene.store.repair.task(scene.organization.id, task.id)
    assert ended is not None
    assert (ended.status, ended.done) == (TaskStatus.FINISHED, 6)
    assert messages_of(await scene.claim_all()) == sorted(messages)


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
async def test_a_dead_letter_that_stays_locked_is_left_to_a_later_step(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookline.store.plans.tasks.LOCK_TIMEOUT", "50ms")
    await scene.endpoint()
    await bury(scene, 3)
    task = await add(scene, TaskKind.REPLAY_DEAD)
    holder = await RawPostgres.connect(scene.url)
    await holder.execute("BEGIN")
    await holder.execute("SELECT * FROM dead_letter ORDER BY id LIMIT 1 FOR UPDATE")
    assert await scene.store.repair.step_task(task.id) is None
    assert await scene.store.repair.task(scene.organization.id, task.id) == task
    await holder.execute("ROLLBACK")
    await holder.close()
    stepped = await scene.store.repair.step_task(task.id)
    assert stepped is not None
    assert (stepped.status, stepped.done) == (TaskStatus.FINISHED, 3)
    await scene.claim_all()


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
async def test_a_step_waits_for_a_locked_dead_letter(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hookline.store.plans.tasks.LOCK_TIMEOUT", "60s")
    await scene.endpoint()
    await bury(scene, 3)
    task = await add(scene, TaskKind.REPLAY_DEAD)
    holder = await RawPostgres.connect(scene.url)
    await holder.execute("BEGIN")
    await holder.execute("SELECT * FROM dead_letter ORDER BY id LIMIT 1 FOR UPDATE")
    stepping = asyncio.create_task(scene.store.repair.step_task(task.id))
    waiting = (
        "SELECT count(*) AS n FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    async with asyncio.timeout(60):
        while not await scene.raw.value(waiting):
            await asyncio.sleep(0.01)  # the server shows waiting sessions, but has no event for them
    await holder.execute("ROLLBACK")
    await holder.close()
    stepped = await stepping
    assert stepped is not None
    assert (stepped.status, stepped.done, stepped.skipped) == (TaskStatus.FINISHED, 3, 0)
