"""Views for pages and the API: messages, deliveries, attempts, lanes and counts."""

from __future__ import annotations

from hookline.model.attempts import AttemptFilter
from hookline.model.messages import MessageFilter
from hookline.model.states import Circuit, DeliveryState, EndpointStatus, Health
from hookline.store import Page, Store
from tests.support import factory
from tests.support.counts import count
from tests.support.scene import Scene


async def test_a_message_is_found_by_id_and_event_id_in_its_application(scene: Scene) -> None:
    await scene.ingest([factory.new_message(scene.app.no, event_id="evt-1")])
    found = await scene.store.history.message(scene.app.no, "evt-1")
    assert found is not None
    assert await scene.store.history.message(scene.app.no, found.id) == found
    assert await scene.store.history.message_by_id(found.id) == found
    sibling = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())
    assert await scene.store.history.message(sibling.no, found.id) is None
    assert await scene.store.history.message(sibling.no, "evt-1") is None
    assert await scene.store.history.message_by_id("msg_unknown") is None


async def test_messages_are_listed_newest_first_without_payload(scene: Scene) -> None:
    sent = sorted(await scene.send(5), reverse=True)
    listed = (await scene.store.history.messages(scene.app.no, MessageFilter(), Page(limit=2))).rows
    assert [message.id for message in listed] == sent[:2]
    assert {message.payload for message in listed} == {None}
    rest = (await scene.store.history.messages(scene.app.no, MessageFilter(), Page(limit=9, iterator=sent[1]))).rows
    assert [message.id for message in rest] == sent[2:]
    back = (
        await scene.store.history.messages(
            scene.app.no, MessageFilter(), Page(limit=2, iterator=sent[3], backwards=True)
        )
    ).rows
    assert {message.id for message in back} == set(sent[1:3])


async def test_messages_of_other_applications_are_not_listed(scene: Scene) -> None:
    sibling = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())
    await scene.ingest([factory.new_message(sibling.no)])
    assert (await scene.store.history.messages(scene.app.no, MessageFilter(), Page())).rows == []


async def test_deliveries_are_found_in_whichever_table_they_are_stored(scene: Scene) -> None:
    for _ in range(4):
        await scene.endpoint()
    (message,) = await scene.send()
    jobs = await scene.claim_all()
    await scene.record(factory.delivered(jobs[0]), factory.dead(jobs[1]), factory.retry(jobs[2]))
    found = {delivery.id: delivery for delivery in await scene.store.history.deliveries(message)}
    assert {job.delivery_id for job in jobs} == set(found)
    assert [found[job.delivery_id].state for job in jobs] == [
        DeliveryState.DELIVERED,
        DeliveryState.DEAD,
        DeliveryState.SCHEDULED,
        DeliveryState.DELIVERING,
    ]
    assert {delivery.accepted_at for delivery in found.values()} == {jobs[0].accepted_at}
    assert await scene.store.history.deliveries("msg_unknown") == []


async def test_attempts_of_an_endpoint_are_listed_newest_first(scene: Scene) -> None:
    endpoint, other = await scene.endpoint(), await scene.endpoint()
    await scene.send(5)
    jobs = await scene.claim_all()
    results = factory.all_delivered(jobs)
    await scene.record(*results)
    mine = sorted((result.attempt_id for result in results if result.job.endpoint_no == endpoint.no), reverse=True)
    listed = (await scene.store.history.endpoint_attempts(endpoint.no, AttemptFilter(), Page(limit=3))).rows
    assert [attempt.id for attempt in listed] == mine[:3]
    assert {attempt.endpoint_id for attempt in listed} == {endpoint.id}
    rest = (
        await scene.store.history.endpoint_attempts(endpoint.no, AttemptFilter(), Page(limit=3, iterator=mine[2]))
    ).rows
    assert [attempt.id for attempt in rest] == mine[3:]
    assert len((await scene.store.history.endpoint_attempts(other.no, AttemptFilter(), Page())).rows) == 5


async def test_a_lane_shows_its_backlog_and_its_oldest_delivery(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    (first,) = await scene.send()
    await scene.age(100)
    await scene.send(2)
    view = await scene.store.history.lane_view(endpoint.no)
    assert view is not None
    oldest = (await scene.delivery(first)).due_at
    assert (view.depth, view.oldest_due) == (3, oldest)
    assert (view.endpoint_id, view.url, view.app_id) == (endpoint.id, endpoint.url, scene.app.id)
    assert await scene.store.history.lane_view(987_654_321) is None


async def test_an_idle_lane_is_empty(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    view = await scene.store.history.lane_view(endpoint.no)
    assert view is not None
    assert (view.depth, view.oldest_due, view.lane.circuit) == (0, None, Circuit.CLOSED)


async def test_lanes_are_listed_by_organization_and_application(scene: Scene) -> None:
    sibling = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())
    stranger = await scene.store.catalogue.save_organization(factory.organization())
    theirs = await scene.store.catalogue.create_application(stranger.id, factory.new_application())
    own, next_door, foreign = await scene.endpoint(), await scene.endpoint(sibling), await scene.endpoint(theirs)

    async def nos(**where: object) -> set[int]:
        return {view.lane.endpoint_no for view in await scene.store.history.lanes(**where)}  # type: ignore[arg-type]

    assert await nos() == {own.no, next_door.no, foreign.no}
    assert await nos(org_id=scene.organization.id) == {own.no, next_door.no}
    assert await nos(app_no=sibling.no) == {next_door.no}
    assert await nos(org_id=stranger.id, app_no=sibling.no) == set()


async def test_events_of_a_lane_are_listed_newest_first(scene: Scene) -> None:
    endpoint, other = await scene.endpoint(), await scene.endpoint()
    for turn in range(4):
        status = EndpointStatus.PAUSED if turn % 2 == 0 else EndpointStatus.ACTIVE
        await scene.store.catalogue.set_endpoint_status(endpoint.no, status, f"turn {turn}")
    events = await scene.store.history.lane_events(endpoint.no, limit=3)
    assert [event.cause for event in events] == ["turn 3", "turn 2", "turn 1"]
    assert await scene.store.history.lane_events(other.no) == []


async def test_the_counts_of_an_empty_store_are_zero(store: Store) -> None:
    counts = await count(store)
    assert counts == (0, 0, 0, 0, 0)


async def test_deliveries_are_counted_by_state(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.trip(endpoint)
    await scene.endpoint(event_types=("b",))
    await scene.raw.execute("DELETE FROM delivery")
    await scene.raw.execute("DELETE FROM wake")
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.DISABLED, "only the other one")
    await scene.send(10, event_type="b")
    jobs = await scene.claim(9)
    await scene.record(
        factory.dead(jobs[0]),
        factory.delivered(jobs[1]),
        *(factory.retry(job, health=Health.NONE) for job in jobs[2:5]),
    )
    counts = await count(scene.store)
    assert (counts.pending, counts.scheduled, counts.delivering, counts.dead) == (1, 3, 4, 1)
