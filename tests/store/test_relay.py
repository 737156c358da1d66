"""The outbox in Hookline's own database: each row becomes one message, or is set aside with a reason."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

from hookline.model.policy import PolicyOverride
from hookline.store import Store
from tests.support import factory
from tests.support.raw import Raw
from tests.support.scene import Scene


async def publish(raw: Raw, app: str, **fields: Any) -> None:
    """Insert a row as an application's own transaction does."""
    given: dict[str, Any] = {
        "app": app,
        "event_type": "order.paid",
        "payload": b'{"n":%d}' % factory.number(),
        "created_at": await raw.now(),
    } | fields
    if raw.engine == "sqlite":
        given = {name: json.dumps(value) if isinstance(value, list) else value for name, value in given.items()}
    slots = ", ".join(f"${n}" for n in range(1, len(given) + 1))
    chosen = "OVERRIDING SYSTEM VALUE " if raw.engine == "postgres" else ""
    await raw.execute(f"INSERT INTO outbox ({', '.join(given)}) {chosen}VALUES ({slots})", *given.values())


async def test_relaying_an_empty_outbox_does_nothing(store: Store) -> None:
    report = await store.pipeline.relay(10)
    assert (report.relayed, report.repeated, report.set_aside) == (0, 0, 0)


async def test_every_field_of_a_row_is_in_its_message(scene: Scene) -> None:
    endpoint = await scene.endpoint(channels=("eu",))
    deliver_at = await scene.store.now() + timedelta(hours=5)
    await publish(
        scene.raw,
        scene.app.id,
        event_type="order.shipped",
        payload=b'{ "as" : "it came" }',
        event_id="evt-3",
        channels=["eu", "us"],
        tags=["red"],
        ordering_key="customer-4",
        deliver_at=deliver_at,
        policy='{"max_age": 60.5, "max_attempts": 3}',
    )
    assert (await scene.store.pipeline.relay(10)).relayed == 1
    found = await scene.store.history.message(scene.app.no, "evt-3")
    assert found is not None
    assert (found.event_type, found.payload) == ("order.shipped", b'{ "as" : "it came" }')
    assert (found.channels, found.tags, found.ordering_key) == (("eu", "us"), ("red",), "customer-4")
    assert (found.deliver_at, found.policy) == (deliver_at, PolicyOverride(max_age=60.5, max_attempts=3))
    (delivery,) = await scene.store.history.deliveries(found.id)
    assert (delivery.endpoint_no, delivery.due_at) == (endpoint.no, deliver_at)
    assert delivery.expires_at == deliver_at + timedelta(seconds=60.5)


async def test_a_relayed_row_is_not_relayed_again(scene: Scene) -> None:
    await scene.endpoint()
    await publish(scene.raw, scene.app.id)
    assert (await scene.store.pipeline.relay(10)).relayed == 1
    assert (await scene.store.pipeline.relay(10)).relayed == 0
    assert await scene.raw.count("message") == 1
    assert len(await scene.claim()) == 1


async def test_no_more_rows_than_the_limit_are_relayed(scene: Scene) -> None:
    for _ in range(5):
        await publish(scene.raw, scene.app.id)
    assert [(await scene.store.pipeline.relay(2)).relayed for _ in range(4)] == [2, 2, 1, 0]


async def test_a_row_names_its_application_by_uid(scene: Scene) -> None:
    named = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application(uid="acme"))
    await publish(scene.raw, "acme", org_id=scene.organization.id, event_id="by-org")
    await publish(scene.raw, "acme", event_id="only-org")
    assert (await scene.store.pipeline.relay(10)).relayed == 2
    assert await scene.store.history.message(named.no, "by-org") is not None
    assert await scene.store.history.message(named.no, "only-org") is not None


async def test_a_uid_without_its_organization_is_set_aside_where_there_are_two(scene: Scene) -> None:
    await scene.store.catalogue.create_application(scene.organization.id, factory.new_application(uid="acme"))
    await scene.store.catalogue.save_organization(factory.organization())
    await publish(scene.raw, "acme")
    await publish(scene.raw, scene.app.id)
    report = await scene.store.pipeline.relay(10)
    assert (report.relayed, report.set_aside) == (1, 1)


