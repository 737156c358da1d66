"""An example message goes to one endpoint alone."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hookline.errors import NotFound
from hookline.model.states import DeliveryState, EndpointStatus
from tests.support import factory
from tests.support.scene import Scene


async def test_only_one_endpoint_gets_the_example_whatever_it_subscribes_to(scene: Scene) -> None:
    wanted = await scene.endpoint(event_types=("order.shipped",), channels=("eu",))
    others = [await scene.endpoint(), await scene.endpoint()]
    new = factory.new_message(scene.app.no)
    message = await scene.store.repair.send_example(wanted.no, new)
    assert (message.id, message.app_id, message.event_type, message.payload) == (
        new.id,
        scene.app.id,
        new.event_type,
        new.payload,
    )
    assert await scene.store.history.message(scene.app.no, new.id) == message
    (job,) = await scene.claim_all()
    assert (job.endpoint_no, job.message_id, job.payload, job.trigger) == (wanted.no, new.id, new.payload, 1)
    await scene.record(factory.delivered(job))
    assert await scene.state(new.id) == DeliveryState.DELIVERED

    now = await scene.store.now()
    for endpoint in (*others, wanted):
        assert await scene.replay_missing(endpoint, now - timedelta(hours=1), now + timedelta(hours=1)) == 0


async def test_a_missed_example_is_sent_again_to_its_endpoint(scene: Scene) -> None:
    """If its delivery is gone, a replay of missed messages may create another one, for this endpoint and no other."""
    wanted, other = await scene.endpoint(), await scene.endpoint()
    message = await scene.store.repair.send_example(wanted.no, factory.new_message(scene.app.no))
    await scene.raw.execute("DELETE FROM delivery")
    now = await scene.store.now()
    span = (now - timedelta(hours=1), now + timedelta(hours=1))
    assert await scene.replay_missing(other, *span) == 0
    assert await scene.replay_missing(wanted, *span) == 1
    assert (await scene.delivery(message.id)).endpoint_no == wanted.no


async def test_a_paused_endpoint_gets_the_example_when_it_is_resumed(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.PAUSED, "maintenance")
    message = await scene.store.repair.send_example(endpoint.no, factory.new_message(scene.app.no))
    assert await scene.claim_all() == []
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.ACTIVE, "done")
    assert [job.message_id for job in await scene.claim_all()] == [message.id]


async def test_an_example_for_an_unknown_endpoint_is_refused(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.store.catalogue.delete_endpoint(endpoint.no)
    for no in (endpoint.no, 10**6):
        with pytest.raises(NotFound):
            await scene.store.repair.send_example(no, factory.new_message(scene.app.no))
    assert await scene.raw.count("message") == 0
