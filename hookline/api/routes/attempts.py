from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Annotated

from msgspec import Meta
from msgspec.structs import asdict

from hookline import ids
from hookline.api.call import Call, listing, page_of
from hookline.api.operation import Expanded, ListQuery, Query, operation
from hookline.api.routes.messages import HistoryQuery, WithContent
from hookline.api.wire import attempts as wire
from hookline.api.wire.base import ListResponse, Out, doc
from hookline.api.wire.messages import MessageOut, message
from hookline.errors import NoSuch
from hookline.model.attempts import Attempt, AttemptedFilter, AttemptFilter
from hookline.model.deliveries import Delivery
from hookline.model.messages import Message, MessageFilter
from hookline.services import lookup
from hookline.services import messages as message_actions
from hookline.services.lookup import EndpointRef
from hookline.store import Page, Walk

_FINAL = (wire.MessageStatus.SUCCESS, wire.MessageStatus.FAIL)

WithMessage = Annotated[bool, doc("Include the message of each attempt, without its payload.")]

_MESSAGE = "/app/{app_id}/msg/{msg_id}"
_ONE = f"{_MESSAGE}/attempt/{{attempt_id}}"


class AttemptsQuery(HistoryQuery, frozen=True, kw_only=True):
    status: Annotated[
        wire.MessageStatus | None,
        doc("Attempts are listed once they have ended, so only 0 and 2 match."),
    ] = None
    status_code_class: wire.CodeClass | None = None
    with_content: Annotated[bool, doc("Include bodies and headers of the responses.")] = True
    with_msg: WithMessage = False
    expanded_statuses: Expanded = False

    def filter(self) -> AttemptFilter:
        delivered = None if self.status is None else self.status == wire.MessageStatus.SUCCESS
        code_class = None if self.status_code_class is None else self.status_code_class.value
        return AttemptFilter(**asdict(self.common()), delivered=delivered, code_class=code_class)

    @property
    def empty(self) -> bool:
        """Return whether no attempt can match. Only attempts that have ended are listed, and an ended attempt is never
        pending or sending."""
        return self.status not in (None, *_FINAL)


class MessageAttemptsQuery(AttemptsQuery, frozen=True, kw_only=True):
    endpoint_id: (
        Annotated[str, Meta(max_length=256, description="Return only attempts at this endpoint (id or uid).")] | None
    ) = None


class AttemptedQuery(HistoryQuery, frozen=True, kw_only=True):
    status: Annotated[wire.MessageStatus | None, doc("The status of the latest delivery.")] = None
    with_content: WithContent = True
    expanded_statuses: Expanded = False

    def filter(self) -> AttemptedFilter:
        states = None if self.status is None else wire.STATES[self.status]
        return AttemptedFilter(**asdict(self.common()), states=states)


class AttemptQuery(Query, frozen=True, kw_only=True):
    expanded_statuses: Expanded = False


class EmptyOut(Out, frozen=True, kw_only=True):
    pass


# ── attempts ──────────────────────────────────────────────────────────────────────────────────────────────────────


@operation("GET", "/app/{app_id}/attempt/endpoint/{endpoint_id}", "v1.message-attempt.list-by-endpoint")
async def list_by_endpoint(call: Call, asked: AttemptsQuery) -> ListResponse[wire.AttemptOut]:
    """List the attempts at an endpoint, newest first."""
    page, endpoint = page_of(asked, ids.ATTEMPT), await call.endpoint()
    if asked.empty:
        return listing([], page, wire.attempt)
    found = await call.store.history.endpoint_attempts(endpoint.no, asked.filter(), page, content=asked.with_content)
    return await _listed(call, found, page, with_msg=asked.with_msg)


@operation("GET", "/app/{app_id}/attempt/msg/{msg_id}", "v1.message-attempt.list-by-msg")
async def list_by_message(call: Call, asked: MessageAttemptsQuery) -> ListResponse[wire.AttemptOut]:
    """List the attempts to deliver a message, newest first."""
    page, of = page_of(asked, ids.ATTEMPT), await call.message()
    endpoint_no = await _endpoint_no(call, asked.endpoint_id)
    if asked.empty or not _matches(of, asked.common()):
        return listing([], page, wire.attempt)
    found = await call.store.history.message_attempts(
        of, asked.filter(), page, endpoint_no=endpoint_no, content=asked.with_content
    )
    return await _listed(call, Walk(rows=found), page, with_msg=asked.with_msg)


