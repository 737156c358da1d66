"""The outbox on both engines: rows copied from other databases, positions, and rows that are set aside."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from hookline.errors import InvalidInput
from hookline.model.outbox import OutboxPlace, OutboxRow, RelayReport
from hookline.model.policy import PolicyOverride
from hookline.rules.operational_events import MANAGEMENT
from hookline.store import Page, Store
from tests.store.test_relay import publish
from tests.support import factory
from tests.support.scene import Scene

SHOP, OTHER = "shop.db", "warehouse.db"


def row(scene: Scene, **fields: Any) -> OutboxRow:
    number = factory.number()
    given: dict[str, Any] = {
        "id": number,
        "app": scene.app.id,
        "event_type": "order.paid",
        "payload": b'{"n":%d}' % number,
        "event_id": f"evt-{number}",
    }
    return OutboxRow(**(given | fields))


def counts(report: RelayReport | None) -> tuple[int, int, int]:
    assert report is not None
    return report.relayed, report.repeated, report.set_aside


async def aside(scene: Scene) -> list[tuple[str | None, str]]:
    """Return the event id and reason of each row that was set aside."""
    return [(each.event_id, each.reason) for each in await scene.store.repair.set_aside(Page(limit=1000))]


# ── take ──


async def test_copying_no_rows_does_nothing(store: Store) -> None:
    assert await store.pipeline.take([], source=SHOP) == RelayReport()


async def test_every_field_of_a_copied_row_is_in_its_message(scene: Scene) -> None:
    endpoint = await scene.endpoint(channels=("eu",))
    deliver_at = await scene.store.now() + timedelta(hours=5)
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 a=1"
    copied = row(
        scene,
        event_type="order.shipped",
        payload=b'{ "as" : "it came" }',
        event_id="evt-3",
        org_id=scene.organization.id,
        channels=("eu", "us"),
        tags=("red",),
        ordering_key="customer-4",
        deliver_at=deliver_at,
        policy=PolicyOverride(max_age=60.5),
        trace=trace,
    )
    assert counts(await scene.store.pipeline.take([copied], source=SHOP)) == (1, 0, 0)
    found = await scene.store.history.message(scene.app.no, "evt-3")
    assert found is not None
    assert (found.event_type, found.payload) == ("order.shipped", b'{ "as" : "it came" }')
    assert (found.channels, found.tags, found.ordering_key) == (("eu", "us"), ("red",), "customer-4")
    assert (found.deliver_at, found.policy) == (deliver_at, PolicyOverride(max_age=60.5))
    assert await scene.raw.value("SELECT trace FROM message") == trace
    (delivery,) = await scene.store.history.deliveries(found.id)
    assert (delivery.endpoint_no, delivery.due_at) == (endpoint.no, deliver_at)


async def test_a_second_copy_is_dropped(scene: Scene) -> None:
    await scene.endpoint()
    rows = [row(scene), row(scene)]
    assert counts(await scene.store.pipeline.take(rows, source=SHOP)) == (2, 0, 0)
    assert counts(await scene.store.pipeline.take([*rows, row(scene)], source=SHOP)) == (1, 2, 0)
    assert await scene.raw.count("message") == await scene.raw.count("delivery") == 3


async def test_an_application_is_found_by_uid_as_in_the_relay(scene: Scene) -> None:
    named = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application(uid="acme"))
    rows = [row(scene, app="acme", event_id="only"), row(scene, app="acme", org_id=scene.organization.id)]
    assert counts(await scene.store.pipeline.take(rows, source=SHOP)) == (2, 0, 0)
    assert await scene.store.history.message(named.no, "only") is not None
    assert counts(await scene.store.pipeline.take([row(scene, app="acme", org_id="")], source=SHOP)) == (0, 0, 1)
    await scene.store.catalogue.save_organization(factory.organization())
    assert counts(await scene.store.pipeline.take([row(scene, app="acme")], source=SHOP)) == (0, 0, 1)


async def test_no_row_can_be_published_for_the_management_organization(scene: Scene) -> None:
    await scene.store.catalogue.save_organization(factory.organization(id=MANAGEMENT))
    own = await scene.store.catalogue.create_application(MANAGEMENT, factory.new_application(uid="own"))
    rows = [row(scene, app=own.id), row(scene, app=own.id, org_id=MANAGEMENT), row(scene, app="own", org_id=MANAGEMENT)]
    assert counts(await scene.store.pipeline.take(rows, source=SHOP)) == (0, 0, 3)
    await scene.store.repair.retry_set_aside(None)
    await publish(scene.raw, own.id)
    assert counts(await scene.store.pipeline.relay(10)) == (0, 0, 4)
    assert await scene.raw.count("message") == 0


HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"app": "app_nobody"}, "no such application: app_nobody"),
    ({"app": "a\x00b"}, "no such application: a"),
    ({"app": "a\ud800b"}, ""),
    ({"app": "x" * 100_000}, "no such application: x"),
    ({"event_type": "order.paid\r\nX-Injected: yes"}, "event type: "),
    ({"event_type": "a\x00"}, "event type: "),
    ({"event_id": "a\x00"}, "event_id: "),
    ({"event_id": "msg_1"}, "event_id: "),
    # too long for any index
    ({"event_id": "".join(chr(0x4E00 + n * 7919 % 20_000) for n in range(5000))}, "event_id: "),
    ({"payload": b"{not json"}, "payload: is not JSON"),
    ({"payload": b'"\xff"'}, "payload: is not UTF-8"),
    ({"payload": b"[" * 100_000}, "payload: is "),
    ({"payload": b'"' + b"x" * (1024 * 1024) + b'"'}, "payload: 1048578 bytes, more than 1048576"),
    ({"channels": ("",)}, "channels: "),
    ({"channels": ("a\x00",), "tags": ("\ud800",)}, "channels: "),
    ({"tags": ('"{},\\',) * 11}, "tags: "),
    ({"ordering_key": "\x00"}, "ordering_key: "),
    ({"policy": PolicyOverride(max_age=float("inf"))}, "policy.max_age: "),
    ({"org_id": "org_\x00"}, "no such application: "),
    ({"trace": "\x00", "fault": "deliver_at: 'soon' is no instant"}, "deliver_at: 'soon' is no instant"),
]


@pytest.mark.parametrize(("fields", "reason"), HOSTILE, ids=lambda value: value if isinstance(value, str) else "")
async def test_an_invalid_row_is_set_aside_and_the_others_are_relayed(
    scene: Scene, fields: dict[str, Any], reason: str
) -> None:
    rows = [row(scene), row(scene, **fields), row(scene)]
    report = await scene.store.pipeline.take(rows, source=SHOP)
    assert counts(report) == (2, 0, 1)
    (kept,) = await scene.store.repair.set_aside(Page())
    assert kept.reason.startswith(reason)
    assert report is not None
    assert report.reasons == (kept.reason,)
    assert (kept.source, kept.payload) == (SHOP, rows[1].payload)
    assert kept.set_aside_at is not None


async def test_a_second_copy_of_a_row_that_was_set_aside_is_dropped(scene: Scene) -> None:
    bad = row(scene, app="app_nobody")
    assert counts(await scene.store.pipeline.take([bad], source=SHOP)) == (0, 0, 1)
    assert counts(await scene.store.pipeline.take([bad, row(scene)], source=SHOP)) == (1, 1, 0)
    assert counts(await scene.store.pipeline.take([bad], source=OTHER)) == (0, 0, 1)
    assert await scene.raw.count("outbox") == 2


async def test_one_poisoned_row_among_many_is_set_aside(scene: Scene) -> None:
    await scene.endpoint()
    rows = [row(scene) for _ in range(500)]
    rows[333] = row(scene, event_id="bad", channels=("no such thing \x00",))
    assert counts(await scene.store.pipeline.take(rows, source=SHOP)) == (499, 0, 1)
    assert [name for name, _ in await aside(scene)] == ["bad"]


async def test_rows_with_a_key_keep_their_order(scene: Scene) -> None:
    await scene.endpoint()
    rows = [row(scene, ordering_key="k", event_id=f"evt-{n}") for n in range(20)]
    assert counts(await scene.store.pipeline.take(rows[:10], source=SHOP)) == (10, 0, 0)
    assert counts(await scene.store.pipeline.take(rows[10:], source=SHOP)) == (10, 0, 0)
    found = await scene.raw.rows("SELECT event_id FROM message ORDER BY seq")
    assert [each["event_id"] for each in found] == [each.event_id for each in rows]


async def test_copied_rows_wake_their_lanes(scene: Scene) -> None:
    await scene.endpoint()
    await scene.store.pipeline.arm()
    waiting = asyncio.create_task(scene.store.pipeline.wait(120))
    await scene.store.pipeline.take([row(scene)], source=SHOP)
    await asyncio.wait_for(waiting, 60)
    assert len(await scene.claim()) == 1


# ── positions ──


def place(row_id: int, uid: str) -> OutboxPlace:
    return OutboxPlace(row_id=row_id, row_uid=uid)


async def test_the_position_is_stored_with_its_rows(scene: Scene) -> None:
    store = scene.store
    assert await store.pipeline.place(SHOP) is None
    assert counts(await store.pipeline.take([row(scene)], source=SHOP, place=place(7, "seven"))) == (1, 0, 0)
    assert (await store.pipeline.place(SHOP), await store.pipeline.place(OTHER)) == (place(7, "seven"), None)
    later = await store.pipeline.take([row(scene)], source=SHOP, place=place(9, "nine"), after=place(7, "seven"))
    assert counts(later) == (1, 0, 0)
    assert await store.pipeline.place(SHOP) == place(9, "nine")


@pytest.mark.parametrize("after", [None, place(7, "another"), place(6, "seven"), place(3, "three")])
async def test_a_copy_from_an_outdated_position_does_nothing(scene: Scene, after: OutboxPlace | None) -> None:
    await scene.store.pipeline.take([row(scene)], source=SHOP, place=place(7, "seven"))
    rows = [row(scene), row(scene, app="app_nobody")]
    assert await scene.store.pipeline.take(rows, source=SHOP, place=place(9, "nine"), after=after) is None
    assert await scene.store.pipeline.place(SHOP) == place(7, "seven")
    assert (await scene.raw.count("message"), await scene.raw.count("outbox")) == (1, 0)


async def test_a_position_that_was_never_stored_cannot_be_moved(scene: Scene) -> None:
    rows = [row(scene)]
    assert await scene.store.pipeline.take(rows, source=SHOP, place=place(9, "nine"), after=place(7, "seven")) is None
    assert await scene.raw.count("message") == 0


async def test_a_position_may_move_back(scene: Scene) -> None:
    """The position moves back after the file was restored from a backup."""
    await scene.store.pipeline.take([], source=SHOP, place=place(900, "late"))
    taken = await scene.store.pipeline.take(
        [row(scene)], source=SHOP, place=place(2, "early"), after=place(900, "late")
    )
    assert counts(taken) == (1, 0, 0)
    assert await scene.store.pipeline.place(SHOP) == place(2, "early")


@pytest.mark.parametrize("after", [None, place(7, "seven")])
async def test_only_one_of_many_concurrent_copies_succeeds(
    scene: Scene, second: Store, after: OutboxPlace | None
) -> None:
    if after is not None:
        await scene.store.pipeline.take([], source=SHOP, place=after)
    same = row(scene)
    found = await asyncio.gather(
        *(
            handle.pipeline.take([same], source=SHOP, place=place(8, "eight"), after=after)
            for _ in range(4)
            for handle in (scene.store, second)
        )
    )
    assert [counts(each) for each in found if each is not None] == [(1, 0, 0)]
    assert await scene.raw.count("message") == 1


# ── set aside ──


async def test_the_same_event_id_in_two_organizations_is_two_rows(scene: Scene) -> None:
    """Two organizations may both have a customer acme and an order 1. Neither event is a copy of the other."""
    for org_id in ("org_a", None, "org_b"):
        same = row(scene, app="acme", event_id="order-1", org_id=org_id)
        assert counts(await scene.store.pipeline.take([same], source=SHOP)) == (0, 0, 1)
        assert counts(await scene.store.pipeline.take([same], source=SHOP)) == (0, 1, 0)
    assert [each.org_id for each in await scene.store.repair.set_aside(Page())] == ["org_a", None, "org_b"]


async def test_long_event_ids_that_differ_only_at_the_end_are_two_rows(scene: Scene) -> None:
    for end in ("a", "b"):
        assert counts(await scene.store.pipeline.take([row(scene, event_id="x" * 5000 + end)], source=SHOP)) == (
            0,
            0,
            1,
        )
        assert counts(await scene.store.pipeline.take([row(scene, event_id="x" * 5000 + end)], source=SHOP)) == (
            0,
            1,
            0,
        )


async def test_rows_that_were_set_aside_are_listed_by_number(scene: Scene) -> None:
    for n in range(5):
        await publish(scene.raw, "app_nobody", event_id=f"evt-{n}")
    await scene.store.pipeline.relay(10)
    everything = await scene.store.repair.set_aside(Page())
    assert [each.event_id for each in everything] == [f"evt-{n}" for n in range(5)]
    assert {each.source for each in everything} == {None}
    second, third, fourth = everything[1:4]
    assert await scene.store.repair.set_aside(Page(limit=2, iterator=str(second.id))) == [third, fourth]
    assert await scene.store.repair.set_aside(Page(limit=2, iterator=str(fourth.id), backwards=True)) == [second, third]
    assert await scene.store.repair.set_aside(Page(limit=1, backwards=True)) == everything[-1:]
    assert await scene.store.repair.set_aside(Page(iterator=str(everything[-1].id))) == []


@pytest.mark.parametrize("iterator", ["", "-1", "evt-1", "1 ", "٣", "9" * 30, "1\x00"])
async def test_an_iterator_that_is_no_number_is_refused(store: Store, iterator: str) -> None:
    with pytest.raises(InvalidInput, match="iterator"):
        await store.repair.set_aside(Page(iterator=iterator))


async def test_a_retried_row_is_relayed_after_its_error_is_corrected(scene: Scene) -> None:
    await scene.store.pipeline.take([row(scene, app="acme", event_id="copied")], source=SHOP)
    await publish(scene.raw, "acme", event_id="own")
    await scene.store.pipeline.relay(10)
    first, second = await scene.store.repair.set_aside(Page())
    assert await scene.store.repair.retry_set_aside([second.id, 10**15]) == 1
    assert counts(await scene.store.pipeline.relay(10)) == (0, 0, 1)
    named = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application(uid="acme"))
    assert await scene.store.repair.retry_set_aside(None) == 2
    assert await scene.store.repair.retry_set_aside(None) == 0
    assert await scene.store.repair.set_aside(Page()) == []
    assert counts(await scene.store.pipeline.relay(10)) == (2, 0, 0)
    for event_id in ("own", "copied"):
        assert await scene.store.history.message(named.no, event_id) is not None
    assert {first.event_id, second.event_id} == {"own", "copied"}


async def test_only_discarded_rows_are_deleted(scene: Scene) -> None:
    for n in range(3):
        await publish(scene.raw, "app_nobody", event_id=f"evt-{n}")
    await scene.store.pipeline.relay(10)
    await publish(scene.raw, scene.app.id, event_id="waiting")
    listed = await scene.store.repair.set_aside(Page())
    waiting = await scene.raw.value("SELECT id FROM outbox WHERE error IS NULL")
    assert await scene.store.repair.discard_set_aside([listed[1].id, waiting, 10**15]) == 1
    assert await scene.store.repair.discard_set_aside([]) == 0
    assert [name for name, _ in await aside(scene)] == ["evt-0", "evt-2"]
    assert counts(await scene.store.pipeline.relay(10)) == (1, 0, 0)


async def test_the_overview_of_the_outbox_counts_waiting_and_set_aside_rows(scene: Scene) -> None:
    view = await scene.store.repair.outbox()
    assert (view.waiting, view.oldest, view.set_aside) == (0, None, 0)
    first = await scene.store.now() - timedelta(minutes=7)
    await publish(scene.raw, "app_nobody", created_at=first - timedelta(hours=1))
    await scene.store.pipeline.relay(10)
    await publish(scene.raw, scene.app.id, created_at=first)
    await publish(scene.raw, scene.app.id, created_at=first + timedelta(minutes=2))
    view = await scene.store.repair.outbox()
    assert (view.waiting, view.oldest, view.set_aside) == (2, first, 1)


# ── wait ──


async def test_a_wait_ends_and_can_be_cancelled_at_any_time(store: Store) -> None:
    await store.pipeline.leave_outbox()
    for _ in range(3):
        await asyncio.wait_for(store.pipeline.wait_outbox(0.01), 60)
    waiting = asyncio.create_task(store.pipeline.wait_outbox(120))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await store.pipeline.leave_outbox()
    await asyncio.wait_for(store.pipeline.wait_outbox(0.01), 60)
