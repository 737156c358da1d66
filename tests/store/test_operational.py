"""Operational webhooks: each change that an organization subscribed to is sent once, in its transaction."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import pytest

from hookline.errors import Conflict, HooklineError, InvalidInput, NotFound
from hookline.model.catalogue import ApplicationChange, NewApplication, Organization
from hookline.model.dead import DeadFilter
from hookline.model.deliveries import LeasedDelivery
from hookline.model.endpoints import Endpoint, EndpointChange
from hookline.model.policy import PolicyOverride
from hookline.model.states import Circuit, DeliveryState, EndpointStatus, Health, Reason
from hookline.rules.operational_events import FAILING, MANAGEMENT, Kind
from hookline.services import endpoints
from hookline.store import Page, Store
from tests.support import factory
from tests.support.operational import OperationalEvent, add_listener, clear_outbox, outbox_events
from tests.support.scene import Scene


@pytest.fixture
async def scene(scene: Scene) -> Scene:
    """A scene whose application has a uid."""
    change = ApplicationChange(uid=f"tenant-{factory.number()}")
    scene.app = await scene.store.catalogue.change_application(scene.app.no, change)
    return scene


async def kinds(scene: Scene) -> list[str]:
    return [each.type for each in await outbox_events(scene.raw)]


async def only(scene: Scene) -> OperationalEvent:
    (found,) = await outbox_events(scene.raw)
    return found


async def a_listened_endpoint(scene: Scene, **fields: Any) -> Endpoint:
    """Create an endpoint whose organization subscribes to operational events. No event was written yet."""
    endpoint = await scene.endpoint(**fields)
    await add_listener(scene.store, scene.organization.id)
    assert await outbox_events(scene.raw) == []
    return endpoint


def who(scene: Scene, endpoint: Endpoint) -> dict[str, Any]:
    return {
        "appId": scene.app.id,
        "appUid": scene.app.uid,
        "endpointId": endpoint.id,
        "endpointUid": endpoint.uid,
    }


async def fail(scene: Scene, times: int, **fields: Any) -> LeasedDelivery:
    """Claim the only delivery and let it fail `times` times, then claim it again. The failures do not count against
    health."""
    for _ in range(times):
        (job,) = await scene.claim_all()
        await scene.record(factory.retry(job, after=0.0, health=Health.NONE, **fields))
    (job,) = await scene.claim_all()
    return job


# ── endpoints ──


async def test_creating_updating_and_deleting_an_endpoint_sends_events(scene: Scene) -> None:
    await add_listener(scene.store, scene.organization.id)
    endpoint = await scene.endpoint(uid=f"gate-{factory.number()}")
    changed = await scene.store.catalogue.change_endpoint(endpoint.no, EndpointChange(description="new"))
    again = await scene.store.catalogue.change_endpoint(endpoint.no, EndpointChange(description="newer"))
    await scene.store.catalogue.delete_endpoint(endpoint.no)
    found = await outbox_events(scene.raw)
    assert [each.type for each in found] == [
        "endpoint.created",
        "endpoint.updated",
        "endpoint.updated",
        "endpoint.deleted",
    ]
    assert [each.data for each in found] == [who(scene, endpoint)] * 4
    assert {each.org_id for each in found} == {scene.organization.id}
    assert [each.event_id for each in found] == [
        f"endpoint.created.{endpoint.id}.{endpoint.revision}",
        f"endpoint.updated.{endpoint.id}.{changed.revision}",
        f"endpoint.updated.{endpoint.id}.{again.revision}",
        f"endpoint.deleted.{endpoint.id}.{again.revision + 1}",
    ]


async def test_missing_uids_are_null_in_the_event(scene: Scene) -> None:
    app = await scene.store.catalogue.create_application(scene.organization.id, NewApplication(name="without a uid"))
    await add_listener(scene.store, scene.organization.id)
    endpoint = await scene.endpoint(app)
    assert (await only(scene)).data == {
        "appId": app.id,
        "appUid": None,
        "endpointId": endpoint.id,
        "endpointUid": None,
    }


async def test_deleting_an_application_sends_an_event_for_each_endpoint(scene: Scene) -> None:
    one, two, gone = [await scene.endpoint() for _ in range(3)]
    await scene.store.catalogue.delete_endpoint(gone.no)
    await add_listener(scene.store, scene.organization.id)
    await scene.store.catalogue.delete_application(scene.app.no)
    assert sorted((each.type, each.data["endpointId"]) for each in await outbox_events(scene.raw)) == sorted(
        [("endpoint.deleted", one.id), ("endpoint.deleted", two.id)]
    )


async def test_status_changes_by_an_operator_send_events(scene: Scene) -> None:
    endpoint = await a_listened_endpoint(scene)
    for status, cause in (
        (EndpointStatus.PAUSED, "their deploy"),
        (EndpointStatus.PAUSED, "it is paused already"),
        (EndpointStatus.ACTIVE, "deployed"),
        (EndpointStatus.DISABLED, "their wish"),
        (EndpointStatus.ACTIVE, "their other wish"),
    ):
        await scene.store.catalogue.set_endpoint_status(endpoint.no, status, cause)
    found = await outbox_events(scene.raw)
    assert [(each.type, each.data["cause"]) for each in found] == [
        ("endpoint.paused", "their deploy"),
        ("endpoint.resumed", "deployed"),
        ("endpoint.disabled", "their wish"),
        ("endpoint.enabled", "their other wish"),
    ]
    disabled = found[2].data
    assert disabled == who(scene, endpoint) | {"cause": "their wish", "failSince": None, "trigger": "manual"}
    assert found[0].data == who(scene, endpoint) | {"cause": "their deploy"}
    assert len({each.event_id for each in found}) == 4


async def test_an_endpoint_that_answers_gone_sends_two_events(scene: Scene) -> None:
    """One attempt causes two events: the delivery died, and the endpoint was disabled."""
    endpoint = await a_listened_endpoint(scene)
    await scene.send()
    (job,) = await scene.claim()
    await scene.record(factory.dead(job, Reason.ENDPOINT_GONE))
    exhausted, disabled = await outbox_events(scene.raw)
    assert (exhausted.type, exhausted.data["reason"]) == ("message.attempt.exhausted", "endpoint_gone")
    assert (disabled.type, disabled.data["trigger"]) == ("endpoint.disabled", "automatic")
    assert disabled.data["endpointId"] == endpoint.id
    assert "410" in disabled.data["cause"]


async def test_endpoints_that_the_sweep_pauses_or_disables_send_events(scene: Scene) -> None:
    dying, failing = await scene.endpoint(), await scene.endpoint()
    await scene.trip(failing)
    await scene.claim_all()
    since = (await scene.lane(failing)).failing_since
    for job in [job for job in await scene.claim_all() if job.endpoint_no == dying.no]:
        await scene.store.pipeline.release([job])
    await scene.send(3)
    jobs = [job for job in await scene.claim_all() if job.endpoint_no == dying.no]
    await scene.record(*(factory.dead(job) for job in jobs))
    await add_listener(scene.store, scene.organization.id)
    report = await scene.store.upkeep.sweep_failing(pause_dead=2, disable_after=0.0)
    assert (report.paused, report.disabled) == (1, 1)
    by_type = {each.type: each.data for each in await outbox_events(scene.raw)}
    assert set(by_type) == {"endpoint.paused", "endpoint.disabled"}
    assert by_type["endpoint.paused"]["endpointId"] == dying.id
    disabled = by_type["endpoint.disabled"]
    assert (disabled["endpointId"], disabled["trigger"]) == (failing.id, "automatic")
    assert since is not None
    assert datetime.fromisoformat(disabled["failSince"]) == since
    assert disabled["cause"]


# ── circuits ──


async def test_an_opened_and_a_closed_circuit_send_events(scene: Scene) -> None:
    endpoint = await a_listened_endpoint(scene)
    probe = await scene.half_open(endpoint)
    opened = await only(scene)
    assert (opened.type, opened.data["endpointId"]) == ("circuit.opened", endpoint.id)
    assert set(opened.data) == {*who(scene, endpoint), "cause"}
    assert "503" in opened.data["cause"]
    await scene.record(factory.retry(probe, health=Health.BAD))
    assert (await scene.lane(endpoint)).circuit == Circuit.OPEN
    assert await kinds(scene) == ["circuit.opened"], "a failed probe writes no event"
    await clear_outbox(scene.raw)
    await scene.record(factory.delivered(await scene.probe(endpoint)))
    while (await scene.lane(endpoint)).circuit != Circuit.CLOSED:
        await scene.age(2)
        await scene.send()
        jobs = await scene.claim(1)
        await scene.record(*factory.all_delivered(jobs))
    assert [kind for kind in await kinds(scene) if kind.startswith("circuit")] == ["circuit.closed"]


async def test_a_reset_circuit_sends_an_event(scene: Scene) -> None:
    endpoint = await a_listened_endpoint(scene)
    await scene.trip(endpoint)
    await clear_outbox(scene.raw)
    await scene.store.catalogue.reset_circuit(endpoint.no, "they say it is fine")
    closed = await only(scene)
    assert (closed.type, closed.data["cause"]) == ("circuit.closed", "they say it is fine")


async def test_resetting_the_failures_of_a_closed_circuit_sends_no_event(scene: Scene) -> None:
    endpoint = await a_listened_endpoint(scene)
    await scene.send()
    (job,) = await scene.claim()
    await scene.record(factory.retry(job))
    assert await scene.store.catalogue.reset_circuit(endpoint.no, "a hiccup") is not None
    assert await outbox_events(scene.raw) == []


# ── deliveries ──


async def test_a_dead_delivery_sends_an_event(scene: Scene) -> None:
    endpoint = await a_listened_endpoint(scene, uid=f"gate-{factory.number()}")
    (message,) = await scene.send(event_id="order-17")
    (job,) = await scene.claim()
    result = factory.dead(job, Reason.PERMANENT_FAILURE)
    await scene.record(result)
    found = await only(scene)
    assert (found.org_id, found.type) == (scene.organization.id, "message.attempt.exhausted")
    started = found.data["lastAttempt"].pop("timestamp")
    assert datetime.fromisoformat(started) == result.sent.started_at
    assert found.data == who(scene, endpoint) | {
        "msgId": message,
        "msgEventId": "order-17",
        "lastAttempt": {"id": result.attempt_id, "responseStatusCode": 422},
        "reason": "permanent_failure",
        "deadLetterId": f"dl_{job.delivery_id}",
    }


async def test_an_attempt_without_a_response_has_status_0(scene: Scene) -> None:
    await a_listened_endpoint(scene)
    await scene.send()
    (job,) = await scene.claim()
    await scene.record(factory.result(job, factory.dead(job).judgement.verdict, Health.NONE, factory.failed()))
    data = (await only(scene)).data
    assert (data["lastAttempt"]["responseStatusCode"], data["msgEventId"]) == (0, None)


async def test_the_fourth_failure_sends_one_event_and_the_recovery_another(scene: Scene) -> None:
    endpoint = await a_listened_endpoint(scene)
    (message,) = await scene.send()
    fourth = await fail(scene, FAILING - 1)
    assert await outbox_events(scene.raw) == []
    result = factory.retry(fourth, after=0.0, health=Health.NONE)
    await scene.record(result)
    failing = await only(scene)
    assert failing.type == "message.attempt.failing"
    assert set(failing.data) == {*who(scene, endpoint), "msgId", "msgEventId", "lastAttempt"}
    assert failing.data["msgId"] == message
    assert failing.data["lastAttempt"]["id"] == result.attempt_id
    assert failing.data["lastAttempt"]["responseStatusCode"] == 503
    last = await fail(scene, 3)
    assert await kinds(scene) == ["message.attempt.failing"]
    good = factory.delivered(last)
    await scene.record(good)
    recovered = (await outbox_events(scene.raw))[-1]
    assert recovered.type == "message.attempt.recovered"
    assert recovered.data["lastAttempt"]["id"] == good.attempt_id
    assert recovered.data["lastAttempt"]["responseStatusCode"] == 200
    assert await kinds(scene) == ["message.attempt.failing", "message.attempt.recovered"]


@pytest.mark.parametrize("failures", [0, 1, FAILING - 1])
async def test_a_delivery_without_a_failure_event_sends_no_recovery_event(scene: Scene, failures: int) -> None:
    await a_listened_endpoint(scene)
    await scene.send()
    await scene.record(factory.delivered(await fail(scene, failures)))
    assert await outbox_events(scene.raw) == []


async def test_a_dead_letter_that_is_replayed_and_delivered_sends_a_recovery_event(scene: Scene) -> None:
    await a_listened_endpoint(scene)
    await scene.send()
    (job,) = await scene.claim()
    await scene.record(factory.dead(job))
    assert await scene.store.repair.replay(DeadFilter(ids=(job.delivery_id,))) == 1
    (again,) = await scene.claim_all()
    await scene.record(factory.delivered(again))
    told_of = ["message.attempt.exhausted", "dead_letter.replayed", "message.attempt.recovered"]
    assert await kinds(scene) == told_of


async def test_a_delivery_that_dies_twice_sends_two_events(scene: Scene) -> None:
    await a_listened_endpoint(scene)
    await scene.send(policy=PolicyOverride(max_age=1000.0))
    (job,) = await scene.claim()
    await scene.store.pipeline.release([job])
    for _ in range(2):
        await scene.age(1001)
        assert (await scene.store.upkeep.sweep_expired()).expired == 1
        assert await scene.store.repair.replay(DeadFilter(ids=(job.delivery_id,))) == 1
    found = await outbox_events(scene.raw)
    assert [each.type for each in found] == ["message.attempt.exhausted", "dead_letter.replayed"] * 2
    assert len({each.event_id for each in found}) == 4
    assert (await scene.store.pipeline.relay(10)).relayed == 4


async def test_an_exhausted_time_budget_sends_an_event(scene: Scene) -> None:
    await a_listened_endpoint(scene)
    tried, fresh = await scene.send(2, policy=PolicyOverride(max_age=1000.0))
    jobs = {job.message_id: job for job in await scene.claim()}
    first = factory.retry(jobs[tried], after=0.001, health=Health.NONE)
    await scene.record(first)
    await scene.store.pipeline.release([jobs[fresh]])
    await scene.age(1)
    again = {job.message_id: job for job in await scene.claim_all()}
    last = factory.retry(again[tried], after=5000, health=Health.NONE)
    await scene.record(last)
    await scene.store.pipeline.release([again[fresh]])
    await scene.age(1001)
    assert (await scene.store.upkeep.sweep_expired()).expired == 2
    found = {each.data["msgId"]: each.data for each in await outbox_events(scene.raw)}
    assert {data["reason"] for data in found.values()} == {"budget_exhausted"}
    assert found[tried]["lastAttempt"]["id"] == last.attempt_id, "the event has the newest of its two attempts"
    assert found[tried]["lastAttempt"]["responseStatusCode"] == 503
    assert found[fresh]["lastAttempt"] is None
    assert await kinds(scene) == ["message.attempt.exhausted"] * 2


async def test_deliveries_of_a_deleted_endpoint_send_events(scene: Scene) -> None:
    endpoint = await a_listened_endpoint(scene)
    messages = await scene.send(2)
    await scene.store.catalogue.delete_endpoint(endpoint.no)
    assert (await scene.store.upkeep.sweep_deleted()).deleted == 2
    gone, *dead = await outbox_events(scene.raw)
    assert gone.type == "endpoint.deleted"
    assert [each.type for each in dead] == ["message.attempt.exhausted"] * 2
    assert {each.data["msgId"] for each in dead} == set(messages)
    assert {(each.data["reason"], each.data["endpointId"]) for each in dead} == {("endpoint_deleted", endpoint.id)}


async def test_a_delivery_without_a_payload_sends_an_event(scene: Scene) -> None:
    await a_listened_endpoint(scene)
    (message,) = await scene.send()
    await scene.raw.execute("UPDATE message SET payload = NULL WHERE id = $1", message)
    assert await scene.claim() == []
    data = (await only(scene)).data
    assert (data["msgId"], data["reason"], data["lastAttempt"]) == (message, "unsendable", None)


async def test_each_outcome_of_a_batch_sends_its_own_event(scene: Scene) -> None:
    one = await a_listened_endpoint(scene)
    two = await scene.endpoint()
    await clear_outbox(scene.raw)
    await scene.send(3)
    jobs = await scene.claim_all()
    died = [factory.dead(job) for job in jobs if job.endpoint_no == one.no]
    well = [factory.delivered(job) for job in jobs if job.endpoint_no == two.no]
    await scene.record(*died, *well)
    found = await outbox_events(scene.raw)
    assert [each.data["msgId"] for each in found] == [result.job.message_id for result in died]
    assert {each.data["endpointId"] for each in found} == {one.id}


# ── in the transaction of the change ──


async def test_a_refused_change_sends_no_event(scene: Scene) -> None:
    taken = await scene.endpoint(uid="taken")
    endpoint = await a_listened_endpoint(scene)
    with pytest.raises(Conflict):
        await scene.endpoint(uid="taken")
    with pytest.raises(Conflict):
        await scene.store.catalogue.change_endpoint(endpoint.no, EndpointChange(uid=taken.uid))
    await scene.store.catalogue.delete_endpoint(taken.no)
    await clear_outbox(scene.raw)
    with pytest.raises(NotFound):
        await scene.store.catalogue.delete_endpoint(taken.no)
    with pytest.raises(NotFound):
        await scene.store.catalogue.set_endpoint_status(taken.no, EndpointStatus.PAUSED, "too late")
    assert await outbox_events(scene.raw) == []


async def test_a_change_that_is_rolled_back_sends_no_event(scene: Scene) -> None:
    """The event is written, and then a later part of the same transaction fails."""
    await a_listened_endpoint(scene)
    (message,) = await scene.send()
    (job,) = await scene.claim()
    await scene.raw.execute("ALTER TABLE lane_event RENAME TO elsewhere")
    with pytest.raises(HooklineError):
        await scene.record(factory.dead(job, Reason.ENDPOINT_GONE))
    await scene.raw.execute("ALTER TABLE elsewhere RENAME TO lane_event")
    assert await outbox_events(scene.raw) == []
    assert await scene.state(message) == DeliveryState.DELIVERING
    await scene.record(factory.dead(job, Reason.ENDPOINT_GONE))
    assert await kinds(scene) == ["message.attempt.exhausted", "endpoint.disabled"]


async def test_a_change_whose_event_cannot_be_written_is_rolled_back(scene: Scene) -> None:
    endpoint = await a_listened_endpoint(scene)
    await scene.raw.execute("ALTER TABLE outbox RENAME TO elsewhere")
    with pytest.raises(HooklineError):
        await scene.store.catalogue.delete_endpoint(endpoint.no)
    with pytest.raises(HooklineError):
        await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.PAUSED, "their deploy")
    await scene.raw.execute("ALTER TABLE elsewhere RENAME TO outbox")
    found = await scene.store.catalogue.endpoint(scene.app.no, endpoint.id)
    assert found is not None
    assert (found.status, found.revision) == (EndpointStatus.ACTIVE, endpoint.revision)
    assert await outbox_events(scene.raw) == []


async def test_an_outcome_with_a_stale_claim_sends_no_event(scene: Scene) -> None:
    await a_listened_endpoint(scene)
    await scene.send()
    (job,) = await scene.claim()
    await scene.record(factory.dead(factory.with_claim(job, job.claim + 1)))
    assert await outbox_events(scene.raw) == []
    await scene.record(factory.dead(job), factory.dead(job))
    await scene.record(factory.dead(job))
    assert await kinds(scene) == ["message.attempt.exhausted"]


async def test_successes_do_not_query_the_subscribers(scene: Scene) -> None:
    """A success and a first failure must not query the subscribers. The test removes the table of that query."""
    await a_listened_endpoint(scene)
    delivered, *failed = await scene.send(3)
    jobs = {job.message_id: job for job in await scene.claim()}
    await scene.raw.execute("ALTER TABLE application RENAME TO elsewhere")
    await scene.record(factory.delivered(jobs[delivered]))
    await scene.record(*(factory.retry(jobs[message], after=30) for message in failed))
    await scene.raw.execute("ALTER TABLE elsewhere RENAME TO application")
    assert await scene.state(delivered) == DeliveryState.DELIVERED
    assert await outbox_events(scene.raw) == []


async def test_without_subscribers_no_event_is_written(scene: Scene) -> None:
    listener = await add_listener(scene.store, scene.organization.id)
    await scene.store.catalogue.delete_endpoint(listener.no)
    endpoint = await scene.endpoint()
    await scene.trip(endpoint)
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.DISABLED, "their wish")
    await scene.store.catalogue.delete_endpoint(endpoint.no)
    await scene.store.upkeep.sweep_deleted()
    assert await outbox_events(scene.raw) == []


# ── tenants, loops ──


@pytest.fixture
async def other(store: Store) -> Organization:
    return await store.catalogue.save_organization(factory.organization())


async def test_an_organization_gets_only_its_own_events(scene: Scene, other: Organization) -> None:
    theirs = await scene.store.catalogue.create_application(other.id, factory.new_application())
    listener = await add_listener(scene.store, other.id)
    mine = await scene.endpoint()
    assert await outbox_events(scene.raw) == []
    their_endpoint = await scene.endpoint(theirs)
    await add_listener(scene.store, scene.organization.id)
    await scene.store.catalogue.delete_endpoint(mine.no)
    assert [(each.org_id, each.type, each.data["endpointId"]) for each in await outbox_events(scene.raw)] == [
        (other.id, "endpoint.created", their_endpoint.id),
        (scene.organization.id, "endpoint.deleted", mine.id),
    ]
    assert (await scene.store.pipeline.relay(10)).relayed == 2
    jobs = await scene.claim_all()
    assert [job.event_type for job in jobs if job.endpoint_no == listener.no] == ["endpoint.created"]
    assert sorted(job.event_type for job in jobs) == ["endpoint.created", "endpoint.deleted"]


async def test_one_batch_of_two_organizations_sends_each_its_own_events(scene: Scene, other: Organization) -> None:
    theirs = await scene.store.catalogue.create_application(other.id, factory.new_application())
    await scene.endpoint()
    await scene.endpoint(theirs)
    await add_listener(scene.store, other.id)
    (mine,) = await scene.send()
    (his,) = [answer.message_id for answer in await scene.ingest([factory.new_message(theirs.no)])]
    jobs = await scene.claim_all()
    assert {job.message_id for job in jobs} == {mine, his}
    await scene.record(*(factory.dead(job) for job in jobs))
    assert [(each.org_id, each.data["msgId"]) for each in await outbox_events(scene.raw)] == [(other.id, his)]


async def test_changes_of_an_operational_endpoint_send_no_event(scene: Scene) -> None:
    """Neither its own organization nor the management organization gets an event, even with a subscription."""
    await add_listener(scene.store, MANAGEMENT)
    listener = await add_listener(scene.store, scene.organization.id)
    await scene.store.catalogue.change_endpoint(listener.no, EndpointChange(description="new"))
    endpoint = await scene.endpoint()
    assert await kinds(scene) == ["endpoint.created"]
    assert (await scene.store.pipeline.relay(10)).relayed == 1
    (job,) = await scene.claim_all()
    assert job.endpoint_no == listener.no
    await scene.record(factory.dead(job, Reason.ENDPOINT_GONE))
    await scene.store.catalogue.set_endpoint_status(listener.no, EndpointStatus.ACTIVE, "again")
    await scene.store.catalogue.delete_endpoint(listener.no)
    await scene.store.catalogue.delete_endpoint(endpoint.no)
    await scene.store.upkeep.sweep_deleted()
    assert await outbox_events(scene.raw) == []


# ── the outbox ──


async def test_an_event_that_is_relayed_again_is_dropped(scene: Scene) -> None:
    listener = await add_listener(scene.store, scene.organization.id)
    await scene.endpoint()
    (row,) = await scene.raw.rows("SELECT * FROM outbox")
    assert (await scene.store.pipeline.relay(10)).relayed == 1
    await scene.raw.execute(
        "INSERT INTO outbox (org_id, app, event_type, payload, event_id, created_at) VALUES ($1, $2, $3, $4, $5, $6)",
        *(row[name] for name in ("org_id", "app", "event_type", "payload", "event_id", "created_at")),
    )
    report = await scene.store.pipeline.relay(10)
    assert (report.relayed, report.repeated, report.set_aside) == (0, 1, 0)
    assert [job.endpoint_no for job in await scene.claim_all()] == [listener.no]


@pytest.mark.store_options(max_payload=10)
async def test_the_payload_limit_of_publishers_does_not_apply_to_events(scene: Scene) -> None:
    endpoint = await a_listened_endpoint(scene)
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.PAUSED, "\x01" * 5000)
    report = await scene.store.pipeline.relay(10)
    assert (report.relayed, report.set_aside) == (1, 0)


async def test_the_management_organization_does_not_count_as_a_second_one(scene: Scene) -> None:
    """A publisher that names no organization can ignore the management organization."""
    await scene.endpoint()
    await add_listener(scene.store, scene.organization.id)
    await scene.raw.execute(
        "INSERT INTO outbox (app, event_type, payload, created_at) VALUES ($1, $2, $3, $4)",
        scene.app.uid,
        "order.paid",
        b"{}",
        await scene.store.now(),
    )
    report = await scene.store.pipeline.relay(10)
    assert (report.relayed, report.set_aside) == (1, 0)


# ── operational endpoints ──


async def test_an_operational_endpoint_gets_only_its_subscribed_events(scene: Scene) -> None:
    some = await add_listener(scene.store, scene.organization.id, event_types=("endpoint.deleted",))
    every = await add_listener(scene.store, scene.organization.id)
    endpoint = await scene.endpoint()
    await scene.store.catalogue.delete_endpoint(endpoint.no)
    await scene.store.pipeline.relay(10)
    heard: dict[int, list[str]] = {}
    for job in await scene.claim_all():
        heard.setdefault(job.endpoint_no, []).append(job.event_type)
    assert heard == {some.no: ["endpoint.deleted"], every.no: ["endpoint.created", "endpoint.deleted"]}


async def test_concurrent_first_uses_create_the_management_organization_once(
    store: Store, second: Store, organization: Organization
) -> None:
    made = await asyncio.gather(*(add_listener(handle, organization.id) for handle in (store, second) * 4))
    assert len({endpoint.app_no for endpoint in made}) == 1
    assert len({endpoint.no for endpoint in made}) == 8
    app = await endpoints.operational_application(store, organization.id)
    assert app is not None
    assert (app.org_id, app.uid, app.no) == (MANAGEMENT, organization.id, made[0].app_no)
    names = [each.name for each in await store.catalogue.event_types(MANAGEMENT, Page(limit=100))]
    assert names == sorted(Kind)


async def test_a_refused_endpoint_leaves_nothing_behind(store: Store, organization: Organization) -> None:
    with pytest.raises(InvalidInput):
        await add_listener(store, organization.id, url="ftp://hooks.example.com/")
    assert await store.catalogue.organization(MANAGEMENT) is None


# ── dead letters ──


async def test_a_replay_sends_one_event_for_each_endpoint(scene: Scene) -> None:
    one, other = await a_listened_endpoint(scene), await scene.endpoint()
    await scene.send(3)
    await scene.record(*(factory.dead(job) for job in await scene.claim_all()))
    await clear_outbox(scene.raw)
    assert await scene.store.repair.replay(DeadFilter(org_id=scene.organization.id, endpoint_no=one.no), limit=2) == 2
    assert await scene.store.repair.replay(DeadFilter(org_id=scene.organization.id)) == 4
    found = await outbox_events(scene.raw)
    assert [each.type for each in found] == [Kind.DEAD_REPLAYED] * 3
    assert found[0].data == who(scene, one) | {"count": 2, "note": None}
    assert {each.data["endpointId"]: each.data["count"] for each in found[1:]} == {one.id: 1, other.id: 3}
    assert len({each.event_id for each in found}) == 3


async def test_a_resolution_sends_an_event_with_its_note(scene: Scene) -> None:
    endpoint = await a_listened_endpoint(scene)
    await scene.send(2)
    await scene.record(*(factory.dead(job) for job in await scene.claim_all()))
    await clear_outbox(scene.raw)
    everything = DeadFilter(org_id=scene.organization.id)
    assert await scene.store.repair.resolve(everything, "refunded by hand") == 2
    assert await scene.store.repair.resolve(everything, "again") == 0
    found = await only(scene)
    assert (found.type, found.data) == (
        Kind.DEAD_RESOLVED,
        who(scene, endpoint) | {"count": 2, "note": "refunded by hand"},
    )


async def test_dead_letters_of_organizations_without_subscribers_send_no_event(scene: Scene) -> None:
    await scene.endpoint()
    await scene.send(2)
    await scene.record(*(factory.dead(job) for job in await scene.claim_all()))
    assert await scene.store.repair.replay(DeadFilter(org_id=scene.organization.id), limit=1) == 1
    assert await scene.store.repair.resolve(DeadFilter(org_id=scene.organization.id), "enough") == 1
    assert await outbox_events(scene.raw) == []
