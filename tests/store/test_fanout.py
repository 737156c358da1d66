"""The endpoints that get a message, by event type, channel, application and status."""

from __future__ import annotations

from typing import Any

import pytest

from hookline.model.endpoints import EndpointChange
from hookline.model.states import EndpointStatus
from hookline.store import Store
from tests.support import factory
from tests.support.scene import Scene


async def receivers(scene: Scene, **message: Any) -> set[int]:
    (message_id,) = await scene.send(**message)
    return {delivery.endpoint_no for delivery in await scene.store.history.deliveries(message_id)}


async def test_every_matching_endpoint_gets_its_own_delivery(scene: Scene) -> None:
    endpoints = {(await scene.endpoint()).no for _ in range(3)}
    assert await receivers(scene) == endpoints


async def test_an_endpoint_gets_only_the_event_types_it_names(scene: Scene) -> None:
    every = await scene.endpoint()
    some = await scene.endpoint(event_types=("order.paid", "order.lost"))
    assert await receivers(scene, event_type="order.paid") == {every.no, some.no}
    assert await receivers(scene, event_type="order.lost") == {every.no, some.no}
    assert await receivers(scene, event_type="order.paidx") == {every.no}
    assert await receivers(scene, event_type="order") == {every.no}


async def test_an_endpoint_without_event_types_left_gets_nothing(scene: Scene) -> None:
    await scene.endpoint(event_types=())
    assert await receivers(scene) == set()


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (None, {"any"}),
        (("eu",), {"any", "eu", "both"}),
        (("us", "apac"), {"any", "both"}),
        (("apac",), {"any"}),
        (("eu", "us"), {"any", "eu", "both"}),
    ],
)
async def test_channels_filter_the_messages_of_an_endpoint(
    scene: Scene, message: tuple[str, ...] | None, expected: set[str]
) -> None:
    filters: dict[str, tuple[str, ...] | None] = {"any": None, "eu": ("eu",), "both": ("eu", "us")}
    names = {(await scene.endpoint(channels=channels)).no: name for name, channels in filters.items()}
    assert {names[no] for no in await receivers(scene, channels=message)} == expected


async def test_event_types_and_channels_must_both_match(scene: Scene) -> None:
    await scene.endpoint(event_types=("order.lost",), channels=("eu",))
    assert await receivers(scene, event_type="order.paid", channels=("eu",)) == set()
    assert await receivers(scene, event_type="order.lost", channels=("us",)) == set()
    assert len(await receivers(scene, event_type="order.lost", channels=("us", "eu"))) == 1


async def test_a_message_stays_in_its_application(scene: Scene) -> None:
    own = await scene.endpoint()
    sibling = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())
    await scene.endpoint(sibling)
    assert await receivers(scene) == {own.no}


async def test_one_batch_serves_several_applications(scene: Scene) -> None:
    sibling = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())
    own, other = await scene.endpoint(), await scene.endpoint(sibling)
    batch = [factory.new_message(scene.app.no), factory.new_message(sibling.no)]
    await scene.ingest(batch)
    found = [{d.endpoint_no for d in await scene.store.history.deliveries(message.id)} for message in batch]
    assert found == [{own.no}, {other.no}]


async def test_a_paused_endpoint_gets_deliveries_a_disabled_or_deleted_one_does_not(scene: Scene) -> None:
    paused, disabled, deleted = [await scene.endpoint() for _ in range(3)]
    await scene.store.catalogue.set_endpoint_status(paused.no, EndpointStatus.PAUSED, "maintenance")
    await scene.store.catalogue.set_endpoint_status(disabled.no, EndpointStatus.DISABLED, "left us")
    await scene.store.catalogue.delete_endpoint(deleted.no)
    born_disabled = await scene.endpoint(status=EndpointStatus.DISABLED)
    assert born_disabled.status == EndpointStatus.DISABLED
    assert await receivers(scene) == {paused.no}


async def test_a_changed_filter_applies_from_the_next_message_on_for_every_worker(scene: Scene, second: Store) -> None:
    endpoint = await scene.endpoint(event_types=("order.paid",))
    assert await receivers(scene, event_type="order.lost") == set()
    await second.pipeline.ingest([factory.new_message(scene.app.no, event_type="order.lost")])
    await scene.store.catalogue.change_endpoint(endpoint.no, EndpointChange(event_types=("order.lost",)))
    (answer,) = await second.pipeline.ingest([factory.new_message(scene.app.no, event_type="order.lost")])
    assert answer.deliveries == 1
    assert await receivers(scene, event_type="order.paid") == set()
