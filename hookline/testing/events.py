"""The events in the outbox, as the connection of a test sees them.

The connection sees events of its own open transaction, but not events of savepoints that were rolled back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict, Unpack

import msgspec

from hookline.errors import InvalidInput
from hookline.outbox import adapters
from hookline.outbox.adapters.base import Adapter, Engine, Rows
from hookline.outbox.adapters.explain import explained, for_read
from hookline.outbox.coroutines import run_sync
from hookline.outbox.event import EventFields


class EventFilter(TypedDict, total=False):
    """Selects events. `matching` documents the fields."""

    app: str | None
    payload: Any


class _Row(EventFields, frozen=True, kw_only=True):
    row_id: int
    body: bytes  # the payload as it is sent
    created_at: datetime


class Published(_Row, frozen=True, kw_only=True):
    """One event that will be sent after its transaction commits."""

    payload: Any  # the decoded body


# Returns each row as one JSON text, because drivers differ in the Python types that they return for columns.
_POSTGRES = """
SELECT CAST(json_build_object('row_id', id, 'app', app, 'event_type', event_type, 'event_id', event_id,
    'body', translate(encode(payload, 'base64'), chr(10), ''), 'channels', channels, 'tags', tags,
    'ordering_key', ordering_key, 'deliver_at', deliver_at, 'max_age', CAST(policy ->> 'max_age' AS float8),
    'organization', org_id, 'trace', trace, 'created_at', created_at) AS text)
FROM hookline.outbox WHERE error IS NULL AND id > {after} ORDER BY id
"""
_SQLITE = """
SELECT app, event_type, event_id, channels, tags, ordering_key, deliver_at, max_age, organization, trace, id, payload, created_at
FROM hookline_outbox WHERE id > {after} ORDER BY id
"""
_QUERIES: dict[Engine, str] = {"postgres": _POSTGRES, "sqlite": _SQLITE}
_CLEAR: dict[Engine, str] = {
    "postgres": "DELETE FROM hookline.outbox WHERE error IS NULL",
    "sqlite": "DELETE FROM hookline_outbox",
}


def published(
    conn: Any, event_type: str | None = None, *, after: int = 0, **wanted: Unpack[EventFilter]
) -> list[Published]:
    """Return the events in the outbox that `conn` sees, in the order in which they were published.

    `conn` is the connection or session that you publish on: of sqlite3, psycopg, psycopg2, SQLAlchemy or Django. An
    event whose savepoint was rolled back is not returned. `app` and `payload` select events, see `matching`. Rows up
    to the id `after` are left out.
    """
    return matching(run_sync(_read(adapters.of(conn), after)), event_type, **wanted)


async def published_async(
    conn: Any, event_type: str | None = None, *, after: int = 0, **wanted: Unpack[EventFilter]
) -> list[Published]:
    """Do the same as `published` on an async connection or session of asyncpg, psycopg or SQLAlchemy."""
    return matching(await _read(adapters.of_async(conn), after), event_type, **wanted)


def latest(conn: Any) -> int:
    """Return the highest id of a row in the outbox, or 0 if the outbox is empty."""
    on = adapters.of(conn)
    table = "hookline.outbox" if on.engine == "postgres" else "hookline_outbox"
    [(number,)] = run_sync(on.peek(f"SELECT coalesce(max(id), 0) FROM {table}"))  # noqa: S608  constants
    return int(number)


def clear(conn: Any) -> None:
    """Empty the outbox of a test database, for tests that commit. This does not commit."""
    run_sync(_clear(adapters.of(conn)))


async def clear_async(conn: Any) -> None:
    """Do the same as `clear` on an async connection or session."""
    await _clear(adapters.of_async(conn))


def matching(
    events: Iterable[Published], event_type: str | None = None, *, app: str | None = None, payload: Any = None
) -> list[Published]:
    """Return the events of this type, for this application, whose payload contains `payload`.

    An object in the event's payload may have more keys than the object in `payload` that it is compared with. All
    other values must be equal, and lists must have the same length. An argument that is None selects all events.
    """
    return [
        one
        for one in events
        if (event_type is None or one.event_type == event_type)
        and (app is None or one.app == app)
        and (payload is None or contains(one.payload, payload))
    ]


def contains(whole: Any, part: Any) -> bool:
    if isinstance(part, Mapping) and isinstance(whole, Mapping):
        return all(key in whole and contains(whole[key], value) for key, value in part.items())
    if isinstance(part, list | tuple) and isinstance(whole, list | tuple):
        return len(part) == len(whole) and all(map(contains, whole, part))
    if isinstance(part, bool) is not isinstance(whole, bool):
        return False  # True equals 1 in Python, but not in JSON
    return bool(whole == part)


def described(events: Sequence[Published]) -> str:
    """Return a list of the events, for the message of a failed assertion."""
    if not events:
        return "nothing was published"
    lines = [f"  {one.event_type} for {one.app}: {one.body.decode(errors='replace')[:200]}" for one in events[:20]]
    more = [f"  and {len(events) - 20} more"] if len(events) > 20 else []
    return "\n".join(["published were:", *lines, *more])


async def _read(on: Adapter, after: int) -> list[Published]:
    with explained(for_read):
        rows = await on.peek(_QUERIES[on.engine].format(after=int(after)))
    return _decoded(on.engine, rows)


async def _clear(on: Adapter) -> None:
    with explained(for_read):
        await on.run([_CLEAR[on.engine]])


def _decoded(engine: Engine, rows: Rows) -> list[Published]:
    try:
        decode = _of_sqlite if engine == "sqlite" else lambda row: msgspec.json.decode(row[0], type=_Row)
        return [_event(decode(row)) for row in rows]
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise InvalidInput(f"the outbox has a row that was not written by publish and is no event: {error}") from error


def _event(row: _Row) -> Published:
    return Published(**msgspec.structs.asdict(row), payload=json.loads(row.body))


def _of_sqlite(row: tuple[Any, ...]) -> _Row:
    """Decode the columns: lists are JSON, and instants are ISO 8601."""
    fields = dict(zip(_Row.__struct_fields__, row, strict=True))
    body = fields["body"]
    for name in ("channels", "tags"):
        if fields[name] is not None:
            fields[name] = msgspec.json.decode(fields[name])
    fields["body"] = body.encode() if isinstance(body, str) else body
    return msgspec.convert(fields, _Row)
