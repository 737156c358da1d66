"""For which endpoints a worker reserves slots before a transaction that accepts messages."""

from __future__ import annotations

from typing import Any

import pytest

from hookline.model.endpoints import Endpoint, Ordering
from hookline.model.messages import NewMessage
from hookline.model.states import EndpointStatus
from hookline.rules.claim.budgets import LARGE
from hookline.rules.claim.offers import MAX_ENDPOINTS, wanted
from tests.support import factory

APP = 7


def an_endpoint(no: int, **fields: Any) -> Endpoint:
    at = factory.instant()
    given = {name: getattr(factory.new_endpoint(), name) for name in ("url", "secrets", "scheme")}
    fixed = {"id": f"ep_{no}", "app_no": APP, "app_id": "app_7", "org_id": "org_3", "created_at": at, "updated_at": at}
    return Endpoint(no=no, **{**given, **fixed, **fields})


def wants(endpoints: list[Endpoint], *messages: NewMessage) -> dict[int, dict[int, int]]:
    return {
        app_no: dict(counts)
        for app_no, counts in wanted(messages, lambda _, most: endpoints if len(endpoints) <= most else []).items()
    }


def a_message(**fields: Any) -> NewMessage:
    return factory.new_message(APP, **{"event_type": "order.paid", "ordering_key": None, **fields})


def test_each_message_wants_a_slot_of_each_endpoint_that_gets_it() -> None:
    endpoints = [
        an_endpoint(1),
        an_endpoint(2, event_types=("order.paid",)),
        an_endpoint(3, event_types=("order.sent",)),
        an_endpoint(4, channels=("eu",)),
    ]
    messages = a_message(), a_message(channels=("eu", "us")), a_message(event_type="order.sent")
    assert wants(endpoints, *messages) == {APP: {1: 3, 2: 2, 3: 1, 4: 1}}


@pytest.mark.parametrize(
    "fields",
    [{"throttle_rate": 5.0}, {"concurrency": 3}, {"ordering": Ordering.FIFO}, {"status": EndpointStatus.PAUSED}],
    ids=str,
)
def test_an_endpoint_with_a_limit_or_an_order_gets_no_slot(fields: dict[str, Any]) -> None:
    assert wants([an_endpoint(1, **fields)], a_message()) == {APP: {}}


def test_a_message_with_an_ordering_key_gets_slots_only_where_the_order_does_not_matter() -> None:
    endpoints = [an_endpoint(1, ordering=Ordering.KEY), an_endpoint(2, ordering=Ordering.NONE)]
    assert wants(endpoints, a_message(ordering_key="a")) == {APP: {2: 1}}


def test_large_and_later_messages_and_applications_with_many_endpoints_get_no_slot() -> None:
    one = [an_endpoint(1)]
    assert wants(one, a_message(payload=b"x" * (LARGE + 1)), a_message(deliver_at=factory.instant())) == {}
    assert wants([an_endpoint(no) for no in range(MAX_ENDPOINTS + 1)], a_message()) == {}
