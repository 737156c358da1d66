"""`publish` and its variants: write events to the outbox, in the open transaction of the application's connection."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Unpack

from hookline.outbox import adapters
from hookline.outbox.adapters.base import Adapter
from hookline.outbox.adapters.explain import explained, for_publish
from hookline.outbox.adapters.statements import PUBLISH, as_document
from hookline.outbox.coroutines import run_sync
from hookline.outbox.event import Event, EventOptions, event


def publish(conn: Any, app: str, event_type: str, payload: Any, **options: Unpack[EventOptions]) -> str:
    """Write an event to the outbox in the open transaction of `conn`. Return the event's id.

    app           the application that gets the event: its id, or the uid that you gave it
    payload       anything that becomes JSON: dict, list, dataclass, msgspec or pydantic model; or bytes that are JSON
    event_id      your own id of the event. A second event with the same id is dropped. The default is a new id
    channels      at most 5. Endpoints can subscribe to some channels only
    tags          at most 10, to find messages by
    ordering_key  events with the same key reach an endpoint one at a time, in the order of `publish`
    deliver_at    the earliest time of delivery, at most 30 days ahead
    max_age       seconds (or a timedelta) for the delivery with all retries, from `deliver_at` or from the relay
    organization  the organization of the application, if there are several organizations
    trace         traceparent (and tracestate after a space) for the receiver. The default is the current
                  OpenTelemetry span

    Raises `InvalidInput` for an event that could never be sent, and `NotInTransaction` for a connection in autocommit
    mode. In both cases nothing was written, and your transaction can go on.
    """
    return publish_many(conn, [event(app, event_type, payload, **options)])[0]


async def publish_async(conn: Any, app: str, event_type: str, payload: Any, **options: Unpack[EventOptions]) -> str:
    """Do the same as `publish` on an async connection or session of asyncpg, psycopg or SQLAlchemy."""
    return (await publish_many_async(conn, [event(app, event_type, payload, **options)]))[0]


def publish_many(conn: Any, events: Iterable[Event]) -> list[str]:
    """Write several events in one statement, in this order: `publish_many(conn, [event("acme", "order.paid", {...}),
    ...])`."""
    listed = _checked(events)
    if listed:
        run_sync(_write(adapters.of(conn), listed))
    return [one.event_id for one in listed]


async def publish_many_async(conn: Any, events: Iterable[Event]) -> list[str]:
    """Do the same as `publish_many` on an async connection or session."""
    listed = _checked(events)
    if listed:
        await _write(adapters.of_async(conn), listed)
    return [one.event_id for one in listed]


async def _write(on: Adapter, events: Sequence[Event]) -> None:
    await on.check()
    with explained(for_publish):
        await on.fetch(PUBLISH[on.engine], {"events": as_document(events)})
        if on.engine == "sqlite":
            await on.prune()


def _checked(events: Iterable[Event]) -> list[Event]:
    listed = list(events)
    for one in listed:
        if not isinstance(one, Event):
            raise TypeError(f"publish_many takes events of hookline.outbox.event(), not {type(one).__name__}")
    return listed
