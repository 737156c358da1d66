from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

import msgspec
from msgspec.structs import replace

from hookline import ids
from hookline.api.call import Call
from hookline.api.operation import Query, operation
from hookline.api.wire import ingest as wire
from hookline.api.wire.applications import ApplicationIn, new_application
from hookline.api.wire.base import doc
from hookline.api.wire.messages import MessageOut, accepted_message
from hookline.errors import Conflict, InvalidInput, NotFound
from hookline.model.catalogue import Application
from hookline.model.messages import Accepted, BatchAccepted, IngestStatus, NewMessage
from hookline.rules import trace_context
from hookline.services import applications, messages
from hookline.services.deps import Deps
from hookline.services.messages import KeyReused
from hookline.web import body
from hookline.web.authorize import Needs
from hookline.web.errors import Refused
from hookline.web.idempotency import HEADER, REPLAYED, key_of, request_of, reused
from hookline.web.invalid_fields import InvalidField
from hookline.web.middleware import record_of

ENVELOPE = 16 * 1024  # maximum bytes of a request without its payload
AT_ONCE = 1024 * 1024  # maximum bytes of a batch that is decoded in one step

_Item = wire.MessageIn | str  # an item of a batch: a message, or an error text if it could not be read

_ALL = "/app/{app_id}/msg"


class CreateQuery(Query, frozen=True, kw_only=True):
    with_content: Annotated[bool, doc("Include the payload.")] = True


class BatchQuery(Query, frozen=True, kw_only=True):
    with_content: Annotated[bool, doc("Include the payloads.")] = False


# ── publish one message ───────────────────────────────────────────────────────────────────────────────────────────


@operation("POST", _ALL, "v1.message.create", status=202, body=wire.MessageIn, traced=True, needs=Needs.PUBLISH)
async def create(call: Call, asked: CreateQuery) -> MessageOut:
    """Accept a message and deliver it to every matching endpoint.

    The 202 is sent once the message is durable. The bytes of the payload are stored unchanged.
    """
    trace = _trace(call)
    raw = await call.raw_body(call.services.max_payload + ENVELOPE)
    given = body.decode(raw, wire.MessageIn)
    deps = call.deps
    app = await _application(call, given.application)
    key, digest = _idempotency(call, app, raw)
    new = replace(_new(app, given, _mint(deps), trace), idempotency_key=key, idempotency_body=digest)
    unsupported = _unsupported(given, deps.retention_days)
    try:
        accepted = await messages.publish(deps, call.caller, app, new, decoded=True, unsupported=unsupported)
    except KeyReused:
        raise reused() from None
    if accepted.status == IngestStatus.REPLAYED:
        trace = await _replayed(call, app, (accepted,))
    _note(call, app, accepted.deliveries, {"message.id": accepted.message_id, "event_type": given.event_type})
    return _shown(app, given, accepted, trace, asked.with_content)


def _new(app: Application, given: wire.MessageIn, message_id: str, trace: str | None) -> NewMessage:
    return NewMessage(
        id=message_id,
        app_no=app.no,
        event_type=given.event_type,
        payload=bytes(given.payload),
        event_id=given.event_id,
        channels=given.channels,
        tags=given.tags,
        ordering_key=given.ordering_key,
        deliver_at=given.deliver_at,
        policy=None if given.policy is None else given.policy.override(),
        trace=trace,
    )


def _mint(deps: Deps) -> str:
    return ids.mint(ids.MESSAGE, deps.wall())


def _unsupported(given: wire.MessageIn, retention_days: int) -> InvalidInput | None:
    """Return an error if the request uses a feature that Hookline does not have."""
    if given.transformations_params:
        return InvalidInput("nothing is transformed here: the payload is sent as it is", field="transformationsParams")
    days, hours = given.payload_retention_period, given.payload_retention_hours
    if (days is not None and days < retention_days) or (hours is not None and hours < 24 * retention_days):
        return InvalidInput(
            f"payloads are kept for {retention_days} days here, and one message's cannot be kept "
            "for less; delete its content when it is time",
            field="payloadRetentionPeriod",
        )
    return None


def _shown(
    app: Application, given: wire.MessageIn, accepted: Accepted, trace: str | None, with_content: bool
) -> MessageOut:
    """Return the JSON of the stored message. It is made from the request, not read from the store. This
    is correct for a repeated request too, because it has the same body as the first request."""
    assert accepted.created_at is not None
    kept = _new(app, given, accepted.message_id, trace)
    return accepted_message(kept, accepted.created_at, with_payload=with_content)


# ── publish a batch of messages ───────────────────────────────────────────────────────────────────────────────────


@operation(
    "POST",
    f"{_ALL}/batch",
    "v1.message.create-batch",
    status=202,
    body=wire.MessageBatchIn,
    traced=True,
    needs=Needs.PUBLISH,
)
async def create_batch(call: Call, asked: BatchQuery) -> wire.MessageBatchOut:
    """Accept up to 1,000 messages in one transaction. Each has its own result."""
    trace = _trace(call)
    raw = await call.raw_body(call.services.max_batch)
    items, wanted = await _items(call, raw)
    deps, app = call.deps, await _application(call, wanted)
    key, digest = _idempotency(call, app, raw)
    given = (_new_or_fault(deps, app, item, trace) for item in items)
    try:
        accepted = await messages.publish_batch(deps, call.caller, app, given, key=key, body=digest)
    except KeyReused:
        raise reused() from None
    if accepted.status == IngestStatus.REPLAYED:
        trace = await _replayed(call, app, accepted.answers)
    _note(call, app, sum(one.deliveries for one in accepted.answers), {"messages": len(accepted.answers)})
    return wire.MessageBatchOut(results=_results(app, items, accepted, trace, asked.with_content))