async def _endpoint_no(call: Call, ref: str | None) -> int | None:
    if ref is None:
        return None
    return (await call.run(lookup.endpoint, EndpointRef(ref, call.path("app_id")))).no


def _matches(of: Message, where: MessageFilter) -> bool:
    return (
        (where.event_types is None or of.event_type in where.event_types)
        and (where.channel is None or where.channel in (of.channels or ()))
        and (where.tag is None or where.tag in (of.tags or ()))
    )


async def _listed(call: Call, found: Walk[Attempt], page: Page, *, with_msg: bool) -> ListResponse[wire.AttemptOut]:
    kept = await _messages_of(call, found.rows) if with_msg else {}
    return listing(found, page, lambda each: wire.attempt(each, msg=kept.get(each.message_id)))


async def _messages_of(call: Call, attempts: Sequence[Attempt]) -> dict[str, MessageOut]:
    """Return the messages of these attempts by id. Messages that retention has deleted are missing."""
    app, wanted = await call.application(), {each.message_id for each in attempts}
    found = await call.store.history.messages_of(app.no, sorted(wanted))
    return {each.id: message(each, with_payload=False) for each in found}


# ── a message at an endpoint ──────────────────────────────────────────────────────────────────────────────────────


@operation("GET", "/app/{app_id}/endpoint/{endpoint_id}/msg", "v1.message-attempt.list-attempted-messages")
async def list_attempted_messages(call: Call, asked: AttemptedQuery) -> ListResponse[wire.AttemptedMessageOut]:
    """List the messages with an attempt at an endpoint, sorted by their first attempt, newest first."""
    page, endpoint = page_of(asked, ids.ATTEMPT), await call.endpoint()
    found = await call.store.history.attempted_messages(endpoint.no, asked.filter(), page, content=asked.with_content)
    return listing(
        found,
        page,
        lambda each: wire.attempted_message(each, with_payload=asked.with_content),
        attrgetter("attempt_id"),
    )


@operation("GET", f"{_MESSAGE}/endpoint", "v1.message-attempt.list-attempted-destinations")
async def list_destinations(call: Call, asked: ListQuery) -> ListResponse[wire.DestinationOut]:
    """List the endpoints of a message, and its status at each."""
    page, of = page_of(asked, ids.ENDPOINT), await call.message()
    chosen = _page_of(_latest(await call.store.history.deliveries(of.id)), page)
    found = await call.store.catalogue.endpoints_for([each.endpoint_no for each in chosen])
    endpoints = {each.no: each for each in found}

    def shown(each: Delivery) -> wire.DestinationOut:
        return wire.destination(each, endpoints[each.endpoint_no])

    return listing(chosen, page, shown, attrgetter("endpoint_id"))


def _latest(deliveries: Sequence[Delivery]) -> list[Delivery]:
    """Return the latest delivery to each endpoint, sorted by endpoint id. After a resend, an endpoint has several."""
    by_endpoint = {each.endpoint_id: each for each in sorted(deliveries, key=lambda each: each.id)}
    return [by_endpoint[endpoint_id] for endpoint_id in sorted(by_endpoint)]


def _page_of(deliveries: Sequence[Delivery], page: Page) -> list[Delivery]:
    if page.backwards:
        return [each for each in deliveries if each.endpoint_id < (page.iterator or "")][-page.limit :]
    return [each for each in deliveries if each.endpoint_id > (page.iterator or "")][: page.limit]


@operation("GET", _ONE, "v1.message-attempt.get")
async def show(call: Call, asked: AttemptQuery) -> wire.AttemptOut:  # noqa: ARG001 - accepted without effect
    """Show one attempt."""
    found = await call.store.history.attempt(await call.message(), call.path("attempt_id"))
    if found is None:
        raise NoSuch("attempt", call.path("attempt_id"))
    return wire.attempt(found)


@operation("DELETE", f"{_ONE}/content", "v1.message-attempt.expunge-content")
async def expunge(call: Call) -> None:
    """Delete the stored response of an attempt permanently."""
    await call.run(message_actions.expunge_attempt, call.message_ref, call.path("attempt_id"))


@operation("POST", f"{_MESSAGE}/endpoint/{{endpoint_id}}/resend", "v1.message-attempt.resend", status=202)
async def resend(call: Call) -> EmptyOut:
    """Send a message to an endpoint again.

    This creates a new delivery that is due at once, whatever the state of earlier deliveries.
    """
    await call.run(message_actions.resend, call.message_ref, call.endpoint_ref)
    return EmptyOut()
