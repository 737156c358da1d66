"""The history of a message and of its delivery to each endpoint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta

from msgspec import Struct

from hookline import ids
from hookline.ids import DEFAULT_ORG
from hookline.model.attempts import Attempt
from hookline.model.dead import DeadLetter
from hookline.model.deliveries import Delivery
from hookline.model.lanes import LaneEvent, LaneView
from hookline.model.messages import Message


class DeliveryHistory(Struct, frozen=True, kw_only=True):
    """One delivery with its attempts, and the events of its lane."""

    delivery: Delivery
    attempts: list[Attempt]
    url: str | None
    lane: LaneView | None  # the current state of its lane; None if the delivery is finished
    events: list[LaneEvent]  # events of its lane between acceptance and end, oldest first
    holding: list[LaneEvent]  # earlier events that still held the lane when the message was accepted
    letter: DeadLetter | None
    org_id: str = DEFAULT_ORG

    def end(self, now: datetime) -> datetime:
        return self.delivery.finished_at or now


class MessageHistory(Struct, frozen=True, kw_only=True):
    message: Message
    now: datetime
    deliveries: list[DeliveryHistory]
    others: list[Delivery]  # deliveries of the message beyond those in `deliveries`, shown without details
    org_id: str = DEFAULT_ORG

    @property
    def other_states(self) -> dict[str, int]:
        """Count by state the deliveries in `others`, which the history shows without details."""
        return dict(Counter(word(each) for each in self.others))

    @property
    def published_at(self) -> datetime | None:
        """Return when the event was written to an outbox, by the publisher's clock. The event id contains this instant.

        Return None if the event id contains no instant, or one that is later than the message's acceptance.
        """
        event_id = self.message.event_id
        if event_id is None or not event_id.startswith(ids.EVENT):
            return None
        at = ids.minted_at(event_id)
        return None if at is None or at > self.message.created_at + timedelta(seconds=1) else at


def counted(states: Mapping[str, int]) -> str:
    """Return a text such as `3 dead, 1,204 delivered`."""
    return ", ".join(f"{number:,} {state}" for state, number in states.items() if number)


def word(delivery: Delivery) -> str:
    """Return the name of the delivery's state, or `held` if its lane was held when the delivery was read."""
    return "held" if delivery.held else delivery.state.name.lower()
