from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from hookline import ids
from hookline.api.call import Call, listing, page_of
from hookline.api.history_query import HistoryQuery
from hookline.api.operation import Query, operation
from hookline.api.wire.base import ListResponse
from hookline.api.wire.messages import MessageOut, message
from hookline.services import messages

WithContent = Annotated[bool, Meta(description="Whether payloads are part of the answer.")]

_ALL = "/app/{app_id}/msg"
_ONE = f"{_ALL}/{{msg_id}}"


class MessagesQuery(HistoryQuery, frozen=True, kw_only=True):
    with_content: WithContent = True


class MessageQuery(Query, frozen=True, kw_only=True):
    with_content: WithContent = True


class ExpungeQuery(Query, frozen=True, kw_only=True):
    force: Annotated[
        bool,
        Meta(description="Even while deliveries are open or dead: those die as `unsendable`, or cannot be replayed."),
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
    """Remove the payload of a message for good."""
    await messages.expunge(call.deps, call.caller, call.message_ref, force=asked.force)
