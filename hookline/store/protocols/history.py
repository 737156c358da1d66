"""Protocols for reading history: messages, deliveries, attempts, lanes and their events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from hookline.model import (
    AppHealth,
    Attempt,
    Attempted,
    AttemptedFilter,
    AttemptFilter,
    Backlog,
    Delivery,
    FoundMessage,
    LaneEvent,
    LaneEventFilter,
    LaneView,
    Message,
    MessageFilter,
    MessageSearch,
    TimelineEntry,
    UnhealthyLane,
)
from hookline.model.audit import Note
from hookline.store.protocols.bounds import MAX_WAITING
from hookline.store.protocols.pages import Page, Walk


class Views(Protocol):
    """Read messages, deliveries and attempts."""

    async def message(self, app_no: int, ref: str) -> Message | None:
        """Return the message with this id or event id, or None."""

    async def messages(self, app_no: int, where: MessageFilter, page: Page, *, content: bool = False) -> Walk[Message]:
        """Return a page of messages, newest first. Payloads are included only with `content`."""

    async def search_messages(self, org_id: str, where: MessageSearch, page: Page) -> Walk[FoundMessage]:
        """Search messages of one application or of all, newest first. The result has the states of their deliveries,
        and no payloads.

        If the filter may match rarely, one call reads a limited number of messages and returns where to continue.
        """

    async def messages_of(self, app_no: int, message_ids: Sequence[str]) -> list[Message]:
        """Return the application's messages with these ids, in any order, without payloads."""

    async def expunge_message(self, message: Message, *, force: bool = False, note: Note[bool] | None = None) -> bool:
        """Remove the message's payload permanently. Return False if it is still to be sent, or is an unresolved dead
        letter; `force` removes it anyway."""

    async def message_by_id(self, message_id: str) -> Message | None: ...
    async def deliveries(self, message_id: str) -> list[Delivery]:
        """Return all deliveries of a message: open, finished and dead."""

    async def deliveries_page(self, message: Message, word: str | None, *, after: int, limit: int) -> list[Delivery]:
        """Return deliveries with this state word (see `delivery_words`; None: all), ordered by id, after this id."""

    async def delivery_words(self, message: Message) -> dict[str, int]:
        """Count the message's deliveries by state word (held, pending and so on), as in `FoundMessage.states`."""

    async def attempts(self, message_id: str) -> list[Attempt]:
        """Return all attempts of a message, oldest first."""

    async def attempt(self, message: Message, attempt_id: str) -> Attempt | None: ...
    async def expunge_attempt(self, message: Message, attempt_id: str, *, note: Note[bool] | None = None) -> bool:
        """Remove the endpoint's response (headers and body) from an attempt permanently. Return False if there is no
        such attempt."""

    async def endpoint_attempts(
        self, endpoint_no: int, where: AttemptFilter, page: Page, *, content: bool = True
    ) -> Walk[Attempt]:
        """Return a page of the endpoint's attempts, newest first; the iterator is an attempt id. Response headers and
        body are included only with `content`."""

    async def message_attempts(
        self,
        message: Message,
        where: AttemptFilter,
        page: Page,
        *,
        endpoint_no: int | None = None,
        content: bool = True,
    ) -> list[Attempt]:
        """Return a page of the message's attempts, newest first. The caller must check event types, channel and tag
        against the message."""

    async def attempted_messages(
        self, endpoint_no: int, where: AttemptedFilter, page: Page, *, content: bool = False
    ) -> Walk[Attempted]:
        """Return a page of messages that were sent to the endpoint, ordered by their first stored attempt, newest
        first. The iterator is that attempt."""


class Lanes(Protocol):
    """Read lanes and their events."""

    async def lanes(self, org_id: str | None = None, app_no: int | None = None) -> list[LaneView]: ...
    async def lane_page(
        self, org_id: str, app_no: int | None, page: Page, *, url: str = "", state: str | None = None
    ) -> list[LaneView]:
        """Return a page of lanes ordered by endpoint id, which is the iterator. `url` selects lanes with this
        lower-case text in their URL. `state` is one of `dashboard/endpoint_health.py`, or `sick` for all unhealthy
        lanes. Open deliveries of each lane are counted up to `MAX_LISTED`."""

    async def lane_view(self, endpoint_no: int) -> LaneView | None: ...
    async def unhealthy_lanes(
        self, limit: int, *, org_id: str | None = None, app_no: int | None = None, counted: int = MAX_WAITING
    ) -> list[UnhealthyLane]:
        """Return up to `limit` unhealthy lanes, in this order: held back, unresolved dead letters, failing, slowed by
        429 responses. Within each group, those that have failed longest or have the most dead letters come first.
        Open deliveries and dead letters of each lane are counted up to `counted`."""

    async def app_health(self, app_nos: Iterable[int], *, lanes: int, counted: int) -> dict[int, AppHealth]:
        """Return the health of applications by number. At most `lanes` lanes of each are read. Deliveries and dead
        letters are counted up to `counted`."""

    async def backlog(self, org_id: str, app_no: int | None = None) -> Backlog: ...
    async def lane_events(self, endpoint_no: int, limit: int = 100) -> list[LaneEvent]:
        """Return the lane's latest events, newest first."""

    async def timeline(self, endpoint_no: int, where: LaneEventFilter, page: Page) -> Walk[TimelineEntry]:
        """Return a page of the lane's events, newest first; the iterator is an entry's number."""
