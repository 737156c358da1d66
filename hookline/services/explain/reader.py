"""Read the history of a message from the database, in a bounded number of queries."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from hookline.model.attempts import Attempt, AttemptFilter
from hookline.model.deliveries import Delivery
from hookline.model.lanes import LaneEvent, LaneEventFilter
from hookline.model.messages import Message
from hookline.model.states import OPEN, DeliveryState
from hookline.services import lane_events
from hookline.services.explain.model import DeliveryHistory, MessageHistory
from hookline.services.explain.times import HOLDS
from hookline.store import Page, Store

MAX_DETAILED = 50  # maximum number of deliveries that are read with all details
MAX_EVENTS = 200  # maximum number of lane events that are read for one delivery
MAX_WALKS = 5  # maximum number of queries that read lane events of one endpoint
MAX_ATTEMPTS = 500  # if `read` leaves out responses: maximum number of attempts of a message that are read


async def read(
    store: Store, message: Message, org_id: str, *, limit: int | None = None, content: bool = True
) -> MessageHistory:
    """Read the history of a message, with details of at most `limit` deliveries.

    With `content`, read all attempts with the responses of the endpoints. Without `content`, read only the newest
    `MAX_ATTEMPTS` attempts, without responses.
    """
    deliveries = await store.history.deliveries(message.id)
    attempts = await store.history.attempts(message.id) if content else await _outlines(store, message)
    # Successful deliveries come last, so that `limit` cuts off their details first.
    by_rank = sorted(deliveries, key=lambda each: (each.state == DeliveryState.DELIVERED, each.id))
    limit = MAX_DETAILED if limit is None else limit
    chosen = sorted(by_rank[:limit], key=lambda each: each.id)
    return MessageHistory(
        message=message,
        now=await store.now(),
        deliveries=[await _detailed(store, each, attempts, org_id) for each in chosen],
        others=by_rank[limit:],
        org_id=org_id,
    )


async def _outlines(store: Store, message: Message) -> list[Attempt]:
    newest = await store.history.message_attempts(message, AttemptFilter(), Page(limit=MAX_ATTEMPTS), content=False)
    return newest[::-1]


async def _detailed(store: Store, delivery: Delivery, attempts: Sequence[Attempt], org_id: str) -> DeliveryHistory:
    own = [attempt for attempt in attempts if attempt.delivery_id == delivery.id]
    lane = await store.history.lane_view(delivery.endpoint_no) if delivery.state in OPEN else None
    eventful = delivery.state != DeliveryState.DELIVERED or delivery.sent != 1
    closed = delivery.state in (DeliveryState.DEAD, DeliveryState.RESOLVED)
    letter = await store.repair.dead_letter(delivery.id) if closed else None
    urls = [own[-1].endpoint_url if own else None, lane and lane.url, letter and letter.endpoint_url]
    return DeliveryHistory(
        delivery=delivery,
        attempts=own,
        url=next((url for url in urls if url), None),
        lane=lane,
        events=await _events(store, delivery) if eventful else [],
        holding=await _holding(store, delivery) if eventful else [],
        letter=letter,
        org_id=org_id,
    )


async def _events(store: Store, delivery: Delivery) -> list[LaneEvent]:
    end = None if delivery.finished_at is None else delivery.finished_at + timedelta(seconds=1)
    where = LaneEventFilter(since=delivery.accepted_at, until=end)
    return (await _latest(store, delivery, where, MAX_EVENTS))[::-1]


async def _holding(store: Store, delivery: Delivery) -> list[LaneEvent]:
    found: list[LaneEvent] = []
    for begins in HOLDS:
        where = LaneEventFilter(kinds=tuple(begins), until=delivery.accepted_at)
        found += [event for event in await _latest(store, delivery, where, 1) if begins[event.kind]]
    return found


async def _latest(store: Store, delivery: Delivery, where: LaneEventFilter, limit: int) -> list[LaneEvent]:
    found = await lane_events.latest(store, delivery.endpoint_no, where, limit, queries=MAX_WALKS)
    return [entry.event for entry in found]
