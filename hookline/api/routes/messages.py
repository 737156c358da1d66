from __future__ import annotations

import hashlib

from starlette.responses import Response

from hookline import catalogue, ids, manage
from hookline.api import body, wire
from hookline.api.call import Call, listing, page_of, respond
from hookline.api.operation import ListQuery, Needs, Operation
from hookline.errors import InvalidInput, NotFound
from hookline.model import Accepted, Application, IngestStatus, Message, NewMessage

ENVELOPE = 16 * 1024  # what a request may have beside its payload
MOST_KEY = 256


async def create(call: Call) -> Response:
    """202 once it is durable. The payload's bytes are kept as they came."""
    app = await call.application()
    raw = await call.raw_body(call.services.max_payload + ENVELOPE)
    new = _new(call, app, body.decode(raw, wire.MessageIn), raw)
    catalogue.check_message(new, now=call.services.wall(), max_payload=call.services.max_payload)
    accepted = await call.services.submit(new)
    if accepted.status == IngestStatus.NO_APPLICATION:
        call.services.auth.forget(call.caller, call.path("app_id"))
    return respond(wire.message(await _kept(call, app, new, manage.judge_accepted(accepted))), 202)


def _new(call: Call, app: Application, given: wire.MessageIn, raw: bytes) -> NewMessage:
    key = call.request.headers.get("idempotency-key")
    if key is not None and not 1 <= len(key) <= MOST_KEY:
        raise InvalidInput(f"idempotency-key: must be 1 to {MOST_KEY} characters long")
    if given.ordering_key is not None:
        raise InvalidInput("orderingKey: not supported yet; leave it out")
    return NewMessage(
        id=ids.mint(ids.MESSAGE, call.services.wall()),
        app_no=app.no,
        event_type=given.event_type,
        payload=bytes(given.payload),
        event_id=given.event_id,
        channels=given.channels,
        tags=given.tags,
        deliver_at=given.deliver_at,
        policy=None if given.policy is None else given.policy.override(),
        idempotency_key=None if key is None else _hash(app.org_id, app.id, key.encode()),
        idempotency_body=None if key is None else _hash(app.org_id, app.id, raw),
    )


def _hash(org_id: str, app_id: str, value: bytes) -> bytes:
    """Another application's key is another key, whatever its holder calls it."""
    return hashlib.sha256(f"{org_id}\0{app_id}\0".encode() + value).digest()


async def _kept(call: Call, app: Application, new: NewMessage, accepted: Accepted) -> Message:
    """What was stored: this message, or the one that the same request stored before."""
    if accepted.status == IngestStatus.REPLAYED:
        return await _find(call, app, accepted.message_id)
    return Message(
        seq=0,
        id=accepted.message_id,
        app_no=app.no,
        app_id=app.id,
        event_type=new.event_type,
        payload=new.payload,
        created_at=accepted.created_at or call.services.wall(),
        event_id=new.event_id,
        channels=new.channels,
        tags=new.tags,
        ordering_key=new.ordering_key,
        deliver_at=new.deliver_at,
    )


async def list_all(call: Call) -> Response:
    app, page = await call.application(), page_of(call.query(ListQuery))
    found = await call.store.messages(app.no, page)
    return listing([wire.message(each) for each in found], [each.id for each in found], page)


async def show(call: Call) -> Response:
    app = await call.application()
    return respond(wire.message(await _find(call, app, call.path("msg_id"))))


async def _find(call: Call, app: Application, ref: str) -> Message:
    found = await call.store.message(app.no, ref)
    if found is None:
        raise NotFound(f"no message {ref!r}")
    return found


_ALL = "/app/{app_id}/msg"
_ONE = f"{_ALL}/{{msg_id}}"

OPERATIONS = [
    Operation(
        name="v1.message.create",
        method="POST",
        path=_ALL,
        handler=create,
        summary="Accept a message and deliver it to every matching endpoint.",
        body=wire.MessageIn,
        answers={202: wire.MessageOut},
        needs=Needs.PUBLISH,
    ),
    Operation(
        name="v1.message.list",
        method="GET",
        path=_ALL,
        handler=list_all,
        summary="List the messages of an application, newest first.",
        query=ListQuery,
        answers={200: wire.ListResponse[wire.MessageOut]},
        needs=Needs.READ,
    ),
    Operation(
        name="v1.message.get",
        method="GET",
        path=_ONE,
        handler=show,
        summary="Show one message.",
        answers={200: wire.MessageOut},
        needs=Needs.READ,
    ),
]
