"""What every adapter writes, by database. One round trip on PostgreSQL; SQLite has none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from hookline.outbox.event import Event

# The parameter is `as_document`'s; each adapter puts its own placeholder in. As a text first: many an application has told
# its driver to turn whatever goes into a json parameter into JSON.
POSTGRES = "SELECT hookline.publish_events(CAST(CAST({} AS text) AS json))"

COLUMNS = (
    "app",
    "event_type",
    "payload",
    "event_id",
    "channels",
    "tags",
    "ordering_key",
    "deliver_at",
    "max_age",
    "organization",
    "trace",
)
SQLITE = f"INSERT INTO hookline_outbox ({', '.join(COLUMNS)}) VALUES ({{}})"  # noqa: S608  constants


def as_document(events: Sequence[Event]) -> str:
    """For PostgreSQL: the events as one JSON text, so that no driver's idea of an array or a NULL comes between.

    In ASCII, whatever encoding the connection has.
    """
    document = msgspec.json.encode(events, enc_hook=_instant).decode()
    return document if document.isascii() else json.dumps(json.loads(document), separators=(",", ":"))


def as_rows(events: Sequence[Event]) -> list[tuple[Any, ...]]:
    """For SQLite: the values of `COLUMNS`."""
    return [
        (
            one.app,
            one.event_type,
            one.payload,
            one.event_id,
            _listed(one.channels),
            _listed(one.tags),
            one.ordering_key,
            None if one.deliver_at is None else one.deliver_at.isoformat(),
            one.max_age,
            one.organization,
            one.trace,
        )
        for one in events
    ]


def _instant(value: datetime) -> str:
    """A subclass, as the libraries make that stop the clock in tests."""
    return value.isoformat()


def _listed(texts: tuple[str, ...] | None) -> str | None:
    return None if texts is None else msgspec.json.encode(texts).decode()
