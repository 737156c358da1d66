"""An endpoint's lane over HTTP: health, pause, resume and reset."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from hookline.model.endpoints import Endpoint
from hookline.model.states import Circuit, EndpointStatus
from tests.api.conftest import Answer, Client
from tests.support import factory
from tests.support.scene import Scene

ACTIONS = ("pause", "resume", "circuit/open", "circuit/close", "circuit/reset")


def path(endpoint: Endpoint, tail: str) -> str:
    return f"/api/v1/app/{endpoint.app_id}/endpoint/{endpoint.id}/{tail}"


async def health(client: Client, endpoint: Endpoint) -> dict[str, Any]:
    found: dict[str, Any] = (await client.get(path(endpoint, "health"))).json()
    return found


async def act(client: Client, endpoint: Endpoint, tail: str, body: object = None) -> Answer:
    raw = None if body is None else msgspec.json.encode(body)
    return await client.request("POST", path(endpoint, tail), raw, {})


# ── health ──


async def test_a_healthy_lane(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send(3)
    jobs = await scene.claim(1)
    found = await health(client, endpoint)
    assert {name: found[name] for name in ("endpointId", "appId", "url", "status", "statusReason")} == {
        "endpointId": endpoint.id,
        "appId": scene.app.id,
        "url": endpoint.url,
        "status": "active",
        "statusReason": None,
    }
    assert (found["circuit"], found["backlog"], found["inFlight"]) == ("closed", 2, len(jobs))
    assert datetime.fromisoformat(found["oldestDueAt"]) <= await scene.store.now()
    assert datetime.fromisoformat(found["nextStartAt"]) <= await scene.store.now()
    unset = ("window", "concurrency", "throttleRate", "failingSince", "nextProbeAt", "heldUntil", "pace", "slowedAt")
    for name in (*unset, "lastError"):
        assert found[name] is None, name
    assert (found["failures"], found["trips"], found["events"]) == (0, 0, [])


async def test_an_open_circuit_says_why_and_until_when(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.trip(endpoint)
    lane = await scene.lane(endpoint)
    found = await health(client, endpoint)
    assert (found["circuit"], found["failures"], found["trips"], found["backlog"]) == ("open", 5, 1, 5)
    assert datetime.fromisoformat(found["nextProbeAt"]) == datetime.fromisoformat(found["nextStartAt"]) == lane.probe_at
    assert datetime.fromisoformat(found["failingSince"]) == lane.failing_since
    assert datetime.fromisoformat(found["openedAt"]) == lane.opened_at
    assert "503" in found["lastError"]
    assert [event["kind"] for event in found["events"]] == ["circuit_opened"]
    assert found["events"][0]["cause"]


async def test_a_recovering_lane_has_a_window(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.recover(endpoint)
    found = await health(client, endpoint)
    assert (found["circuit"], found["window"]) == ("recovering", 2)
    assert [event["kind"] for event in found["events"]] == ["circuit_recovering", "circuit_opened"]


async def test_limits_and_when_the_next_start_is_allowed(client: Client, scene: Scene) -> None:
    slow = await scene.endpoint(throttle_rate=0.01, concurrency=4)
    await scene.send(3)
    (job,) = await scene.claim()
    found = await health(client, slow)
    assert (found["throttleRate"], found["concurrency"], found["inFlight"]) == (0.01, 4, 1)
    wait = datetime.fromisoformat(found["nextStartAt"]) - job.claimed_at
    assert timedelta(seconds=90) < wait <= timedelta(seconds=101)


async def test_a_full_lane_and_a_paused_one_have_no_next_start(client: Client, scene: Scene) -> None:
    narrow = await scene.endpoint(concurrency=1)
    await scene.send(2)
    assert len(await scene.claim_all()) == 1
    assert (await health(client, narrow))["nextStartAt"] is None
    other = await scene.endpoint()
    await scene.store.catalogue.set_endpoint_status(other.no, EndpointStatus.PAUSED, "maintenance")
    found = await health(client, other)
    assert (found["nextStartAt"], found["statusReason"]) == (None, "maintenance")


async def test_a_held_lane(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send()
    (job,) = await scene.claim()
    until = job.claimed_at + timedelta(seconds=500)
    await scene.record(factory.retry(job, hold_until=until))
    found = await health(client, endpoint)
    assert datetime.fromisoformat(found["heldUntil"]) == datetime.fromisoformat(found["nextStartAt"]) == until


async def test_a_slowed_lane_shows_its_pace(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send(40)
    (job,) = await scene.claim(1)
    await scene.record(factory.retry(job, slow_down=True))
    await scene.claim()
    found, lane = await health(client, endpoint), await scene.lane(endpoint)
    assert (found["pace"], found["circuit"], found["failures"]) == (20, "closed", 0)
    assert datetime.fromisoformat(found["slowedAt"]) == lane.slowed_at
    assert datetime.fromisoformat(found["nextStartAt"]) <= await scene.store.now() + timedelta(seconds=1)
    assert [event["kind"] for event in found["events"]] == ["lane_slowed"]
    again = (await act(client, endpoint, "circuit/reset")).json(200)
    assert (again["pace"], again["slowedAt"]) == (None, None)


# ── pause and resume ──


async def test_paused_and_resumed_with_a_cause(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    paused = (await act(client, endpoint, "pause", {"cause": "moving house"})).json(200)
    assert (paused["status"], paused["statusReason"]) == ("paused", "moving house")
    await scene.send(2)
    assert await scene.claim_all() == []

    resumed = (await act(client, endpoint, "resume")).json(200)
    assert (resumed["status"], resumed["statusReason"], resumed["backlog"]) == ("active", None, 2)
    assert [(event["kind"], event["cause"]) for event in resumed["events"]] == [
        ("endpoint_resumed", "resumed through the API"),
        ("endpoint_paused", "moving house"),
    ]
    assert len(await scene.claim_all()) == 2


async def test_pausing_twice_has_the_effect_of_once(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    for _ in range(2):
        (await act(client, endpoint, "pause", {})).json(200)
    for _ in range(2):
        assert len((await act(client, endpoint, "resume", {})).json(200)["events"]) == 2


async def test_a_disabled_endpoint_is_resumed_and_not_paused(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.DISABLED, "410")
    assert "disabled" in (await act(client, endpoint, "pause")).problem(409, "conflict")
    found = (await act(client, endpoint, "resume")).json(200)
    assert (found["status"], found["events"][0]["kind"]) == ("active", "endpoint_enabled")


# ── reset ──


async def test_a_reset_circuit_sends_at_once(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    messages = await scene.trip(endpoint)
    await scene.age(1)
    assert await scene.claim_all() == []

    found = (await act(client, endpoint, "circuit/reset", {"cause": "their disk is no longer full"})).json(200)
    assert (found["circuit"], found["failures"], found["trips"]) == ("closed", 0, 0)
    for name in ("failingSince", "openedAt", "nextProbeAt", "window"):
        assert found[name] is None, name
    assert (found["events"][0]["kind"], found["events"][0]["cause"]) == (
        "circuit_reset",
        "their disk is no longer full",
    )
    jobs = await scene.claim_all()
    assert {job.message_id for job in jobs} == set(messages)
    assert not any(job.probe for job in jobs)


async def test_a_reset_of_a_healthy_lane_records_no_event(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    before = await scene.lane(endpoint)
    assert (await act(client, endpoint, "circuit/reset")).json(200)["events"] == []
    assert await scene.lane(endpoint) == before


# ── invalid input ──


BAD_BODIES = [
    (b"{", 400),
    (b"[]", 422),
    (b'{"cause": 7}', 422),
    (b'{"cause": ""}', 422),
    (b'{"cause": "' + b"x" * 501 + b'"}', 422),
    (b'{"cause": "\\ud800"}', 400),
    (b'{"cause": "a\\u0000b"}', 422),
    (b'{"cause": "' + b"x" * 300_000 + b'"}', 413),
]


@pytest.mark.parametrize("action", ACTIONS)
async def test_bad_bodies_change_nothing(client: Client, scene: Scene, action: str) -> None:
    endpoint = await scene.endpoint()
    await scene.trip(endpoint)
    before = await scene.lane(endpoint)
    for body, status in BAD_BODIES:
        (await client.request("POST", path(endpoint, action), body, {})).json(status)
    assert await scene.lane(endpoint) == before


@pytest.mark.parametrize(
    ("method", "tail"), [("GET", "health"), ("GET", "timeline"), *(("POST", action) for action in ACTIONS)]
)
async def test_the_lane_of_another_tenant_is_404(
    client: Client, narrow: Client, nobody: Client, scene: Scene, method: str, tail: str
) -> None:
    other = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())
    theirs = await scene.endpoint(other)
    stranger = await scene.store.catalogue.save_organization(factory.organization())
    foreign = await scene.store.catalogue.create_application(stranger.id, factory.new_application())
    hidden = await scene.endpoint(foreign)
    for who, app, endpoint in (
        (client, scene.app.id, theirs.id),
        (client, foreign.id, hidden.id),
        (narrow, other.id, theirs.id),
        (narrow, scene.app.id, theirs.id),
        (client, scene.app.id, "ep_none"),
    ):
        answer = await who.request(method, f"/api/v1/app/{app}/endpoint/{endpoint}/{tail}", None, {})
        answer.problem(404, "not_found")
    (await nobody.request(method, path(theirs, tail), None, {})).problem(401, "authentication_failed")
    for endpoint in (theirs, hidden):
        assert (await scene.lane(endpoint)).status == EndpointStatus.ACTIVE
        assert await scene.store.history.lane_events(endpoint.no) == []


async def test_the_lane_of_a_deleted_endpoint_is_gone(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.store.catalogue.delete_endpoint(endpoint.no)
    (await client.get(path(endpoint, "health"))).problem(404, "not_found")
    for action in ACTIONS:
        (await act(client, endpoint, action)).problem(404, "not_found")
    lane = await scene.raw.row("SELECT circuit, status FROM lane WHERE endpoint_no = $1", endpoint.no)
    assert (lane["circuit"], lane["status"]) == (Circuit.CLOSED, EndpointStatus.DELETED)
