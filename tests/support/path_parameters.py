"""Create one of each object that a path of the API names. Every call creates new objects, because some operations
delete theirs."""

from __future__ import annotations

from hookline import ids
from hookline.model.catalogue import Organization
from hookline.model.dead import DeadFilter
from hookline.model.deliveries import SlotBudgets
from hookline.store import Page, Store
from tests.support import factory


async def create_path_parameters(store: Store, organization: Organization) -> dict[str, str]:
    """Create an application with an endpoint, a delivered message and a dead letter; return their ids by path
    parameter."""
    event_type = await store.catalogue.save_event_type(factory.event_type(organization.id))
    app = await store.catalogue.create_application(organization.id, factory.new_application())
    endpoint = await store.catalogue.create_endpoint(app.no, factory.new_endpoint())
    await store.pipeline.ingest(factory.new_messages(app.no, 2, event_type=event_type.name))
    batch = await store.pipeline.claim(1000, SlotBudgets(lane_limit=1000))
    delivered, dead = (job for job in batch.jobs if job.endpoint_no == endpoint.no)
    await store.pipeline.record([factory.delivered(delivered), factory.dead(dead)])
    letters = await store.repair.dead_letters(DeadFilter(org_id=organization.id, app_no=app.no), Page(limit=1))
    attempts = await store.history.attempts(delivered.message_id)
    return {
        "app_id": app.id,
        "attempt_id": attempts[0].id,
        "dead_letter_id": f"{ids.DEAD_LETTER}{letters[0].id}",
        "endpoint_id": endpoint.id,
        "event_type_name": event_type.name,
        "msg_id": delivered.message_id,
    }
