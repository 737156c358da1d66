"""`publish` on Django connections: atomic blocks, aliases, autocommit off, and query counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connections, transaction
from django.db.transaction import TransactionManagementError
from django.test.utils import CaptureQueriesContext, override_settings
from django.utils.connection import ConnectionProxy

from hookline.outbox import NotInTransaction, UnknownConnection, event, publish, publish_many
from tests.outbox.conftest import KINDS, Shop
from tests.outbox.desks import Desk, Django

pytestmark = [
    pytest.mark.filterwarnings("ignore:Accessing the database during app initialization"),
    pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.values[0][0] is Django], indirect=True),  # type: ignore[index]
]


async def test_djangos_connection_proxy_is_accepted(desk: Desk, shop: Shop) -> None:
    proxy = ConnectionProxy(connections, Django.alias)
    with pytest.raises(NotInTransaction, match=r"atomic\(using='shop'\)"):
        publish(proxy, "acme", "order.paid", {})
    with transaction.atomic(using=Django.alias):
        made = publish(proxy, "acme", "order.paid", {})
    assert shop.event_ids() == [made]


async def test_with_autocommit_off_there_is_always_a_transaction(desk: Desk, shop: Shop) -> None:
    transaction.set_autocommit(False, using=Django.alias)
    publish(desk.conn, "acme", "order.paid", {})
    transaction.rollback(using=Django.alias)
    made = publish(desk.conn, "acme", "order.paid", {})
    assert shop.outbox() == []
    transaction.commit(using=Django.alias)
    transaction.set_autocommit(True, using=Django.alias)
    assert shop.event_ids() == [made]


async def test_a_block_that_must_be_rolled_back_gives_djangos_own_error(desk: Desk, shop: Shop) -> None:
    with transaction.atomic(using=Django.alias):
        transaction.set_rollback(True, using=Django.alias)
        with pytest.raises(TransactionManagementError):
            publish(desk.conn, "acme", "order.paid", {})
    assert shop.outbox() == []


@pytest.fixture
def debug(desk: Desk) -> Iterator[None]:
    with override_settings(DEBUG=True):
        yield


async def test_django_counts_one_query_for_a_publish(desk: Desk, shop: Shop, debug: None) -> None:
    with transaction.atomic(using=Django.alias), CaptureQueriesContext(desk.conn) as counted:
        publish(desk.conn, "acme", "order.paid", {"share": "100%"})
        publish_many(desk.conn, [event("acme", "order.paid", {"n": n}) for n in range(3)])
    assert len(counted) == 2
    assert len(shop.outbox()) == 4


async def test_on_commit_callbacks_still_run(desk: Desk, shop: Shop) -> None:
    ran: list[int] = []
    with transaction.atomic(using=Django.alias):
        transaction.on_commit(lambda: ran.append(len(shop.outbox())), using=Django.alias)
        publish(desk.conn, "acme", "order.paid", {})
    assert ran == [1]


async def test_an_unsupported_database_is_refused(desk: Desk, shop: Shop) -> None:
    with transaction.atomic(using=Django.alias), desk.conn.cursor() as cursor:
        with pytest.raises(UnknownConnection, match="connection itself"):
            publish(cursor, "acme", "order.paid", {})
        with pytest.raises(UnknownConnection, match="PostgreSQL or SQLite, not mysql"):
            publish(_other_vendor(desk.conn), "acme", "order.paid", {})
    assert shop.outbox() == []


def _other_vendor(conn: Any) -> Any:
    mysql = type("DatabaseWrapper", (type(conn),), {"vendor": "mysql"})
    return mysql(conn.settings_dict, "mysql")