async def _items(call: Call, raw: bytes) -> tuple[list[_Item], ApplicationIn | None]:
    """Decode the messages of a batch.

    A small, valid batch is decoded in one step. Otherwise messages are decoded one at a time, so that other requests
    can run in between.
    """
    if len(raw) <= AT_ONCE:
        with suppress(InvalidField, Refused):
            whole = body.decode(raw, wire.MessageBatchIn)
            return list(whole.messages), whole.application
    parts = _parts(raw)
    beside = body.decode(b'{"application":%s}' % bytes(parts.application), wire.MessageBatchBeside)
    return [_item(call, part) async for part in messages.in_turns(parts.unread)], beside.application


def _parts(raw: bytes) -> wire.MessageBatchParts:
    try:
        parts = body.decode(raw, wire.MessageBatchParts)
    except InvalidField as error:
        if f"at most length {wire.MAX_IN_BATCH}" in str(error):
            raise InvalidInput(f"more than {wire.MAX_IN_BATCH:,}", field="messages") from None
        raise
    if not parts.unread:
        raise InvalidInput("there are none", field="messages")
    if len(bytes(parts.application)) > ENVELOPE:
        raise InvalidInput(f"is larger than {ENVELOPE} bytes", field="application")
    return parts


def _item(call: Call, part: bytes) -> _Item:
    most = call.services.max_payload + ENVELOPE
    if len(part) > most:
        return f"the message is larger than {most} bytes"
    try:
        return body.decode(part, wire.MessageIn)
    except (msgspec.DecodeError, InvalidField, Refused) as error:
        return str(error)


def _new_or_fault(deps: Deps, app: Application, item: _Item, trace: str | None) -> NewMessage | str:
    if isinstance(item, str):
        return item
    unsupported = _unsupported(item, deps.retention_days)
    return _new(app, item, _mint(deps), trace) if unsupported is None else str(unsupported)


def _results(
    app: Application, items: list[_Item], accepted: BatchAccepted, trace: str | None, with_content: bool
) -> list[wire.BatchResultOut]:
    answers, faults = iter(accepted.answers), accepted.faults
    return [
        _refused(422, "invalid", faults[position])
        if position in faults
        else _result(app, item, next(answers), trace, with_content)
        for position, item in enumerate(items)
    ]


def _result(
    app: Application, item: _Item, answer: Accepted, trace: str | None, with_content: bool
) -> wire.BatchResultOut:
    # This request repeats an earlier one with the same idempotency key. An earlier release accepted this item of the
    # batch then, but this release cannot read it. So the response cannot show the message.
    if isinstance(item, str):
        return _refused(422, "invalid", item)
    try:
        shown = _shown(app, item, messages.check_accepted(answer), trace, with_content)
    except Conflict as error:
        return _refused(409, "conflict", str(error))
    return wire.BatchResultOut(status=202, message=shown)


def _refused(status: int, code: str, detail: str) -> wire.BatchResultOut:
    return wire.BatchResultOut(status=status, error=wire.BatchErrorOut(code=code, detail=detail))


# ── used for one message and for a batch ──────────────────────────────────────────────────────────────────────────


async def _application(call: Call, wanted: ApplicationIn | None) -> Application:
    """Return the application in the path. If it does not exist and the body describes it, create it."""
    try:
        return await call.application()
    except NotFound:
        if wanted is None or call.caller.app is not None:
            raise
    call.services.auth.allow(call.caller, Needs.WRITE)
    return await call.run(applications.find_or_create, call.path("app_id"), new_application(wanted))


def _idempotency(call: Call, app: Application, raw: bytes) -> tuple[bytes | None, bytes | None]:
    """Return the hashes of the idempotency key and of the body.

    The hashes are the same whether the path has the id or the uid of the application.
    """
    given = call.request.headers.get(HEADER)
    if given is None:
        return None, None
    operation = call.operation
    return key_of(given, app.org_id, app.id, operation.method, operation.path), request_of(b"", raw)


def _trace(call: Call) -> str | None:
    """Return the trace context to store with the messages.

    If tracing is off, this is the context of the request, or None if the request has none. If tracing is on, this
    is the context of a span that begins here, in the request's trace or in a new trace.
    """
    given = trace_context.of_headers(call.request.scope["headers"])
    if call.services.traces is None:
        return given
    accept = record_of(call.request.scope).accept = call.services.traces.accept(given)
    return accept.trace


def _note(call: Call, app: Application, deliveries: int, facts: dict[str, str | int]) -> None:
    accept = record_of(call.request.scope).accept
    if accept is not None:
        accept.note({"application.id": app.id, "deliveries": deliveries, **facts})


async def _replayed(call: Call, app: Application, answers: Sequence[Accepted]) -> str | None:
    """Add the header that marks the response as the repetition of an earlier one.

    Return the trace context of the first request with this idempotency key, because the stored messages have it. None:
    no stored message has a trace context.
    """
    call.headers = REPLAYED
    made = [answer.message_id for answer in answers if answer.status != IngestStatus.EVENT_ID_TAKEN]
    return next((found.trace for found in await call.store.history.messages_of(app.no, made[:1])), None)
