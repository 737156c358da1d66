"""The way in: which library the connection belongs to, and one call of it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from datetime import datetime, timedelta
from importlib import import_module
from typing import Any

from hookline.outbox.errors import UnknownConnection
from hookline.outbox.event import Event, event

_Write = Callable[[Any, Sequence[Event]], None]
_WriteAsync = Callable[[Any, Sequence[Event]], Coroutine[None, None, None]]

# By the package that a connection's class comes from. Each module has `write(conn, events)`, `write_async(conn, events)` or both.
_ADAPTERS = {
    "sqlite3": "hookline.outbox.adapters.sqlite",
    "psycopg": "hookline.outbox.adapters.psycopg3",
    "psycopg2": "hookline.outbox.adapters.psycopg2",
    "asyncpg": "hookline.outbox.adapters.asyncpg",
    "sqlalchemy": "hookline.outbox.adapters.sqlalchemy",
    "django": "hookline.outbox.adapters.django",
}


def publish(
    conn: Any,
    app: str,
    event_type: str,
    payload: Any,
    *,
    event_id: str | None = None,
    channels: Iterable[str] | None = None,
    tags: Iterable[str] | None = None,
    ordering_key: str | None = None,
    deliver_at: datetime | None = None,
    max_age: float | timedelta | None = None,
    organization: str | None = None,
    trace: str | None = None,
) -> str:
    """Write an event to the outbox in the open transaction of `conn`; the event's id, by which it can be found later.

    app           the application that it is for: its id, or the uid that you gave it
    payload       what becomes JSON: dict, list, dataclass, msgspec or pydantic model ...; or bytes, which are JSON already
    event_id      your own id of the event: a second one with the same id is dropped. One is made if you give none
    channels      at most 5; endpoints can ask for some channels only
    tags          at most 10, to find messages by
    ordering_key  events with the same key reach an endpoint one at a time, in this order
    deliver_at    not before this instant; at most 30 days ahead
    max_age       seconds (or a timedelta) for its delivery with all retries, from `deliver_at` or from when it is relayed
    organization  whose application it is, where there are several organizations
    trace         traceparent (and tracestate after a space) for the receiver; the current OpenTelemetry span's by default

    Raises `InvalidInput` for what could never be sent and `NotInTransaction` for a connection that commits by itself; nothing
    was written then, and your transaction is still good.
    """
    made = event(
        app,
        event_type,
        payload,
        event_id=event_id,
        channels=channels,
        tags=tags,
        ordering_key=ordering_key,
        deliver_at=deliver_at,
        max_age=max_age,
        organization=organization,
        trace=trace,
    )
    return publish_many(conn, [made])[0]


async def publish_async(
    conn: Any,
    app: str,
    event_type: str,
    payload: Any,
    *,
    event_id: str | None = None,
    channels: Iterable[str] | None = None,
    tags: Iterable[str] | None = None,
    ordering_key: str | None = None,
    deliver_at: datetime | None = None,
    max_age: float | timedelta | None = None,
    organization: str | None = None,
    trace: str | None = None,
) -> str:
    """`publish` on a connection or session of asyncpg, psycopg's AsyncConnection, or SQLAlchemy's async ones."""
    made = event(
        app,
        event_type,
        payload,
        event_id=event_id,
        channels=channels,
        tags=tags,
        ordering_key=ordering_key,
        deliver_at=deliver_at,
        max_age=max_age,
        organization=organization,
        trace=trace,
    )
    return (await publish_many_async(conn, [made]))[0]


def publish_many(conn: Any, events: Iterable[Event]) -> list[str]:
    """Several in one round trip, in this order: `publish_many(conn, [event("acme", "order.paid", {...}), ...])`."""
    listed = _listed(events)
    if listed:
        write: _Write = _adapter(conn, "write", "publish_async")
        write(conn, listed)
    return [one.event_id for one in listed]


async def publish_many_async(conn: Any, events: Iterable[Event]) -> list[str]:
    """`publish_many` on a connection or session that `publish_async` takes."""
    listed = _listed(events)
    if listed:
        write: _WriteAsync = _adapter(conn, "write_async", "publish")
        await write(conn, listed)
    return [one.event_id for one in listed]


def _listed(events: Iterable[Event]) -> list[Event]:
    listed = list(events)
    for one in listed:
        if not isinstance(one, Event):
            raise TypeError(
                f"publish_many takes events, as hookline.outbox.event() makes them, not {type(one).__name__}"
            )
    return listed


def _adapter(conn: Any, name: str, twin: str) -> Any:
    """Of a wrapper, such as a tracer puts around a connection, that of the class that it says it is."""
    package = _package(type(conn)) or _package(conn.__class__)
    if package is None:
        raise UnknownConnection(
            f"{type(conn).__module__}.{type(conn).__qualname__} is not a connection or session of {', '.join(_ADAPTERS)}; "
            "hookline.publish() in SQL is for every other driver of PostgreSQL"
        )
    module = import_module(_ADAPTERS[package])
    if not hasattr(module, name):
        raise UnknownConnection(f"{type(conn).__name__} of {package}: use hookline.outbox.{twin} for it")
    return getattr(module, name)


def _package(kind: type) -> str | None:
    """Of the nearest class that is one of theirs: a subclass, a proxy of a pool or a scoped session is as good."""
    packages = (above.__module__.partition(".")[0] for above in kind.__mro__)
    return next((package for package in packages if package in _ADAPTERS), None)
