from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from msgspec import Meta

from hookline import ids
from hookline.api.call import Call, listing, page_of
from hookline.api.operation import ListQuery, Query, operation
from hookline.api.wire.base import Instant, ListResponse, doc
from hookline.api.wire.messages import MessageOut, message
from hookline.model.fill import fill
from hookline.model.messages import MessageFilter
from hookline.rules.checks.text import EARLIEST, LATEST
from hookline.services import messages
from hookline.web.invalid_fields import NAME

MAX_EVENT_TYPES = 100

# These types check the parameters of listings, because a listing calls no service that would check them.
Channel = Annotated[str, Meta(min_length=1, max_length=128, pattern=NAME)]
Tag = Annotated[str, Meta(min_length=1, max_length=128)]
EventTypeName = Annotated[str, Meta(min_length=1, max_length=256, pattern=NAME)]
EventTypes = Annotated[tuple[EventTypeName, ...], Meta(min_length=1, max_length=MAX_EVENT_TYPES)]
After = Annotated[Instant | None, doc("Return only results after this instant.")]
Before = Annotated[Instant | None, doc("Return only results before this instant.")]
WithContent = Annotated[bool, doc("Include payloads.")]

_ALL = "/app/{app_id}/msg"
_ONE = f"{_ALL}/{{msg_id}}"


class HistoryQuery(ListQuery, frozen=True, kw_only=True):
    """The parameters that the listings of messages and of attempts share."""

    channel: Annotated[Channel | None, doc("Return only messages on this channel.")] = None
    event_types: Annotated[EventTypes | None, doc("Return only messages of one of these event types.")] = None
    tag: Annotated[Tag | None, doc("Return only messages with this tag.")] = None
    after: After = None
    before: Before = None

    def common(self) -> MessageFilter:
        return fill(MessageFilter, self, after=_within(self.after), before=_within(self.before))


def _within(at: datetime | None) -> datetime | None:
    """Return the time in UTC, moved into the range that both SQLite and PostgreSQL support."""
    return None if at is None else min(max(at, EARLIEST), LATEST).astimezone(UTC)


class MessagesQuery(HistoryQuery, frozen=True, kw_only=True):
    with_content: WithContent = True


class MessageQuery(Query, frozen=True, kw_only=True):
    with_content: WithContent = True


class ExpungeQuery(Query, frozen=True, kw_only=True):
    force: Annotated[
        bool,
        doc("Also if deliveries are open or dead. Open ones die as `unsendable`; dead ones cannot be replayed."),
    ] = False


@operation("GET", _ALL, "v1.message.list")
async def list_all(call: Call, asked: MessagesQuery) -> ListResponse[MessageOut]:
    """List the messages of an application, newest first."""
    app, page = await call.application(), page_of(asked, ids.MESSAGE)
    found = await call.store.history.messages(app.no, asked.common(), page, content=asked.with_content)
    return listing(found, page, lambda each: message(each, with_payload=asked.with_content))


@operation("GET", _ONE, "v1.message.get")
async def show(call: Call, asked: MessageQuery) -> MessageOut:
    """Show one message."""
    return message(await call.message(), with_payload=asked.with_content)


@operation("DELETE", f"{_ONE}/content", "v1.message.expunge-content")
async def expunge(call: Call, asked: ExpungeQuery) -> None:
    """Delete the payload of a message permanently."""
    await call.run(messages.expunge, call.message_ref, force=asked.force)
