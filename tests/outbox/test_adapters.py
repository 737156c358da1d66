"""`publish` behaves the same on every kind of connection, with real databases."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from hookline import clock
from hookline.model.outbox import OutboxPlace
from hookline.outbox import InvalidInput, NotInTransaction, UnknownConnection, event, marker
from tests.outbox.conftest import KINDS, PostgresShop, Shop
from tests.outbox.desks import Desk

pytestmark = pytest.mark.filterwarnings("ignore:Accessing the database during app initialization")

ORDER = "INSERT INTO orders VALUES (7)"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 vendor=x"


async def test_commit_keeps_the_order_and_its_event(desk: Desk, shop: Shop) -> None:
    await desk.begin()
    await desk.execute(ORDER)
    made = await desk.publish("acme", "order.paid", {"order": 7})
    assert (shop.orders(), shop.outbox()) == (0, [])  # Nothing is committed yet.
    await desk.commit()
    assert (shop.orders(), shop.event_ids()) == (1, [made])


async def test_rollback_keeps_neither_the_order_nor_its_event(desk: Desk, shop: Shop) -> None:
    await desk.begin()
    await desk.execute(ORDER)
    await desk.publish("acme", "order.paid", {"order": 7})
    await desk.rollback()
    assert (shop.orders(), shop.outbox()) == (0, [])


async def test_the_event_may_be_all_that_a_transaction_writes(desk: Desk, shop: Shop) -> None:
    await desk.begin()
    await desk.publish("acme", "order.paid", {"order": 7})
    await desk.rollback()
    await desk.begin()
    made = await desk.publish("acme", "order.paid", {"order": 8})
    assert shop.outbox() == []
    await desk.commit()
    assert shop.event_ids() == [made]


async def test_a_savepoint_rolls_back_only_its_own_events(desk: Desk, shop: Shop) -> None:
    async def publish(event_id: str) -> None:
        await desk.publish("acme", "order.paid", {}, event_id=event_id)

    await desk.begin()
    await desk.execute(ORDER)
    await publish("before")
    await desk.nested(lambda: publish("undone"), undo=True)
    await desk.nested(lambda: publish("kept"), undo=False)
    await publish("after")
    await desk.commit()
    assert shop.event_ids() == ["before", "kept", "after"]


async def test_a_connection_that_commits_by_itself_is_refused(desk: Desk, shop: Shop) -> None:
    await desk.commit_by_itself()
    with pytest.raises(NotInTransaction) as refused:
        await desk.publish("acme", "order.paid", {"order": 7})
    assert "commit" in str(refused.value)
    assert shop.outbox() == []
    await desk.execute(ORDER)  # The connection is still usable.
    assert shop.orders() == 1


async def test_an_invalid_event_is_refused_and_the_transaction_stays_usable(desk: Desk, shop: Shop) -> None:
    await desk.begin()
    await desk.execute(ORDER)
    for wrong in ({"payload": {"at": object()}}, {"payload": {}, "event_id": "no spaces"}):
        with pytest.raises(InvalidInput):
            await desk.publish("acme", "order.paid", **wrong)
    made = await desk.publish("acme", "order.paid", {"order": 7})
    await desk.commit()
    assert (shop.orders(), shop.event_ids()) == (1, [made])


async def test_events_are_stored_in_the_order_given(desk: Desk, shop: Shop) -> None:
    await desk.begin()
    assert await desk.publish_many([]) == []
    ids = await desk.publish_many([event("acme", "order.paid", {"n": n}) for n in range(40)])
    ids += await desk.publish_many([event("acme", "order.paid", {"n": 40})])
    await desk.commit()
    rows = shop.outbox()
    assert [json.loads(row["payload"]) for row in rows] == [{"n": n} for n in range(41)]
    assert [row["event_id"] for row in rows] == ids
    assert len(set(ids)) == 41


PAYLOAD = {"text": "naïve 漢字 😀 100% %s :x ? $1 \\ \" ' \x00 \x7f </script>", "n": [1, 2.5, None, True]}


def _fields() -> dict[str, Any]:
    return {
        "event_id": "order-7.paid",
        "channels": ["eu", "b2b"],
        "tags": ["a,b", 'q"{}'],
        "ordering_key": "café/7 %s",
        "deliver_at": (clock.wall() + timedelta(days=2)).replace(microsecond=123456),
        "max_age": timedelta(minutes=1),
        "organization": "org_shop",
        "trace": TRACE,
    }


def _bytes(payload: str | bytes) -> bytes:
    return payload.encode() if isinstance(payload, str) else payload


async def test_every_field_is_in_the_row(desk: Desk, shop: Shop) -> None:
    given = _fields()
    await desk.begin()
    assert await desk.publish("acme", "order.paid", PAYLOAD, **given) == "order-7.paid"
    await desk.commit()
    [row] = shop.outbox()
    assert (row["app"], row["event_type"]) == ("acme", "order.paid")
    assert json.loads(row["payload"]) == PAYLOAD
    assert row["event_id"] == "order-7.paid"
    assert (row["channels"], row["tags"]) == (["eu", "b2b"], ["a,b", 'q"{}'])
    assert (row["ordering_key"], row["trace"]) == ("café/7 %s", TRACE)
    if shop.engine == "sqlite":
        assert datetime.fromisoformat(row["deliver_at"]) == given["deliver_at"]
        assert (row["max_age"], row["organization"]) == (60.0, "org_shop")
    else:
        assert row["deliver_at"] == given["deliver_at"]
        assert (row["policy"], row["org_id"]) == ({"max_age": 60.0}, "org_shop")


async def test_optional_fields_may_be_omitted(desk: Desk, shop: Shop) -> None:
    await desk.begin()
    made = await desk.publish("acme", "order.paid", None)
    await desk.commit()
    [row] = shop.outbox()
    left_out = (
        "channels",
        "tags",
        "ordering_key",
        "deliver_at",
        "trace",
        "org_id",
        "organization",
        "max_age",
        "policy",
    )
    assert [row[name] for name in left_out if row.get(name) is not None] == []
    assert _bytes(row["payload"]) == b"null"
    assert row["event_id"] == made


async def test_a_payload_of_bytes_is_stored_without_changes(desk: Desk, shop: Shop) -> None:
    given = ' {"b": 1.0e3,"a":"\\u00e9 é \\/", "b":2}\n'.encode()
    await desk.begin()
    await desk.publish("acme", "order.paid", given)
    await desk.commit()
    assert _bytes(shop.outbox()[0]["payload"]) == given


async def test_the_error_names_the_async_or_sync_variant(desk: Desk, shop: Shop) -> None:
    await desk.begin()
    desk.is_async = not desk.is_async
    with pytest.raises(UnknownConnection, match=r"call the function whose name") as refused:
        await desk.publish("acme", "order.paid", {})
    assert ("name ends in _async" in str(refused.value)) != desk.is_async
    await desk.commit()
    assert shop.outbox() == []


async def test_a_missing_outbox_gives_the_drivers_own_error_with_a_hint(desk: Desk, shop: Shop) -> None:
    await desk.begin()
    await desk.execute(ORDER)
    if isinstance(shop, PostgresShop):
        await desk.execute("ALTER SCHEMA hookline RENAME TO elsewhere")
    else:
        await desk.execute("DROP TABLE hookline_outbox")
    with pytest.raises(Exception, match="hookline") as failed:
        await desk.publish("acme", "order.paid", {})
    assert type(failed.value).__module__.partition(".")[0] == type(desk.conn).__module__.partition(".")[0]
    assert "hookline outbox sql" in "\n".join(failed.value.__notes__)
    await desk.rollback()
    assert shop.outbox() == []


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "sqlite" in str(kind.id)], indirect=True)
async def test_on_sqlite_the_next_publish_deletes_relayed_rows(desk: Desk, shop: Shop) -> None:
    await desk.begin()
    ids = await desk.publish_many([event("acme", "order.paid", {"n": n}) for n in range(3)])
    await desk.commit()
    relayed = shop.outbox()[1]
    marker.write(shop.url, OutboxPlace(row_id=relayed["id"], row_uid=relayed["uid"]))
    await desk.begin()
    await desk.publish("acme", "order.paid", {})
    await desk.rollback()
    assert shop.event_ids() == ids
    await desk.begin()
    made = await desk.publish("acme", "order.paid", {})
    await desk.commit()
    assert shop.event_ids() == [ids[2], made]
