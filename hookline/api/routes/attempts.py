from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta
from msgspec.structs import asdict
from starlette.responses import Response

from hookline import ids
from hookline.api.call import Call, listing, nothing, page_of, respond
from hookline.api.history_query import HistoryQuery
from hookline.api.operation import Expanded, ListQuery, Operations, Query
from hookline.api.routes import messages
from hookline.api.wire.attempts import (
    AttemptedMessageOut,
    AttemptOut,
    CodeClass,
    DestinationOut,
    MessageStatus,
    attempt,
    attempted_message,
    destination,
    states_of,
)
from hookline.api.wire.base import ListResponse, Out
from hookline.api.wire.messages import MessageOut, message
from hookline.errors import NoSuch
from hookline.model import (
    Application,
    Attempt,
    AttemptedFilter,
    AttemptFilter,
    Delivery,
    Message,
    MessageFilter,
)
from hookline.services import lookup
from hookline.services import messages as message_actions
from hookline.services.lookup import EndpointRef
from hookline.store.protocols import Page, Walk

_FINAL = (MessageStatus.SUCCESS, MessageStatus.FAIL)

WithMessage = Annotated[bool, Meta(description="Whether each attempt comes with its message, without the payload.")]

_MESSAGE = "/app/{app_id}/msg/{msg_id}"
_ENDPOINT = "/app/{app_id}/endpoint/{endpoint_id}"
_ONE = f"{_MESSAGE}/attempt/{{attempt_id}}"
OPERATIONS = Operations()


class AttemptsQuery(HistoryQuery, frozen=True, kw_only=True):
    status: Annotated[
        MessageStatus | None,
        Meta(description="Attempts are listed once they have ended: there are no others than 0 and 2."),
    ] = None
    status_code_class: CodeClass | None = None
    with_content: Annotated[bool, Meta(description="Whether bodies and headers of the answers are shown.")] = True
    with_msg: WithMessage = False
    expanded_statuses: Expanded = False

    def filter(self) -> AttemptFilter:
        delivered = None if self.status is None else self.status == MessageStatus.SUCCESS
        code_class = None if self.status_code_class is None else self.status_code_class.value
        return AttemptFilter(**asdict(self.common()), delivered=delivered, code_class=code_class)

    @property
    def empty(self) -> bool:
        """Whether nothing can match, because only attempts that have ended are listed."""
        return self.status not in (None, *_FINAL)


class MessageAttemptsQuery(AttemptsQuery, frozen=True, kw_only=True):
    endpoint_id: (
        Annotated[str, Meta(max_length=256, description="Only attempts at this endpoint, by its id or uid.")] | None
    ) = None


class AttemptedQuery(HistoryQuery, frozen=True, kw_only=True):
    status: Annotated[MessageStatus | None, Meta(description="Where its latest delivery there stands.")] = None
    with_content: messages.WithContent = True
    expanded_statuses: Expanded = False

    def filter(self) -> AttemptedFilter:
        return AttemptedFilter(**asdict(self.common()), states=None if self.status is None else states_of(self.status))


class AttemptQuery(Query, frozen=True, kw_only=True):
    expanded_statuses: Expanded = False


class EmptyOut(Out, frozen=True, kw_only=True):
    pass


# ── attempts ──────────────────────────────────────────────────────────────────────────────────────────────────────


@OPERATIONS.get(
    "/app/{app_id}/attempt/endpoint/{endpoint_id}",
    "v1.message-attempt.list-by-endpoint",
    ListResponse[AttemptOut],
    query=AttemptsQuery,
)
async def list_by_endpoint(call: Call) -> Response:
    """List the attempts at an endpoint, newest first."""
    app, asked = await call.application(), call.query(AttemptsQuery)
    page = page_of(asked, ids.ATTEMPT)
    endpoint = await lookup.endpoint(call.deps, call.caller, call.endpoint_ref)
    if asked.empty:
        return listing([], [], page)
    found = await call.store.history.endpoint_attempts(endpoint.no, asked.filter(), page, content=asked.with_content)
    return await _listed(call, app, found, page, with_msg=asked.with_msg)


@OPERATIONS.get(
    "/app/{app_id}/attempt/msg/{msg_id}",
    "v1.message-attempt.list-by-msg",
    ListResponse[AttemptOut],
    query=MessageAttemptsQuery,
)
async def list_by_message(call: Call) -> Response:
    """List the attempts to deliver a message, newest first."""
    app, asked = await call.application(), call.query(MessageAttemptsQuery)
    page = page_of(asked, ids.ATTEMPT)
    of = await lookup.message(call.deps, call.caller, call.message_ref)
    endpoint_no = await _endpoint_no(call, asked.endpoint_id)
    if asked.empty or not _matches(of, asked.common()):
        return listing([], [], page)
    found = await call.store.history.message_attempts(
        of, asked.filter(), page, endpoint_no=endpoint_no, content=asked.with_content
    )
    return await _listed(call, app, Walk(rows=found), page, with_msg=asked.with_msg)


