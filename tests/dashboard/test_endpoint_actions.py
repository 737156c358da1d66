"""The buttons on an endpoint's page and their effects on the store, the timeline and the audit log."""

from __future__ import annotations

from datetime import timedelta

from hookline.model.actors import Actor, ActorKind
from hookline.model.lanes import LaneEventKind
from hookline.model.states import Circuit, EndpointStatus
from tests.dashboard.conftest import Client
from tests.dashboard.page_content import again, audited, notice, posting, verdict
from tests.support import factory
from tests.support.scene import Scene


async def test_pause_and_resume(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    page = await operator.done(f"/endpoints/{endpoint.id}/pause", cause="they move house")
    assert notice(page).startswith("Paused.")
    assert verdict(page).startswith("❚❚ Paused (they move house)")
    assert (await again(scene.store, endpoint)).status == EndpointStatus.PAUSED
    page = await operator.done(f"/endpoints/{endpoint.id}/resume")
    assert notice(page) == "The endpoint is active again."
    assert (await again(scene.store, endpoint)).status == EndpointStatus.ACTIVE
    resumed, paused = await audited(scene)
    assert (paused.action, paused.subject, paused.detail) == ("endpoint.pause", endpoint.id, "they move house")
    assert (resumed.action, resumed.app_id) == ("endpoint.resume", scene.app.id)
    event = (await scene.store.history.lane_events(endpoint.no, 1))[0]
    assert (event.kind, event.cause) == (LaneEventKind.ENDPOINT_RESUMED, "resumed in the dashboard")


async def test_the_audit_log_has_a_cause_in_one_line(portal: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    cause = "we move\n\x1b[31m house \u202e"
    assert (await portal.post(f"/portal/endpoints/{endpoint.id}/pause", cause=cause)).status == 303
    [paused] = await audited(scene)
    assert paused.detail == "we move  [31m house"


async def test_a_customer_pauses_in_their_portal(portal: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    answer = await portal.post(f"/portal/endpoints/{endpoint.id}/pause")
    assert answer.location == f"/portal/endpoints/{endpoint.id}"
    event = (await scene.store.history.lane_events(endpoint.no, 1))[0]
    assert event.actor == Actor(kind=ActorKind.PORTAL)
    assert event.cause == "paused in the portal"


async def test_an_operator_opens_and_closes_the_circuit(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await operator.done(f"/endpoints/{endpoint.id}/circuit/open", cause="flood", seconds="3600")
    lane = await scene.lane(endpoint)
    assert lane.circuit == Circuit.OPEN
    assert lane.probe_at is not None
    assert timedelta(minutes=55) < lane.probe_at - await scene.store.now() <= timedelta(hours=1)
    page = await operator.done(f"/endpoints/{endpoint.id}/circuit/close")
    assert notice(page).startswith("The circuit is closed.")
    assert (await scene.lane(endpoint)).circuit == Circuit.RECOVERING
    await operator.done(f"/endpoints/{endpoint.id}/circuit/reset")
    assert (await scene.lane(endpoint)).circuit == Circuit.CLOSED
    assert "nothing to reset" in notice(await operator.done(f"/endpoints/{endpoint.id}/circuit/reset"))
    assert "was not open" in notice(await operator.done(f"/endpoints/{endpoint.id}/circuit/close"))


async def test_a_circuit_is_opened_for_one_of_the_offered_durations(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    for seconds in ("1", "-5", "9999999", "x", "36000"):
        assert (await operator.post(f"/endpoints/{endpoint.id}/circuit/open", seconds=seconds)).status == 422, seconds
    assert (await scene.lane(endpoint)).circuit == Circuit.CLOSED


async def test_a_cause_that_is_too_long_changes_nothing(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    assert (await operator.post(f"/endpoints/{endpoint.id}/pause", cause="x" * 501)).status == 422
    assert (await again(scene.store, endpoint)).status == EndpointStatus.ACTIVE


async def test_a_test_event_goes_to_this_endpoint_alone(operator: Client, scene: Scene) -> None:
    event_type = await scene.store.catalogue.save_event_type(factory.event_type(scene.organization.id))
    endpoint, other = await scene.endpoint(), await scene.endpoint()
    page = await operator.page(f"/endpoints/{endpoint.id}")
    answer = await operator.submit(page.form(f"/endpoints/{endpoint.id}/test"), event_type=event_type.name)
    message_id = answer.location.rpartition("/")[2]
    [job] = await scene.claim_all()
    assert (job.message_id, job.endpoint_no) == (message_id, endpoint.no)
    assert other.no != job.endpoint_no
    assert (await operator.post(f"/endpoints/{endpoint.id}/test", event_type="no.such")).status == 422


async def test_delete_first_shows_what_it_deletes(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send(3)
    (job,) = await scene.claim(1)
    await scene.record(factory.dead(job))
    page = await operator.page(f"/endpoints/{endpoint.id}/delete")
    assert "turns 2 open deliveries into dead letters, and 1 dead letter can no longer be replayed" in verdict(page)
    answer = await operator.submit(posting(page, "/delete"))
    assert answer.location == "/endpoints"
    assert await scene.store.catalogue.endpoint(scene.app.no, endpoint.id) is None
    assert (await operator.get(f"/endpoints/{endpoint.id}")).status == 404
    await scene.store.upkeep.sweep_deleted()
    assert (await audited(scene))[0].detail == endpoint.url
