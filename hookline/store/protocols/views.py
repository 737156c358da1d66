"""What people and the API look at."""

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
    """Messages, deliveries and attempts, for people and the API."""

    async def message(self, app_no: int, ref: str) -> Message | None:
        """By id or event id."""

    async def messages(self, app_no: int, where: MessageFilter, page: Page, *, content: bool = False) -> Walk[Message]:
        """Newest first; with payloads only where asked for."""

    async def found_messages(self, org_id: str, where: MessageSearch, page: Page) -> Walk[FoundMessage]:
        """Newest first, of one application or of all; without payloads, with the states of their deliveries.

        Where the filter may match rarely one call looks at a bounded number of messages, and says where to go on.
        """

    async def messages_of(self, app_no: int, message_ids: Sequence[str]) -> list[Message]:
        """Those of the application among them, in any order, without payload."""

    async def expunge_message(self, message: Message, *, force: bool = False, note: Note[bool] | None = None) -> bool:
        """Its payload becomes None for good. False: it is still to be sent, or dead and unresolved; `force` does it even so."""

    async def message_by_id(self, message_id: str) -> Message | None: ...
    async def deliveries(self, message_id: str) -> list[Delivery]:
        """All of one message: open, done, dead."""

    async def deliveries_page(self, message: Message, word: str | None, *, after: int, limit: int) -> list[Delivery]:
        """Those with this word (as `delivery_words` has them; None: all) in the order of their ids, after this one."""

    async def delivery_words(self, message: Message) -> dict[str, int]:
        """How many of its deliveries are held, pending and so on: as `FoundMessage.states`."""

    async def attempts(self, message_id: str) -> list[Attempt]:
        """All of one message, oldest first."""

    async def attempt(self, message: Message, attempt_id: str) -> Attempt | None: ...
    async def expunge_attempt(self, message: Message, attempt_id: str, *, note: Note[bool] | None = None) -> bool:
        """What the endpoint answered, headers and body, is removed for good. False: there is no such attempt."""

    async def endpoint_attempts(
        self, endpoint_no: int, where: AttemptFilter, page: Page, *, content: bool = True
    ) -> Walk[Attempt]:
        """Newest first; the iterator is an attempt id. Headers and body of the answers only where asked for."""

    async def message_attempts(
        self,
        message: Message,
        where: AttemptFilter,
        page: Page,
        *,
        endpoint_no: int | None = None,
        content: bool = True,
    ) -> list[Attempt]:
        """Likewise, of one message. Event types, channel and tag are for the caller to compare with the message."""

    async def attempted_messages(
        self, endpoint_no: int, where: AttemptedFilter, page: Page, *, content: bool = False
    ) -> Walk[Attempted]:
        """Messages that were tried at the endpoint, by their first attempt that is kept, newest first; that is the iterator."""


class Lanes(Protocol):
    """Lanes likewise, and what happened to them."""

    async def lanes(self, org_id: str | None = None, app_no: int | None = None) -> list[LaneView]: ...
    async def lane_page(
        self, org_id: str, app_no: int | None, page: Page, *, url: str = "", state: str | None = None
    ) -> list[LaneView]:
        """Likewise, in pages by the endpoint's id, which is the iterator; only those that have this text, in small letters, in
        their URL, and are in this state: one of those of `dashboard/endpoint_health.py`, or `sick` for all that are not well.
        Of each, open deliveries are counted up to `MAX_LISTED`."""

    async def lane_view(self, endpoint_no: int) -> LaneView | None: ...
    async def troubled(
        self, most: int, *, org_id: str | None = None, app_no: int | None = None, counted: int = MAX_WAITING
    ) -> list[UnhealthyLane]:
        """Up to so many lanes that are held back, have dead letters that nobody has resolved, whose last attempts failed, or that
        429s have slowed: in this order, and those that have failed for longest, or have the most dead letters, first. Open
        deliveries and dead letters of each are counted so far."""

    async def app_health(self, app_nos: Iterable[int], *, lanes: int, counted: int) -> dict[int, AppHealth]:
        """By the application's number. Of each, so many lanes are looked at; deliveries and dead letters are counted so far."""

    async def backlog(self, org_id: str, app_no: int | None = None) -> Backlog: ...
    async def lane_events(self, endpoint_no: int, limit: int = 100) -> list[LaneEvent]:
        """Newest first."""

    async def timeline(self, endpoint_no: int, where: LaneEventFilter, page: Page) -> Walk[TimelineEntry]:
        """Likewise, in pages; the iterator is an entry's number."""