async def _endpoint_no(call: Call, ref: str | None) -> int | None:
    if ref is None:
        return None
    return (await lookup.endpoint(call.deps, call.caller, EndpointRef(ref, call.path("app_id")))).no


def _matches(of: Message, where: MessageFilter) -> bool:
    return (
        (where.event_types is None or of.event_type in where.event_types)
        and (where.channel is None or where.channel in (of.channels or ()))
        and (where.tag is None or where.tag in (of.tags or ()))
    )


async def _listed(call: Call, app: Application, found: Walk[Attempt], page: Page, *, with_msg: bool) -> Response:
    kept = await _messages_of(call, app, found.rows) if with_msg else {}
    shown = [attempt(each, msg=kept.get(each.message_id)) for each in found.rows]
    return listing(shown, [each.id for each in found.rows], page, found.end)


async def _messages_of(call: Call, app: Application, attempts: Sequence[Attempt]) -> dict[str, MessageOut]:
    """Return the messages of these attempts by id. Messages that retention has deleted are missing."""
    wanted = {each.message_id for each in attempts}
    found = await call.store.history.messages_of(app.no, sorted(wanted))
    return {each.id: message(each, with_payload=False) for each in found}


# ── a message at an endpoint ──────────────────────────────────────────────────────────────────────────────────────


@OPERATIONS.get(
    f"{_ENDPOINT}/msg",
    "v1.message-attempt.list-attempted-messages",
    ListResponse[AttemptedMessageOut],
    query=AttemptedQuery,
)
async def list_attempted_messages(call: Call) -> Response:
    """List the messages that were tried at an endpoint, by their first attempt, newest first."""
    asked = call.query(AttemptedQuery)
    page = page_of(asked, ids.ATTEMPT)
    endpoint = await lookup.endpoint(call.deps, call.caller, call.endpoint_ref)
    found = await call.store.history.attempted_messages(endpoint.no, asked.filter(), page, content=asked.with_content)
    shown = [attempted_message(each, with_payload=asked.with_content) for each in found.rows]
    return listing(shown, [each.attempt_id for each in found.rows], page, found.end)


@OPERATIONS.get(
    f"{_MESSAGE}/endpoint",
    "v1.message-attempt.list-attempted-destinations",
    ListResponse[DestinationOut],
    query=ListQuery,
)
async def list_destinations(call: Call) -> Response:
    """List the endpoints that a message is for, and how it stands at each."""
    page = page_of(call.query(ListQuery), ids.ENDPOINT)
    of = await lookup.message(call.deps, call.caller, call.message_ref)
    chosen = _page_of(_latest(await call.store.history.deliveries(of.id)), page)
    endpoints = {
        each.no: each for each in await call.store.catalogue.endpoints_for([each.endpoint_no for each in chosen])
    }
    shown = [destination(each, endpoints[each.endpoint_no]) for each in chosen]
    return listing(shown, [each.id for each in shown], page)


def _latest(deliveries: Sequence[Delivery]) -> list[Delivery]:
    """Return the latest delivery for each endpoint, by endpoint id. A resend creates another delivery."""
    by_endpoint = {each.endpoint_id: each for each in sorted(deliveries, key=lambda each: each.id)}
    return [by_endpoint[endpoint_id] for endpoint_id in sorted(by_endpoint)]


def _page_of(deliveries: Sequence[Delivery], page: Page) -> list[Delivery]:
    if page.backwards:
        return [each for each in deliveries if each.endpoint_id < (page.iterator or "")][-page.limit :]
    return [each for each in deliveries if each.endpoint_id > (page.iterator or "")][: page.limit]


@OPERATIONS.get(_ONE, "v1.message-attempt.get", AttemptOut, query=AttemptQuery)
async def show(call: Call) -> Response:
    """Show one attempt."""
    call.query(AttemptQuery)
    of = await lookup.message(call.deps, call.caller, call.message_ref)
    found = await call.store.history.attempt(of, call.path("attempt_id"))
    if found is None:
        raise NoSuch("attempt", call.path("attempt_id"))
    return respond(attempt(found))


@OPERATIONS.delete(f"{_ONE}/content", "v1.message-attempt.expunge-content")
async def expunge(call: Call) -> Response:
    """Remove what the endpoint answered, headers and body, for good."""
    await message_actions.expunge_attempt(call.deps, call.caller, call.message_ref, call.path("attempt_id"))
    return nothing()


@OPERATIONS.post(f"{_MESSAGE}/endpoint/{{endpoint_id}}/resend", "v1.message-attempt.resend", {202: EmptyOut})
async def resend(call: Call) -> Response:
    """Send a message to an endpoint once more.

    This creates a delivery of its own that is due at once, whatever the state of the earlier ones.
    """
    await message_actions.resend(call.deps, call.caller, call.message_ref, call.endpoint_ref)
    return respond(EmptyOut(), 202)
