"""Dead letters: which users may see and change them, and the audit entry of each change."""

from __future__ import annotations

from hookline.model.audit import AuditFilter
from hookline.model.catalogue import Application
from hookline.model.tasks import TaskFilter, TaskKind
from hookline.store import Page
from tests.dashboard.client import Client
from tests.dashboard.conftest import Enter
from tests.dashboard.dead_letters import bury, left, letter, posting, shown, verdict, work
from tests.support import factory
from tests.support.scene import Scene

# ── permissions ──


async def test_a_reader_sees_and_changes_nothing(reader: Client, portal_reader: Client, scene: Scene) -> None:
    await scene.endpoint()
    dead = await bury(scene)
    for client, prefix in ((reader, ""), (portal_reader, "/portal")):
        page = await client.page(f"{prefix}/dead-letters")
        assert shown(page) == [dead]
        assert not [node for node in page.all() if node.name in ("a", "button") and "Replay" in node.text]
        assert not page.all("input", name="id")
        for path in ("replay", "resolve"):
            assert (await client.get(f"{prefix}/dead-letters/{path}?id={dead}")).status == 403
            answer = await client.post(f"{prefix}/dead-letters/{path}", {"id": dead, "all": "1", "note": "x"})
            assert answer.status == 403, answer
        assert (await client.post(f"{prefix}/dead-letters/{dead}/replay")).status == 403
        assert (await client.get(f"{prefix}/dead-letters/export")).status == 200
    assert await left(scene) == {dead}


async def test_a_customer_reaches_only_their_own_dead_letters(
    portal: Client, scene: Scene, other_app: Application
) -> None:
    await scene.endpoint()
    other_end = await scene.endpoint(other_app)
    mine, theirs = await bury(scene), await bury(scene, app=other_app)
    page = await portal.page("/portal/dead-letters")
    assert shown(page) == [mine]
    assert "1 dead letter at http" in verdict(page)
    assert all(node["href"].startswith("/portal") for node in page.first("main").all("a"))
    assert scene.app.id not in page.first("tbody").text
    for query in (f"app={other_app.id}", f"app={other_app.id}&all=1"):
        assert shown(await portal.page(f"/portal/dead-letters?{query}")) == [mine]
    assert (await portal.get(f"/portal/dead-letters?endpoint={other_end.id}")).status == 422
    assert (await portal.get(f"/portal/dead-letters/{theirs}")).status == 404
    assert (await portal.post(f"/portal/dead-letters/{theirs}/replay")).status == 404
    assert (await portal.post("/portal/dead-letters/replay", {"id": theirs})).status == 404
    assert (await portal.post("/portal/dead-letters/resolve", {"id": theirs, "note": "x"})).status == 404
    assert theirs not in (await portal.get("/portal/dead-letters/export?format=jsonl")).text
    asked = await portal.page(f"/portal/dead-letters/replay?all=1&app={other_app.id}")
    answer = await portal.submit(posting(asked, "/portal/dead-letters/replay"))
    assert answer.location.startswith("/portal/tasks/qtask_")
    await work(scene)
    assert await left(scene) == {theirs}


async def test_another_organization_reaches_nothing(enter: Enter, operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    dead = await bury(scene)
    stranger = await scene.store.catalogue.save_organization(factory.organization())
    client = await enter(org_id=stranger.id)
    assert shown(await client.page("/dead-letters")) == []
    assert (await client.get(f"/dead-letters?endpoint={endpoint.id}")).status == 422
    assert (await client.get(f"/dead-letters/{dead}")).status == 404
    assert (await client.post(f"/dead-letters/{dead}/replay")).status == 404
    for fields, refused in (({"id": dead}, 404), ({"all": "1"}, 409)):
        assert (await client.post("/dead-letters/replay", fields)).status == refused
        assert (await client.post("/dead-letters/resolve", {**fields, "note": "x"})).status == refused
    assert await left(scene) == {dead}


async def test_the_actor_is_in_the_audit_log(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    one, two, three = [await bury(scene) for _ in range(3)]
    gone = [await letter(scene, each) for each in (one, two)]
    await operator.post(f"/dead-letters/{one}/replay")
    await operator.post("/dead-letters/resolve", {"id": two, "note": "x"})
    await operator.post("/dead-letters/replay", {"all": "1", "reason": "permanent_failure"})
    log = await scene.store.access.audit_log(AuditFilter(org_id=scene.organization.id), Page())
    entries = [(each.action, each.subject, each.detail) for each in log.rows if each.action.startswith("dead_letter")]
    (task,) = await scene.store.repair.tasks(TaskFilter(org_id=scene.organization.id), Page())
    assert task.kind == TaskKind.REPLAY_DEAD
    assert task.work.died_until is not None
    assert entries == [
        ("dead_letter.replay", task.id, f"reason=permanent_failure, until={task.work.died_until.isoformat()}"),
        ("dead_letter.resolve", two, f"{gone[1].message_id} to {endpoint.id}"),
        ("dead_letter.replay", one, f"{gone[0].message_id} to {endpoint.id}"),
    ]
    assert three in await left(scene)
