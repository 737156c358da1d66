"""The way of a message to each of its endpoints, as it is read and told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta

from msgspec import Struct

from hookline import ids
from hookline.ids import DEFAULT_ORG
from hookline.model import Attempt, DeadLetter, Delivery, LaneEvent, LaneView, Message


class DeliveryHistory(Struct, frozen=True, kw_only=True):
    """The way to one endpoint: a delivery and all that happened to it."""

    delivery: Delivery
    attempts: list[Attempt]
    url: str | None
    lane: LaneView | None  # as it is now, where it still matters
    events: list[LaneEvent]  # of its lane, while it was under way; oldest first
    holding: list[LaneEvent]  # those before it that still held the lane when it was accepted
    letter: DeadLetter | None
    org_id: str = DEFAULT_ORG

    def end(self, now: datetime) -> datetime:
        return self.delivery.finished_at or now


class MessageHistory(Struct, frozen=True, kw_only=True):
    message: Message
    now: datetime
    ways: list[DeliveryHistory]
    beyond: list[Delivery]  # of which nothing more is looked up
    org_id: str = DEFAULT_ORG

    @property
    def untold(self) -> dict[str, int]:
        """Deliveries of which only the state is known here: how many, by state."""
        return dict(Counter(word(each) for each in self.beyond))

    @property
    def published_at(self) -> datetime | None:
        """When it was written to an outbox: an event's own id says so, to a few milliseconds of its publisher's clock."""
        event_id = self.message.event_id
        if event_id is None or not event_id.startswith(ids.EVENT):
            return None
        at = ids.minted_at(event_id)
        return None if at is None or at > self.message.created_at + timedelta(seconds=1) else at


def counted(states: Mapping[str, int]) -> str:
    """`3 dead, 1,204 delivered`."""
    return ", ".join(f"{number:,} {state}" for state, number in states.items() if number)


def word(delivery: Delivery) -> str:
    """The word for where it was when it was read."""
    return "held" if delivery.held else delivery.state.name.lower()
