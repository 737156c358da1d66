"""Background tasks over HTTP: create, read, cancel, and their effects."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest
from svix.models import BackgroundTaskOut, ListResponseBackgroundTaskOut, RecoverOut, ReplayOut

from hookline.engine.tasks import TaskRunner
from hookline.model.catalogue import Application
from hookline.model.dead import DeadFilter
from hookline.model.endpoints import Endpoint
from hookline.model.states import EndpointStatus
from hookline.store.outage import Outage
from tests.api.conftest import Answer, Client
from tests.support import factory
from tests.support.scene import Scene

HOUR = timedelta(hours=1)
KINDS = ("recover", "replay-missing", "bulk-replay")


async def work(scene: Scene) -> None:
    """Run background tasks, as a worker does, until none is left."""
    runner = TaskRunner(scene.store, Outage(random.Random(1)), random.Random(2))
    while await runner.once():
        pass


async def buried(scene: Scene, count: int = 1, **fields: Any) -> list[str]:
    messages = await scene.send(count, **fields)
    await scene.record(*(factory.dead(job) for job in await scene.claim_all()))
    return messages


async def window(scene: Scene) -> dict[str, str]:
    return {"since": (await scene.store.now() - HOUR).isoformat()}


def path(app: Application, endpoint: Endpoint, kind: str) -> str:
    return f"/api/v1/app/{app.id}/endpoint/{endpoint.id}/{kind}"


async def test_recovery_sends_the_dead_letters_again(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    messages = await buried(scene, 3)
    made = (await client.post(path(scene.app, endpoint, "recover"), await window(scene))).json(202)
    assert RecoverOut.model_validate(made).task == "endpoint.recover"
    assert made["id"].startswith("qtask_")
    assert (made["status"], made["data"]["state"], made["data"]["total"]) == ("running", "running", 3)
    await work(scene)
    done = (await client.get(f"/api/v1/background-task/{made['id']}")).json()
    assert BackgroundTaskOut.model_validate(done).status == "finished"
    data = done["data"]
    assert (data["kind"], data["state"], data["done"], data["skipped"]) == ("recover", "finished", 3, 0)
    assert (data["appId"], data["endpointId"], data["error"]) == (scene.app.id, endpoint.id, None)
    assert sorted(job.message_id for job in await scene.claim_all()) == sorted(messages)


async def test_recovery_only_reaches_into_its_window(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await buried(scene)
    now = await scene.store.now()
    body = {"since": (now - 2 * HOUR).isoformat(), "until": (now - HOUR).isoformat()}
    made = (await client.post(path(scene.app, endpoint, "recover"), body)).json(202)
    await work(scene)
    done = (await client.get(f"/api/v1/background-task/{made['id']}")).json()
    assert (done["status"], done["data"]["done"]) == ("finished", 0)
    ahead = await client.post(path(scene.app, endpoint, "recover"), {"since": (now + HOUR).isoformat()})
    assert ahead.json(422)["detail"][0]["msg"] == "since: is not in the past"
    assert await scene.claim_all() == []


async def test_a_replay_sends_missed_messages(client: Client, scene: Scene) -> None:
    messages = await scene.send(3)
    endpoint = await scene.endpoint()
    made = (await client.post(path(scene.app, endpoint, "replay-missing"), await window(scene))).json(202)
    assert ReplayOut.model_validate(made).task == "endpoint.replay"
    await work(scene)
    assert sorted(job.message_id for job in await scene.claim_all()) == sorted(messages)


async def test_a_bulk_replay_sends_delivered_messages_again(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await buried(scene, 2, event_type="a", tags=("x",))
    (delivered,) = await scene.send(event_type="b", tags=("x",))
    await scene.record(*factory.all_delivered(await scene.claim_all()))
    body = await window(scene) | {"status": 0, "tag": "x", "eventTypes": ["b"]}
    made = (await client.post(path(scene.app, endpoint, "bulk-replay"), body)).json(202)
    assert ReplayOut.model_validate(made).task == "endpoint.bulk-replay"
    await work(scene)
    assert [job.message_id for job in await scene.claim_all()] == [delivered]


async def test_uids_name_application_and_endpoint_too(client: Client, scene: Scene) -> None:
    app = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application(uid="shop"))
    await scene.endpoint(app, uid="orders")
    for kind in KINDS:
        (await client.post(f"/api/v1/app/shop/endpoint/orders/{kind}/", await window(scene))).json(202)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_replay_to_a_disabled_endpoint_is_a_conflict(client: Client, scene: Scene, kind: str) -> None:
    endpoint = await scene.endpoint()
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.DISABLED, "left us")
    refused = await client.post(path(scene.app, endpoint, kind), await window(scene))
    assert "disabled" in refused.problem(409, "conflict")
    await scene.store.catalogue.delete_endpoint(endpoint.no)
    (await client.post(path(scene.app, endpoint, kind), await window(scene))).problem(404, "not_found")
    assert (await client.get("/api/v1/background-task")).json()["data"] == []


NOW = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"since": None},
        {"since": 17},
        {"since": "yesterday"},
        {"since": "2026-01-01T00:00:00"},  # no time zone
        {"since": "0001-01-01T00:00:00+14:00"},
        {"since": "9999-12-31T23:59:59-14:00"},
        {"since": NOW, "until": NOW},
        {"since": NOW, "until": "2025-12-31T00:00:00Z"},
        {"since": NOW, "until": "9999-12-31T23:59:59-14:00"},
        [],
        "x",
        None,
    ],
    ids=str,
)
async def test_a_bad_window_is_refused(client: Client, scene: Scene, kind: str, body: object) -> None:
    endpoint = await scene.endpoint()
    (await client.post(path(scene.app, endpoint, kind), body)).faults()
    assert (await client.get("/api/v1/background-task")).json()["data"] == []


@pytest.mark.parametrize(
    "more",
    [
        {"status": 1},
        {"status": 10**30},
        {"status": "fail"},
        {"statusCodeClass": 500},
        {"tag": ""},
        {"tag": "x" * 200},
        {"tag": "a\0b"},
        {"channel": "a\0b"},
        {"eventTypes": []},
        {"eventTypes": ["a\0b"]},
        {"eventTypes": ["x"] * 2},
        {"eventTypes": [f"t{n}" for n in range(2000)]},
    ],
    ids=lambda more: str(more)[:40],
)
async def test_a_bad_choice_is_refused(client: Client, scene: Scene, more: dict[str, Any]) -> None:
    endpoint = await scene.endpoint()
    (await client.post(path(scene.app, endpoint, "bulk-replay"), {"since": NOW} | more)).faults()
    assert (await client.get("/api/v1/background-task")).json()["data"] == []


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 100_000, b'{"since": "\xff"}', b'{"since": "\\ud800"}'])
async def test_a_body_that_is_not_json_is_refused(client: Client, scene: Scene, body: bytes) -> None:
    endpoint = await scene.endpoint()
    answer = await client.post(path(scene.app, endpoint, "recover"), body)
    assert answer.status in (400, 422), answer


async def test_the_number_of_running_tasks_is_limited(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    answers = [await client.post(path(scene.app, endpoint, "recover"), await window(scene)) for _ in range(21)]
    assert [answer.status for answer in answers] == [202] * 20 + [409]
    await work(scene)
    (await client.post(path(scene.app, endpoint, "recover"), await window(scene))).json(202)


# ── listing ──


async def made(client: Client, scene: Scene, count: int = 1, kind: str = "recover") -> list[str]:
    endpoint = await scene.endpoint()
    body = await window(scene)
    return [(await client.post(path(scene.app, endpoint, kind), body)).json(202)["id"] for _ in range(count)]


async def ids_of(answer: Answer) -> list[str]:
    found = answer.json()
    ListResponseBackgroundTaskOut.model_validate(found)
    return [each["id"] for each in found["data"]]


async def test_tasks_are_listed_page_by_page_both_ways(client: Client, scene: Scene) -> None:
    newest = sorted(await made(client, scene, 5), reverse=True)
    first = (await client.get("/api/v1/background-task?limit=2")).json()
    assert ([each["id"] for each in first["data"]], first["done"]) == (newest[:2], False)
    second = (await client.get(f"/api/v1/background-task?limit=2&iterator={first['iterator']}")).json()
    assert [each["id"] for each in second["data"]] == newest[2:4]
    last = (await client.get(f"/api/v1/background-task?limit=2&iterator={second['iterator']}")).json()
    assert ([each["id"] for each in last["data"]], last["done"]) == (newest[4:], True)
    back = await client.get(f"/api/v1/background-task?limit=2&iterator={last['prevIterator']}")
    assert await ids_of(back) == newest[2:4]
    assert await ids_of(await client.get("/api/v1/background-task?order=ascending")) == newest[::-1]


async def test_tasks_are_found_by_status_and_kind(client: Client, scene: Scene) -> None:
    (finished,) = await made(client, scene)
    await work(scene)
    (canceled,) = await made(client, scene, kind="replay-missing")
    (await client.post(f"/api/v1/background-task/{canceled}/cancel", {})).json()
    (running,) = await made(client, scene, kind="bulk-replay")

    async def found(query: str) -> list[str]:
        return await ids_of(await client.get(f"/api/v1/background-task?{query}"))

    assert await found("status=running") == [running]
    assert await found("status=finished") == [finished]
    assert await found("status=failed") == await found("status=canceled") == [canceled]
    assert await found("task=endpoint.replay") == [canceled]
    assert await found("kind=bulk_replay") == [running]
    assert await found("task=endpoint.recover&kind=bulk_replay") == []
    for query in ("status=lost", "task=message.nothing", "kind=x", "order=up", "limit=x", "iterator=%00"):
        (await client.get(f"/api/v1/background-task?{query}")).problem(400, "bad_request")
    assert (await client.get("/api/v1/background-task?limit=251")).status == 422


async def test_a_canceled_task_stops(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await buried(scene, 2)
    task = (await client.post(path(scene.app, endpoint, "recover"), await window(scene))).json(202)["id"]
    for _ in range(2):  # cancelling twice has the effect of once
        canceled = (await client.post(f"/api/v1/background-task/{task}/cancel", {})).json()
        assert (canceled["status"], canceled["data"]["state"]) == ("failed", "canceled")
        BackgroundTaskOut.model_validate(canceled)
    await work(scene)
    assert (await scene.store.repair.dead_stats(DeadFilter())).dead == 2


async def test_a_finished_task_cannot_be_canceled(client: Client, scene: Scene) -> None:
    (task,) = await made(client, scene)
    await work(scene)
    assert "finished" in (await client.post(f"/api/v1/background-task/{task}/cancel", {})).problem(409, "conflict")


@pytest.mark.parametrize("task", ["qtask_unknown", "x", "%00", "%ff", "a" * 3000, "'; DROP TABLE task; --"])
async def test_an_unknown_task_is_404(client: Client, task: str) -> None:
    quoted = task.replace(" ", "%20")
    for answer in (
        await client.get(f"/api/v1/background-task/{quoted}"),
        await client.post(f"/api/v1/background-task/{quoted}/cancel", {}),
    ):
        assert answer.status in (400, 404), answer


# ── tenants ──


async def test_a_token_of_one_application_sees_only_its_own(client: Client, narrow: Client, scene: Scene) -> None:
    sibling = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())
    other = await scene.endpoint(sibling)
    theirs = (await client.post(path(sibling, other, "recover"), await window(scene))).json(202)["id"]
    (mine,) = await made(narrow, scene)
    assert await ids_of(await narrow.get("/api/v1/background-task")) == [mine]
    assert sorted(await ids_of(await client.get("/api/v1/background-task"))) == sorted([mine, theirs])
    (await narrow.get(f"/api/v1/background-task/{mine}")).json()
    (await narrow.get(f"/api/v1/background-task/{theirs}")).problem(404, "not_found")
    (await narrow.post(f"/api/v1/background-task/{theirs}/cancel", {})).problem(404, "not_found")
    for kind in KINDS:
        (await narrow.post(path(sibling, other, kind), await window(scene))).problem(404, "not_found")
        (await narrow.post(path(scene.app, other, kind), await window(scene))).problem(404, "not_found")
    assert (await client.get(f"/api/v1/background-task/{theirs}")).json()["status"] == "running"


async def test_without_a_token_every_route_is_refused(nobody: Client, client: Client, scene: Scene) -> None:
    (task,) = await made(client, scene)
    (await nobody.get("/api/v1/background-task")).problem(401, "authentication_failed")
    (await nobody.get(f"/api/v1/background-task/{task}")).problem(401, "authentication_failed")
    (await nobody.post(f"/api/v1/background-task/{task}/cancel", {})).problem(401, "authentication_failed")