async def test_a_row_of_another_organization_does_not_reach_this_application(scene: Scene) -> None:
    stranger = await scene.store.catalogue.save_organization(factory.organization())
    await publish(scene.raw, scene.app.id, org_id=stranger.id)
    report = await scene.store.pipeline.relay(10)
    assert (report.relayed, report.set_aside) == (0, 1)
    assert report.reasons == (f"no such application: {scene.app.id} in the organization {stranger.id}",)


async def test_a_report_has_each_reason_once(scene: Scene) -> None:
    for app in ("nobody", "nobody", "nobody", "no-one"):
        await publish(scene.raw, app)
    report = await scene.store.pipeline.relay(10)
    assert (report.set_aside, report.reasons) == (4, ("no such application: nobody", "no such application: no-one"))


@pytest.mark.parametrize(
    "bad",
    [
        {"app": "app_nobody"},
        {"policy": '{"max_age": "soon"}'},
        {"policy": '{"colour": "red"}'},
        {"policy": '{"max_attempts": 0}'},
        {"payload": b"{not json"},
        {"payload": b'"' + b"x" * (1024 * 1024) + b'"'},
        {"event_type": "order.paid\r\nX-Injected: yes"},
    ],
    ids=[
        "no application",
        "wrong value",
        "unknown field",
        "out of bounds",
        "not JSON",
        "too large",
        "header injection",
    ],
)
async def test_a_row_that_cannot_become_a_message_is_set_aside_with_its_reason(
    scene: Scene, bad: dict[str, Any]
) -> None:
    await publish(scene.raw, **({"app": scene.app.id} | bad))
    await publish(scene.raw, scene.app.id, event_id="good")
    report = await scene.store.pipeline.relay(10)
    assert (report.relayed, report.set_aside) == (1, 1)
    assert await scene.store.history.message(scene.app.no, "good") is not None
    assert report.reasons == (await scene.raw.value("SELECT error FROM outbox"),)
    assert (await scene.store.pipeline.relay(10)).set_aside == 0


async def test_rows_that_were_set_aside_do_not_count_for_the_limit(scene: Scene) -> None:
    for _ in range(5):
        await publish(scene.raw, "app_nobody")
    await publish(scene.raw, scene.app.id)
    reports = [await scene.store.pipeline.relay(2) for _ in range(4)]
    assert sum(report.relayed for report in reports) == 1
    assert sum(report.set_aside for report in reports) == 5


async def test_a_row_with_an_existing_event_id_is_dropped(scene: Scene) -> None:
    await scene.endpoint()
    await scene.ingest([factory.new_message(scene.app.no, event_id="evt-1")])
    for name in ("evt-1", "evt-2", "evt-2"):
        await publish(scene.raw, scene.app.id, event_id=name)
    report = await scene.store.pipeline.relay(10)
    assert (report.relayed, report.repeated, report.set_aside) == (1, 2, 0)
    assert await scene.raw.count("message") == await scene.raw.count("delivery") == 2
    assert (await scene.store.pipeline.relay(10)).repeated == 0


async def test_a_row_with_a_lower_id_that_commits_late_is_relayed(scene: Scene) -> None:
    await publish(scene.raw, scene.app.id, id=1000, event_id="first-to-commit")
    assert (await scene.store.pipeline.relay(10)).relayed == 1
    await publish(scene.raw, scene.app.id, id=500, event_id="late")
    assert (await scene.store.pipeline.relay(10)).relayed == 1
    assert await scene.store.history.message(scene.app.no, "late") is not None


async def test_a_rolled_back_transaction_sends_nothing(scene: Scene) -> None:
    await scene.endpoint()
    await scene.raw.execute("BEGIN")
    await publish(scene.raw, scene.app.id)
    await scene.raw.execute("ROLLBACK")
    assert (await scene.store.pipeline.relay(10)).relayed == 0
    assert await scene.claim() == []


async def test_two_relays_take_each_row_once(scene: Scene, second: Store) -> None:
    for _ in range(30):
        await publish(scene.raw, scene.app.id)
    relayed = 0
    for _ in range(3):  # all calls may read the same ten rows, but only one of them moves a row
        reports = await asyncio.gather(
            *(handle.pipeline.relay(10) for _ in range(4) for handle in (scene.store, second))
        )
        relayed += sum(report.relayed for report in reports)
    assert relayed == 30
    assert await scene.raw.count("message") == 30
    assert await scene.raw.count("outbox", "error IS NULL") == 0
