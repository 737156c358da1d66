"""What is in the outbox, as the connection of a test sees it: its own open transaction included, rolled-back savepoints not."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from hookline.errors import InvalidInput
from hookline.outbox.adapters.trouble import explained_read
from hookline.outbox.handle import Engine, Rows, handle, handle_async


class Published(Struct, frozen=True, kw_only=True):
    """One event that will be sent once its transaction commits."""

    row_id: int
    app: str
    event_type: str
    payload: Any  # decoded
    body: bytes  # the same as it is sent
    event_id: str
    channels: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    ordering_key: str | None = None
    deliver_at: datetime | None = None
    max_age: float | None = None  # seconds
    organization: str | None = None
    trace: str | None = None
    created_at: datetime


# One JSON text for each row, so that every driver gives the same.
_POSTGRES = """
SELECT json_build_object('row_id', id, 'app', app, 'event_type', event_type, 'event_id', event_id,
    'body', translate(encode(payload, 'base64'), chr(10), ''), 'channels', channels, 'tags', tags,
    'ordering_key', ordering_key, 'deliver_at', deliver_at, 'max_age', CAST(policy ->> 'max_age' AS float8),
    'organization', org_id, 'trace', trace, 'created_at', created_at)::text
FROM hookline.outbox WHERE error IS NULL AND id > {after} ORDER BY id
"""
_SQLITE = """
SELECT id, app, event_type, payload, event_id, channels, tags, ordering_key, deliver_at, max_age, organization, trace, created_at
FROM hookline_outbox WHERE id > {after} ORDER BY id
"""
_QUERIES: dict[Engine, str] = {"postgres": _POSTGRES, "sqlite": _SQLITE}
_LATEST: dict[Engine, str] = {
    "postgres": "SELECT coalesce(max(id), 0) FROM hookline.outbox",
    "sqlite": "SELECT coalesce(max(id), 0) FROM hookline_outbox",
}
_CLEAR: dict[Engine, str] = {
    "postgres": "DELETE FROM hookline.outbox WHERE error IS NULL",
    "sqlite": "DELETE FROM hookline_outbox",
}


class _Row(Struct, kw_only=True):
    row_id: int
    app: str
    event_type: str
    body: bytes
    event_id: str
    channels: tuple[str, ...] | None
    tags: tuple[str, ...] | None
    ordering_key: str | None
    deliver_at: datetime | None
    max_age: float | None
    organization: str | None
    trace: str | None
    created_at: datetime


def published(
    conn: Any, event_type: str | None = None, *, app: str | None = None, payload: Any = None, after: int = 0
) -> list[Published]:
    """The events in the outbox that `conn` sees, in the order in which they were published.

    `conn` is what you publish on: a connection or session of sqlite3, psycopg, psycopg2, SQLAlchemy or Django. An event whose
    savepoint was rolled back is not there. `payload` asks for parts of it, see `matching`; `after` leaves out earlier rows.
    """
    on = handle(conn)
    with explained_read:
        rows = on.fetch(_QUERIES[on.engine].format(after=int(after)))
    found = _decoded(on.engine, rows)
    return matching(found, event_type, app=app, payload=payload)


async def published_async(
    conn: Any, event_type: str | None = None, *, app: str | None = None, payload: Any = None, after: int = 0
) -> list[Published]:
    """`published` on a connection or session of asyncpg, psycopg's AsyncConnection, or SQLAlchemy's async ones."""
    on = handle_async(conn)
    engine = await on.engine()
    with explained_read:
        rows = await on.fetch(_QUERIES[engine].format(after=int(after)))
    found = _decoded(engine, rows)
    return matching(found, event_type, app=app, payload=payload)


def latest(conn: Any) -> int:
    """The number of the last row that is there; 0 if there is none."""
    on = handle(conn)
    [(number,)] = on.fetch(_LATEST[on.engine])
    return int(number)


def clear(conn: Any) -> None:
    """Empty the outbox of a test database, for tests that commit. Nothing is committed by this."""
    on = handle(conn)
    with explained_read:
        on.run([_CLEAR[on.engine]])


async def clear_async(conn: Any) -> None:
    on = handle_async(conn)
    engine = await on.engine()
    with explained_read:
        await on.run([_CLEAR[engine]])


def matching(
    events: Iterable[Published], event_type: str | None = None, *, app: str | None = None, payload: Any = None
) -> list[Published]:
    """Those of this type, for this application, whose payload has at least these parts.

    An object may have more keys than the one asked for; lists and everything else must be equal. None asks for nothing.
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
        return False  # True is 1 to Python, but not to JSON
    return bool(whole == part)


def described(events: Sequence[Published]) -> str:
    """For the message of a failed assertion."""
    if not events:
        return "nothing was published"
    lines = [f"  {one.event_type} for {one.app}: {one.body.decode(errors='replace')[:200]}" for one in events[:20]]
    more = [f"  and {len(events) - 20} more"] if len(events) > 20 else []
    return "\n".join(["published were:", *lines, *more])


def _decoded(engine: Engine, rows: Rows) -> list[Published]:
    try:
        return [_event(_of_postgres(row) if engine == "postgres" else _of_sqlite(row)) for row in rows]
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise InvalidInput(f"the outbox has a row that was not written by publish, and is no event: {error}") from error


def _event(row: _Row) -> Published:
    fields = {name: getattr(row, name) for name in row.__struct_fields__}
    return Published(**fields, payload=json.loads(row.body))


def _of_postgres(row: tuple[Any, ...]) -> _Row:
    return msgspec.json.decode(row[0], type=_Row)


def _of_sqlite(row: tuple[Any, ...]) -> _Row:
    """The lists are JSON, the instants ISO 8601."""
    fields = dict(zip(_Row.__struct_fields__, row, strict=True))
    body = fields["body"]
    for name in ("channels", "tags"):
        if fields[name] is not None:
            fields[name] = msgspec.json.decode(fields[name])
    fields["body"] = body.encode() if isinstance(body, str) else body
    return msgspec.convert(fields, _Row)
