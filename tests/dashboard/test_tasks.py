"""Background tasks on pages: progress, results and cancelling."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from hookline.dashboard.pages import task_parts
from hookline.model.audit import AuditFilter
from hookline.model.catalogue import Application
from hookline.model.states import EndpointStatus, Reason
from hookline.model.tasks import NewTask, Task, TaskKind, TaskStatus, TaskWork
from hookline.store import Page
from tests.dashboard.client import Client
from tests.dashboard.conftest import Enter
from tests.dashboard.dead_letters import bury, left, posting, verdict, work
from tests.dashboard.markup import Node
from tests.support import factory
from tests.support.scene import Scene


async def graves(scene: Scene, count: int) -> None:
    await scene.send(count)
    await scene.record(*(factory.dead(job) for job in await scene.claim_all()))
    await scene.age(10)


async def add(scene: Scene, kind: TaskKind = TaskKind.REPLAY_DEAD, app: Application | None = None, **work: Any) -> Task:
    given = TaskWork(**work)
    new = NewTask(org_id=scene.organization.id, app_no=(app or scene.app).no, kind=kind, work=given)
    return await scene.store.repair.add_task(new)


def bar(page: Node) -> tuple[str | None, str | None]:
    found = page.first("main").first("progress")
    return found.get("value"), found.get("max")


async def test_an_empty_list_explains_tasks(operator: Client) -> None:
    assert "hookline tasks list" in (await operator.page("/tasks")).text


async def test_a_task_shows_its_progress_from_start_to_end(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await graves(scene, 5)
    task = await add(scene, reason=Reason.PERMANENT_FAILURE, event_types=("order.paid",))
    page = await operator.page(f"/tasks/{task.id}")
    assert "Running." in verdict(page)
    assert bar(page) == ("0", "5")
    assert "running" in page.first(id="live-work").text  # the table below the verdict updates too
    assert page.has("button", aria_label=f"Stop {task.id}")
    for text in (task.id, "permanent_failure", "order.paid", scene.app.id):
        assert text in page.text, text
    await scene.store.repair.step_task(task.id, 2)
    page = await operator.page(f"/tasks/{task.id}")
    assert bar(page) == ("2", "5")
    assert "2 of 5" in page.text
    await scene.store.repair.step_task(task.id, 2)
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.DISABLED, "left us")
    await work(scene)
    page = await operator.page(f"/tasks/{task.id}")
    assert "Finished: 4 replayed; 1 skipped, because nothing could be sent." in verdict(page)
    assert bar(page) == ("5", "5")
    assert not page.all("button", aria_label=f"Stop {task.id}")


async def test_a_task_shows_its_rate_and_remaining_time(operator: Client, scene: Scene) -> None:
    await scene.endpoint()
    await graves(scene, 30)
    task = await add(scene)
    found = await scene.store.repair.step_task(task.id, 20)
    assert found is not None
    later = found.created_at + timedelta(seconds=10)
    assert task_parts.pace(found, later) == "2 per second, about 5 s left"
    assert task_parts.pace(found, found.created_at + timedelta(minutes=40)) == "0.5 per minute, about 20 min left"
    assert task_parts.pace(found, found.created_at) is None
    assert task_parts.pace(task, later) is None
    over = replace(found, status=TaskStatus.FINISHED, done=30, updated_at=later)
    assert task_parts.pace(over, later + timedelta(days=1)) == "3 per second"
    assert task_parts.pace(replace(found, total=None), later) == "2 per second"
    long_ago = found.created_at - timedelta(seconds=10)
    await scene.raw.execute("UPDATE task SET created_at = $1", long_ago)
    assert "about" in (await operator.page(f"/tasks/{task.id}")).first(id="live-task").text


async def test_a_task_that_no_worker_takes_says_so(operator: Client, scene: Scene) -> None:
    await scene.endpoint()
    await graves(scene, 1)
    task = await add(scene)
    stale = task.created_at - timedelta(minutes=5)
    await scene.raw.execute("UPDATE task SET updated_at = $1, created_at = $1", stale)
    assert "Check that a worker is running" in verdict(await operator.page(f"/tasks/{task.id}"))


async def test_a_stopped_task_leaves_the_rest_unchanged(operator: Client, scene: Scene) -> None:
    await scene.endpoint()
    await graves(scene, 5)
    task = await add(scene)
    await scene.store.repair.step_task(task.id, 2)
    page = await operator.page(f"/tasks/{task.id}")
    page = (await operator.follow(await operator.submit(posting(page, f"/tasks/{task.id}/stop")))).page()
    assert "Stopped: 2 done." in page.first(class_="notice").text
    assert "Stopped: 2 replayed, the others are unchanged." in verdict(page)
    await work(scene)
    assert len(await left(scene)) == 3
    (rest,) = [node["href"] for node in page.all("a") if node.text == "Replay the rest"]
    asked = await operator.page(rest)
    assert posting(asked, "/dead-letters/replay").first("button").text == "Replay 3 deliveries to 1 endpoint"
    again = await operator.done(f"/tasks/{task.id}/stop")
    assert "Stopped: 2 done." in again.first(class_="notice").text
    log = await scene.store.access.audit_log(AuditFilter(org_id=scene.organization.id), Page())
    told = [(each.action, each.subject, each.app_id) for each in log.rows if each.action == "task.cancel"]
    assert told[0] == ("task.cancel", task.id, scene.app.id)


async def test_a_finished_task_cannot_be_stopped(operator: Client, scene: Scene) -> None:
    task = await add(scene)
    await work(scene)
    page = (await operator.post(f"/tasks/{task.id}/stop")).page(409)
    assert "the task is finished already" in page.text
    assert "Finished: 0 replayed." in verdict(await operator.page(f"/tasks/{task.id}"))


async def test_a_failed_task_shows_its_error(operator: Client, scene: Scene) -> None:
    task = await add(scene)
    await scene.store.repair.fail_task(task.id, "the <b>endpoint</b> is disabled")
    page = await operator.page(f"/tasks/{task.id}")
    assert "Failed: the <b>endpoint</b> is disabled." in verdict(page)
    assert b"<b>endpoint" not in (await operator.get(f"/tasks/{task.id}")).body


async def test_deliveries_that_died_again_are_shown(operator: Client, scene: Scene) -> None:
    await scene.endpoint()
    await graves(scene, 3)
    task = await add(scene)
    await work(scene)
    assert "failed again" not in (await operator.page(f"/tasks/{task.id}")).first(id="live-task").text
    await scene.record(*(factory.dead(job) for job in await scene.claim_all()))
    page = await operator.page(f"/tasks/{task.id}")
    (link,) = [node for node in page.all("a") if node.text == "3 deliveries failed again"]
    found = await operator.page(link["href"])
    assert len([row for row in found.all("tr") if (row.get("data-key") or "").startswith("dl_")]) == 3


async def test_the_page_of_dead_letters_shows_running_tasks(operator: Client, scene: Scene) -> None:
    await scene.endpoint()
    await graves(scene, 2)
    task = await add(scene)
    page = await operator.page("/dead-letters")
    assert [node["href"] for node in page.all("a") if node.text == "Replay dead letters"] == [f"/tasks/{task.id}"]
    assert page.has("form", action=f"/tasks/{task.id}/stop")
    await work(scene)
    assert not (await operator.page("/dead-letters")).all("progress")


async def test_tasks_are_listed_newest_first_and_by_status(
    operator: Client, scene: Scene, other_app: Application
) -> None:
    one = await add(scene)
    await scene.store.repair.cancel_task(one.id)
    two = await add(scene, TaskKind.RESOLVE_DEAD, other_app, note="n")

    async def listed(query: str) -> list[str | None]:
        page = await operator.page(f"/tasks?{query}")
        return [row.get("data-key") for row in page.all("tr") if (row.get("data-key") or "").startswith("qtask_")]

    newest = sorted([one.id, two.id], reverse=True)
    assert await listed("") == newest
    assert await listed("status=running") == [two.id]
    assert await listed("status=canceled") == [one.id]
    assert await listed(f"app={scene.app.id}") == [one.id]
    assert await listed(f"after={newest[0]}") == newest[1:]
    for wrong in ("status=bored", "after=%00", "after=%F0%9F%92%A9", "after=" + "x" * 300):
        assert (await operator.get(f"/tasks?{wrong}")).status == 422, wrong


async def test_tasks_of_one_group_are_stopped_together(operator: Client, scene: Scene, other_app: Application) -> None:
    await scene.endpoint()
    await scene.endpoint(other_app)
    await bury(scene)
    await bury(scene, app=other_app)
    answer = await operator.post("/dead-letters/replay", {"all": "1"})
    alone = await add(scene)
    second = await operator.post("/dead-letters/resolve", {"all": "1", "note": "another batch"})
    page = await operator.page(answer.location)
    assert bar(page) == ("0", "2")
    assert len(page.rows()) == 2
    assert alone.id not in page.text
    assert "Resolve dead letters: 2 applications" in (await operator.page(second.location)).text
    page = (await operator.follow(await operator.submit(posting(page, "/tasks/stop")))).page()
    assert "Stopped 2 tasks: 0 done." in page.first(class_="notice").text
    kept = await scene.store.repair.task(scene.organization.id, alone.id)
    assert kept is not None
    assert kept.status == TaskStatus.RUNNING
    assert len(await left(scene)) == 2
    batch = answer.location.partition("batch=")[2]
    stranger = await scene.store.catalogue.save_organization(factory.organization())
    assert stranger.id != scene.organization.id
    for wrong in ("batch_", "x", f"{batch}x", "batch_" + "0" * 27, alone.id):
        assert (await operator.get(f"/tasks?batch={wrong}")).status == 404, wrong
        assert (await operator.post("/tasks/stop", {"batch": wrong})).status == 404, wrong


async def test_tasks_of_other_tenants_are_not_shown(
    enter: Enter, portal: Client, reader: Client, scene: Scene, other_app: Application
) -> None:
    mine, theirs = await add(scene), await add(scene, app=other_app)
    stranger = await enter(org_id=(await scene.store.catalogue.save_organization(factory.organization())).id)
    assert mine.id in (await portal.get("/portal/tasks")).text
    assert theirs.id not in (await portal.get("/portal/tasks")).text
    page = await portal.page(f"/portal/tasks/{mine.id}")
    assert all(node["href"].startswith("/portal") for node in page.first("main").all("a"))
    for client, path in ((portal, f"/portal/tasks/{theirs.id}"), (stranger, f"/tasks/{mine.id}")):
        assert (await client.get(path)).status == 404
        assert (await client.post(f"{path}/stop")).status == 404
    for wrong in ("x", "qtask_", "%00", "a" * 600):
        assert (await portal.get(f"/portal/tasks/{wrong}")).status == 404
    assert mine.id not in (await stranger.get("/tasks")).text
    page = await reader.page(f"/tasks/{mine.id}")
    assert not page.all("button", aria_label=f"Stop {mine.id}")
    assert (await reader.post(f"/tasks/{mine.id}/stop")).status == 403
    for task in (mine, theirs):
        found = await scene.store.repair.task(scene.organization.id, task.id)
        assert found is not None
        assert found.status == TaskStatus.RUNNING
