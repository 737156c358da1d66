"""`hookline tasks list`, `tasks show` and `tasks cancel`."""

from __future__ import annotations

from hookline.model.tasks import NewTask, Task, TaskKind, TaskWork
from tests.cli.conftest import both_engines
from tests.support import factory
from tests.support.cli import Cli
from tests.support.scene import Scene


async def add(scene: Scene, kind: TaskKind = TaskKind.REPLAY_DEAD) -> Task:
    return await scene.store.repair.add_task(
        NewTask(org_id=scene.organization.id, app_no=scene.app.no, kind=kind, work=TaskWork())
    )


@both_engines
async def test_listed_shown_and_canceled(cli: Cli, scene: Scene) -> None:
    one, two = sorted([await add(scene), await add(scene, TaskKind.RESOLVE_DEAD)], key=lambda task: task.id)
    listed = (await cli.json("tasks", "list"))["data"]
    assert [each["id"] for each in listed] == [two.id, one.id]
    assert [each["id"] for each in (await cli.json("tasks", "list", "--limit", "1", "--after", two.id))["data"]] == [
        one.id
    ]
    assert (await cli.json("tasks", "show", two.id)) == listed[0]

    canceled = await cli.json("tasks", "cancel", one.id)
    assert canceled["data"]["state"] == "canceled"
    running = (await cli.json("tasks", "list", "--status", "running", "--app", scene.app.id))["data"]
    assert [each["id"] for each in running] == [two.id]
    await scene.store.repair.step_task(two.id)
    (await cli("tasks", "cancel", two.id)).refused(5, "finished")


async def test_the_output_without_json(cli: Cli, scene: Scene) -> None:
    task = await add(scene)
    await scene.store.repair.fail_task(task.id, "the disk is full")
    assert task.id in (await cli("tasks", "list")).out
    shown = (await cli("tasks", "show", task.id)).out
    assert "replay_dead" in shown
    assert "the disk is full" in shown


async def test_tasks_of_another_organization_are_not_accessible(cli: Cli, scene: Scene) -> None:
    other = await scene.store.catalogue.save_organization(factory.organization())
    task = await add(scene)
    assert (await cli.json("tasks", "list", "--org", other.id))["data"] == []
    (await cli("tasks", "show", task.id, "--org", other.id)).refused(3, task.id)
    (await cli("tasks", "cancel", task.id, "--org", other.id)).refused(3)
    (await cli("tasks", "show", "qtask_unknown")).refused(3)
