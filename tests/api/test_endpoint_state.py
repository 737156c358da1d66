"""Circuits opened and closed over HTTP, disabled endpoints enabled again, and the actor in the timeline."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

from hookline.engine.tasks import TaskRunner
from hookline.model.states import Circuit, EndpointStatus
from hookline.model.tasks import NewTask, TaskKind, TaskWork
from hookline.store.bounds import MAX_RUNNING
from hookline.store.outage import Outage
from tests.api.conftest import Client
from tests.api.test_lanes import act, path
from tests.support import factory
from tests.support.scene import Scene


async def work(scene: Scene) -> None:
    """Run background tasks, as a worker does, until none is left."""
    runner = TaskRunner(scene.store, Outage(random.Random(1)), random.Random(2))
    while await runner.once():
        pass


# ── circuit ──


async def test_opened_for_a_while(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    before = await scene.store.now()
    found = (await act(client, endpoint, "circuit/open", {"cause": "they deploy", "seconds": 7200})).json(200)
    assert (found["circuit"], found["status"]) == ("open", "active")
    probe = datetime.fromisoformat(found["nextProbeAt"])
    assert before + timedelta(seconds=7200) <= probe <= await scene.store.now() + timedelta(seconds=7200)
    assert (found["events"][0]["kind"], found["events"][0]["cause"]) == ("circuit_opened", "they deploy")
    await scene.send(2)
    assert await scene.claim_all() == []


async def test_opened_until_an_instant_of_any_zone(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    until = (await scene.store.now() + timedelta(days=3)).replace(microsecond=250)
    written = until.astimezone(UTC).isoformat().replace("+00:00", "Z")
    found = (await act(client, endpoint, "circuit/open", {"until": written})).json(200)
    assert datetime.fromisoformat(found["nextProbeAt"]) == until
    assert found["events"][0]["cause"] == "opened through the API"


async def test_opened_without_an_end_as_after_a_failure(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    before = await scene.store.now()
    found = (await act(client, endpoint, "circuit/open")).json(200)
    wait = datetime.fromisoformat(found["nextProbeAt"]) - before
    assert timedelta(seconds=45) < wait < timedelta(seconds=90)


async def test_a_closed_circuit_recovers_gradually(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.trip(endpoint)
    found = (await act(client, endpoint, "circuit/close", {"cause": "they are back"})).json(200)
    assert (found["circuit"], found["window"], found["nextProbeAt"]) == ("recovering", 2, None)
    assert (found["events"][0]["kind"], found["events"][0]["cause"]) == ("circuit_recovering", "they are back")
    await scene.age(1)
    assert 1 <= len(await scene.claim_all()) <= 2


async def test_a_closed_circuit_is_closed_already(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    found = (await act(client, endpoint, "circuit/close")).json(200)
    assert (found["circuit"], found["events"]) == ("closed", [])


ENDS: list[dict[str, object]] = [
    {"seconds": 0},
    {"seconds": -1},
    {"seconds": 30 * 86_400 + 1},
    {"seconds": 1e308},
    {"seconds": "60"},
    {"seconds": 60, "until": "2999-01-01T00:00:00Z"},
    {"until": "2020-01-01T00:00:00Z"},
    {"until": "2999-01-01T00:00:00Z"},
    {"until": "9999-12-31T23:59:59Z"},
    {"until": "2030-01-01T00:00:00"},
    {"until": 1_900_000_000},
    {"untill": "2030-01-01T00:00:00Z"},
]


async def test_invalid_end_times_are_refused(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    for body in ENDS:
        (await act(client, endpoint, "circuit/open", body)).json(422)
    assert (await scene.lane(endpoint)).circuit == Circuit.CLOSED
    assert await scene.store.history.lane_events(endpoint.no) == []


# ── enable again ──


async def test_enabling_an_endpoint_reports_what_it_missed(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint(event_types=("paid",))
    await scene.send(2, event_type="paid")
    await scene.record(*factory.all_delivered(await scene.claim_all()))
    await scene.age(300)
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.DISABLED, "status 410")
    await scene.send(3, event_type="paid")
    await scene.send(4, event_type="refunded")
    found = (await act(client, endpoint, "resume")).json(200)
    assert (found["status"], found["backlog"]) == ("active", 0)
    missed = found["missed"]
    assert (missed["messages"], missed["task"]) == (3, None)

    replayed = await client.post(path(endpoint, "replay-missing"), {"since": missed["since"]})
    assert replayed.json(202)["data"]["total"] == 3
    await work(scene)
    assert len(await scene.claim_all()) == 3


async def test_missed_messages_are_replayed_on_request(client: Client, scene: Scene) -> None:
    endpoint, other = await scene.endpoint(), await scene.endpoint()
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.DISABLED, "status 410")
    messages = await scene.send(3)
    await scene.record(*factory.all_delivered(await scene.claim_all()))
    found = (await act(client, endpoint, "resume", {"cause": "moved", "replayMissing": True})).json(200)
    task = found["missed"]["task"]
    assert (found["missed"]["messages"], task["data"]["total"], task["data"]["kind"]) == (3, 3, "replay_missing")
    await work(scene)
    jobs = await scene.claim_all()
    assert {(job.endpoint_no, job.message_id) for job in jobs} == {(endpoint.no, each) for each in messages}
    assert other.no not in {job.endpoint_no for job in jobs}
    await scene.record(*factory.all_delivered(jobs))

    again = (await act(client, endpoint, "resume", {"replayMissing": True})).json(200)
    assert again["missed"]["messages"] == 0
    await work(scene)
    assert await scene.claim_all() == [], "the second replay must send nothing"


async def test_only_the_last_disabled_time_counts(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    for status in (EndpointStatus.DISABLED, EndpointStatus.ACTIVE):
        await scene.store.catalogue.set_endpoint_status(endpoint.no, status, "the first time")
        await scene.send(2 if status == EndpointStatus.DISABLED else 0)
        await scene.age(3600)
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.DISABLED, "the second time")
    await scene.send(5)
    assert (await act(client, endpoint, "resume")).json(200)["missed"]["messages"] == 5


async def test_messages_of_a_failed_replay_count_as_missed(client: Client, scene: Scene) -> None:
    """The endpoint was enabled for a moment, and was disabled again before the replay had sent all missed messages."""
    endpoint = await scene.endpoint()
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.DISABLED, "status 410")
    messages = await scene.send(3)
    await scene.age(3600)
    (await act(client, endpoint, "resume", {"replayMissing": True})).json(200)
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.DISABLED, "status 410, again")
    await work(scene)
    messages += await scene.send(2)
    found = (await act(client, endpoint, "resume", {"replayMissing": True})).json(200)
    assert found["missed"]["messages"] == 5
    await work(scene)
    jobs = await scene.claim_all()
    assert {job.message_id for job in jobs} == set(messages)

    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.DISABLED, "status 410, a third time")
    again = (await act(client, endpoint, "resume")).json(200)
    assert again["missed"]["since"] > found["missed"]["since"], (
        "a finished replay must move the start of the missed time"
    )


async def test_the_failed_replay_of_another_endpoint_is_its_own(client: Client, scene: Scene) -> None:
    endpoint, other = await scene.endpoint(), await scene.endpoint()
    for each in (endpoint, other):
        await scene.store.catalogue.set_endpoint_status(each.no, EndpointStatus.DISABLED, "status 410")
    await scene.send(3)
    await scene.age(3600)
    (await act(client, other, "resume", {"replayMissing": True})).json(200)
    await scene.store.catalogue.set_endpoint_status(other.no, EndpointStatus.DISABLED, "status 410, again")
    await work(scene)
    (await act(client, endpoint, "resume")).json(200)
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.DISABLED, "the second time")
    assert (await act(client, endpoint, "resume")).json(200)["missed"]["messages"] == 0


async def test_an_endpoint_created_disabled_missed_everything_since_then(client: Client, scene: Scene) -> None:
    await scene.send(4)
    await scene.age(5)
    endpoint = await scene.endpoint(status=EndpointStatus.DISABLED)
    await scene.send(2)
    found = (await act(client, endpoint, "resume")).json(200)
    assert found["missed"]["messages"] == 2, "messages older than the endpoint are not missed"


async def test_a_paused_endpoint_missed_nothing(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.store.catalogue.set_endpoint_status(
        endpoint.no, EndpointStatus.PAUSED, "more than 100 dead letters in a day"
    )
    await scene.send(3)
    found = (await act(client, endpoint, "resume", {"replayMissing": True})).json(200)
    assert (found["missed"], found["backlog"]) == (None, 3)
    assert len(await scene.claim_all()) == 3


async def test_a_replay_that_was_refused_for_too_many_tasks_can_be_repeated(client: Client, scene: Scene) -> None:
    """The endpoint is enabled, and the error says that only the replay was not started. A second request starts it."""
    endpoint, other = await scene.endpoint(), await scene.endpoint()
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.DISABLED, "status 410")
    await scene.send(2)
    new = NewTask(
        org_id=scene.organization.id,
        app_no=scene.app.no,
        endpoint_no=other.no,
        kind=TaskKind.REPLAY_MISSING,
        work=TaskWork(since=await scene.store.now()),
    )
    for _ in range(MAX_RUNNING):
        await scene.store.repair.add_task(new)
    refused = (await act(client, endpoint, "resume", {"replayMissing": True})).problem(409, "conflict")
    assert f"{endpoint.id} is active" in refused
    await work(scene)
    found = (await act(client, endpoint, "resume", {"replayMissing": True})).json(200)
    assert (found["missed"]["messages"], found["missed"]["task"]["data"]["total"]) == (2, 2)


async def test_a_misspelt_field_of_resume_changes_nothing(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.DISABLED, "status 410")
    for body in ({"replayMissing": "yes"}, {"replayMissing": None}, {"replay_missing": True}):
        (await act(client, endpoint, "resume", body)).json(422)
    assert (await scene.lane(endpoint)).status == EndpointStatus.DISABLED


# ── the actor ──


async def a_key(client: Client, name: str, app_id: str | None = None) -> Client:
    made = (await client.post("/api/v1/api-key", {"name": name, "appId": app_id})).json(201)
    return client.holding(made["key"])


async def test_the_history_names_the_caller(client: Client, narrow: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    deploy, portal = await a_key(client, "deploy"), await a_key(client, "portal", scene.app.id)
    (await act(deploy, endpoint, "circuit/open")).json(200)
    (await act(portal, endpoint, "circuit/close")).json(200)
    (await act(narrow, endpoint, "pause")).json(200)
    (await act(client, endpoint, "resume")).json(200)
    patched = await client.request("PATCH", path(endpoint, "").rstrip("/"), b'{"disabled": true}', {})
    assert patched.json(200)["disabled"] is True
    found = (await client.get(path(endpoint, "timeline"))).json()
    assert [(each["kind"], each["actor"]) for each in found["data"]] == [
        ("endpoint_disabled", {"kind": "token", "name": None}),
        ("endpoint_resumed", {"kind": "token", "name": None}),
        ("endpoint_paused", {"kind": "application_token", "name": None}),
        ("circuit_recovering", {"kind": "application_key", "name": "portal"}),
        ("circuit_opened", {"kind": "key", "name": "deploy"}),
    ]
    for tail, name in (("timeline", "data"), ("health", "events")):
        shown = (await narrow.get(path(endpoint, tail))).json()[name]
        assert [each["actor"]["name"] for each in shown] == [None, None, None, "portal", None], (
            "customers must not see the names of the organization's keys"
        )


async def test_a_read_only_key_changes_no_state(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    made = (await client.post("/api/v1/api-key", {"name": "eye", "scope": "read"})).json(201)
    eye = client.holding(made["key"])
    for action in ("circuit/open", "circuit/close"):
        (await act(eye, endpoint, action)).problem(403, "insufficient_access")
    assert (await eye.get(path(endpoint, "timeline"))).json()["data"] == []
