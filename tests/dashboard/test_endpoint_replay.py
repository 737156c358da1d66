"""Replay from an endpoint's page: the page first shows the count, then starts a task."""

from __future__ import annotations

from datetime import datetime, timedelta

from hookline.model.actors import Actor, ActorKind
from hookline.model.states import EndpointStatus, Reason
from hookline.model.tasks import TaskFilter, TaskKind, TaskWork
from hookline.store import Page
from tests.dashboard.conftest import Client
from tests.dashboard.page_content import again, audited, posting, verdict
from tests.support import factory
from tests.support.scene import Scene

HAND = Actor(kind=ActorKind.KEY, name="the key of the night shift")


async def test_disabled_enabled_and_what_it_missed(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await operator.done(f"/endpoints/{endpoint.id}/disable")
    assert (await again(scene.store, endpoint)).status == EndpointStatus.DISABLED
    await scene.send(3)
    page = await operator.page(f"/endpoints/{endpoint.id}/enable")
    assert verdict(page) == "❚❚ The endpoint missed 3 messages while it was disabled."
    both, only = [form for form in page.all("form") if form.get("action") == f"/endpoints/{endpoint.id}/resume"]
    assert only.text == "Enable only"
    answer = await operator.submit(both)
    task_id = answer.location.rpartition("/")[2]
    task = await scene.store.repair.task(scene.organization.id, task_id)
    assert task is not None
    assert (task.kind, task.total) == (TaskKind.REPLAY_MISSING, 3)
    assert (await again(scene.store, endpoint)).status == EndpointStatus.ACTIVE
    while await scene.store.repair.step_task(task_id):
        pass
    assert len(await scene.claim_all()) == 3
    assert verdict(await operator.page(f"/endpoints/{endpoint.id}/enable")) == "● The endpoint is not disabled."


async def test_recover_shows_the_count_and_then_sends(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send(4)
    await scene.record(*(factory.dead(job, Reason.ATTEMPTS_EXHAUSTED) for job in await scene.claim_all()))
    page = await operator.page(f"/endpoints/{endpoint.id}/recover")
    assert not [
        form for form in page.all("form") if form["action"].endswith("/recover") and form.get("method") == "post"
    ]
    hour = next(each for each in page.all("a") if each.text == "The last hour")
    page = await operator.page(hour["href"])
    assert verdict(page).startswith("◐ This sends 4 dead letters to 1 endpoint, since")
    answer = await operator.submit(posting(page, "/recover"))
    task_id = answer.location.rpartition("/")[2]
    while await scene.store.repair.step_task(task_id):
        pass
    assert len(await scene.claim_all()) == 4
    assert (await audited(scene))[0].action == "endpoint.recover"


async def test_replay_missing_since_a_time(operator: Client, scene: Scene) -> None:
    await scene.send(2)
    endpoint = await scene.endpoint()
    since = (await scene.store.now() - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M")
    page = await operator.page(f"/endpoints/{endpoint.id}/replay-missing?since={since}")
    assert "This sends 2 messages to 1 endpoint" in verdict(page)
    await operator.submit(posting(page, "/replay-missing"))
    [task] = await scene.store.repair.tasks(TaskFilter(org_id=scene.organization.id), Page())
    assert (task.kind, task.endpoint_id) == (TaskKind.REPLAY_MISSING, endpoint.id)
    assert task.work == TaskWork(since=datetime.fromisoformat(f"{since}+00:00"))


async def test_nothing_to_send_offers_no_button(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    since = (await scene.store.now() - timedelta(hours=1)).isoformat().replace("+", "%2B")
    page = await operator.page(f"/endpoints/{endpoint.id}/recover?since={since}")
    assert page.first(class_="empty").text.startswith("No dead letter to send since")
    assert not page.has("button", class_="main")


async def test_an_invalid_time_starts_no_task(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    path = f"/endpoints/{endpoint.id}/recover"
    for since in ("", "yesterday", "2999-01-01T00:00", "0001-01-01T00:00", "2026-13-01", "1" * 400):
        answer = await operator.post(path, since=since)
        assert answer.page(422).has(role="alert"), since
        assert (await operator.get(f"{path}?since={since}")).status == (422 if since else 200)
    assert await scene.store.repair.tasks(TaskFilter(org_id=scene.organization.id), Page()) == []


async def test_nothing_is_replayed_to_a_disabled_endpoint(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.DISABLED, "autumn", actor=HAND)
    since = "2026-01-02T03:04"
    page = await operator.page(f"/endpoints/{endpoint.id}/recover?since={since}")
    assert "enable it first" in verdict(page)
    assert (await operator.post(f"/endpoints/{endpoint.id}/recover", since=since)).status == 409
