"""Messages: publish them, resend them, and delete their content."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TypeVar

from hookline import clock
from hookline.errors import Conflict, InvalidInput, NoSuch, NotFound
from hookline.model.audit import NewAuditEntry
from hookline.model.callers import Caller
from hookline.model.catalogue import Application
from hookline.model.endpoints import Endpoint
from hookline.model.messages import Accepted, BatchAccepted, IngestStatus, Message, NewBatch, NewMessage
from hookline.model.states import EndpointStatus
from hookline.rules.checks.message import check_message
from hookline.services import audit, lookup
from hookline.services.deps import Deps
from hookline.services.lookup import EndpointRef, MessageRef
from hookline.services.schemas.payloads import TimeBudget

T = TypeVar("T")

TURN = 0.005  # seconds for which the check of a batch runs before it lets other requests run


class KeyReused(InvalidInput):
    """The idempotency key was used for another request."""

    def __init__(self) -> None:
        super().__init__("this idempotency key was used for another request")


# ── publish ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def publish(
    deps: Deps,
    by: Caller,
    app: Application,
    new: NewMessage,
    *,
    decoded: bool = False,
    unsupported: InvalidInput | None = None,
) -> Accepted:
    """Accept a message, and return once it is durable. If a message was accepted earlier with the same idempotency
    key, return that message, even if the checks would refuse it now.

    The calling code looks up `app`, because a server caches applications to save a query per message. `decoded`: see
    `check_message`. `unsupported` is the error for a feature that the request uses and Hookline does not have.
    """
    try:
        if unsupported is not None:
            raise unsupported
        checked = await _checked(deps, by, new, TimeBudget(app.id), decoded)
    except InvalidInput:
        before = await _accepted_before(deps, new)
        if before is None:
            raise
        return check_accepted(before)
    accepted = await deps.submit(checked)
    if accepted.status == IngestStatus.NO_APPLICATION:
        deps.forget_application(app)
    return check_accepted(accepted)


async def publish_batch(
    deps: Deps,
    by: Caller,
    app: Application,
    items: Iterable[NewMessage | str],
    *,
    key: bytes | None = None,
    body: bytes | None = None,
) -> BatchAccepted:
    """Accept messages in one transaction. An item is a message, or an error text if it could not be read. A refused
    item does not stop the others.

    `key` and `body` are the hashes of the idempotency key and of the request's body. Call `check_accepted` on each
    answer.
    """
    accepted: list[NewMessage] = []
    faults: dict[int, str] = {}
    budget = TimeBudget(app.id)
    async for position, item in in_turns(enumerate(items)):
        if isinstance(item, str):
            faults[position] = item
            continue
        try:
            accepted.append(await _checked(deps, by, item, budget, decoded=True))
        except InvalidInput as error:
            faults[position] = str(error)
    batch = NewBatch(app_no=app.no, messages=tuple(accepted), faults=faults, idempotency_key=key, idempotency_body=body)
    try:
        made = await deps.submit_batch(batch)
    except NotFound:
        deps.forget_application(app)
        raise
    if made.status == IngestStatus.KEY_REUSED:
        raise KeyReused
    return made


async def in_turns(items: Iterable[T], monotonic: Callable[[], float] = clock.monotonic) -> AsyncIterator[T]:
    """Iterate over a long list, and let other requests run every few milliseconds."""
    until = monotonic() + TURN
    for item in items:
        if monotonic() > until:
            await asyncio.sleep(0)  # let other requests run between two messages of a batch
            until = monotonic() + TURN
        yield item


async def _checked(deps: Deps, by: Caller, new: NewMessage, budget: TimeBudget, decoded: bool) -> NewMessage:
    checked = check_message(new, now=deps.wall(), max_payload=deps.max_payload, decoded=decoded)
    await deps.schemas.check(by.org_id, checked.event_type, checked.payload, budget)
    return checked


async def _accepted_before(deps: Deps, new: NewMessage) -> Accepted | None:
    if new.idempotency_key is None or new.idempotency_body is None:
        return None
    return await deps.store.pipeline.accepted_under(new.idempotency_key, new.idempotency_body)


def check_accepted(accepted: Accepted) -> Accepted:
    """Return `accepted` if the message was accepted. Otherwise raise the error that says why not."""
    match accepted.status:
        case IngestStatus.ACCEPTED | IngestStatus.REPLAYED:
            return accepted
        case IngestStatus.KEY_REUSED:
            raise KeyReused
        case IngestStatus.EVENT_ID_TAKEN:
            raise Conflict(f"the event id is taken by {accepted.message_id}")
        case IngestStatus.NO_APPLICATION:
            raise NotFound("the application is gone")


# ── published messages ────────────────────────────────────────────────────────────────────────────────────────────


async def resend(deps: Deps, by: Caller, ref: MessageRef, endpoint: EndpointRef) -> tuple[Message, Endpoint]:
    """Create a new delivery of the message, whatever the state of earlier deliveries. The new delivery is due now."""
    message = await lookup.message(deps, by, ref)
    to = await lookup.endpoint(deps, by, endpoint)
    if to.app_no != message.app_no:
        raise NoSuch("endpoint", endpoint.endpoint)
    if to.status == EndpointStatus.DISABLED:
        raise Conflict(f"{to.id} is disabled, and nothing is sent to it: enable it first")
    entry, sent = _entry(by, "message.resend", message, f"to {to.id}"), None
    if message.payload is not None:
        sent = await deps.store.repair.resend(to.no, message.id, note=lambda sent: None if sent is None else entry)
    if sent is None:
        raise Conflict(f"the payload of {message.id} is gone: it cannot be sent again")
    return message, to


async def expunge(deps: Deps, by: Caller, ref: MessageRef, *, force: bool = False) -> Message:
    """Delete the payload. Without `force`, refuse if an open or dead delivery needs it."""
    found = await lookup.message(deps, by, ref)
    entry = None if found.payload is None else _entry(by, "message.expunge", found)
    if not await deps.store.history.expunge_message(found, force=force, note=lambda done: entry if done else None):
        raise Conflict(
            f"{found.id} has deliveries that are open, or dead and unresolved, and they need its payload: "
            "wait for them, resolve them, or expunge it with force=true"
        )
    return found


async def expunge_attempt(deps: Deps, by: Caller, ref: MessageRef, attempt_id: str) -> None:
    """Delete the headers and the body of the endpoint's response."""
    found = await lookup.message(deps, by, ref)
    entry = _entry(by, "attempt.expunge", found, attempt_id)
    if not await deps.store.history.expunge_attempt(found, attempt_id, note=lambda done: entry if done else None):
        raise NoSuch("attempt", attempt_id)


def _entry(by: Caller, action: str, message: Message, detail: str = "") -> NewAuditEntry:
    return audit.entry(by, action, message.id, app_id=message.app_id, detail=detail)
