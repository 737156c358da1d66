from __future__ import annotations

from typing import Annotated

from msgspec import Meta
from starlette.responses import Response

from hookline import ids
from hookline.api.call import Call, listing, nothing, page_of, respond
from hookline.api.history_query import HistoryQuery
from hookline.api.operation import Operations, Query
from hookline.api.wire.base import ListResponse
from hookline.api.wire.messages import MessageOut, message
from hookline.services import lookup, messages

WithContent = Annotated[bool, Meta(description="Whether payloads are part of the answer.")]

_ALL = "/app/{app_id}/msg"
_ONE = f"{_ALL}/{{msg_id}}"
OPERATIONS = Operations()


class MessagesQuery(HistoryQuery, frozen=True, kw_only=True):
    with_content: WithContent = True


class MessageQuery(Query, frozen=True, kw_only=True):
    with_content: WithContent = True


class ExpungeQuery(Query, frozen=True, kw_only=True):
    force: Annotated[
        bool,
        Meta(description="Even while deliveries are open or dead: those die as `unsendable`, or cannot be replayed."),
    ] = False


@OPERATIONS.get(_ALL, "v1.message.list", ListResponse[MessageOut], query=MessagesQuery)
async def list_all(call: Call) -> Response:
    """List the messages of an application, newest first."""
    app, asked = await call.application(), call.query(MessagesQuery)
    page = page_of(asked, ids.MESSAGE)
    found = await call.store.history.messages(app.no, asked.common(), page, content=asked.with_content)
    shown = [message(each, with_payload=asked.with_content) for each in found.rows]
    return listing(shown, [each.id for each in found.rows], page, found.end)


@OPERATIONS.get(_ONE, "v1.message.get", MessageOut, query=MessageQuery)
async def show(call: Call) -> Response:
    """Show one message."""
    asked = call.query(MessageQuery)
    found = await lookup.message(call.deps, call.caller, call.message_ref)
    return respond(message(found, with_payload=asked.with_content))


@OPERATIONS.delete(f"{_ONE}/content", "v1.message.expunge-content", query=ExpungeQuery)
async def expunge(call: Call) -> Response:
    """Remove the payload of a message for good."""
    await messages.expunge(call.deps, call.caller, call.message_ref, force=call.query(ExpungeQuery).force)
    return nothing()
