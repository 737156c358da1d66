"""The statement that writes events to an outbox, for each engine. Its only parameter is all events as one JSON
document."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

import msgspec

from hookline.outbox.adapters.base import Engine, Statement
from hookline.outbox.event import Event

COLUMNS = Event.__struct_fields__  # the table of SQLite names its columns after the fields
_EXTRACTED = ", ".join(f"json_extract(value, '$.{column}')" for column in COLUMNS)

PUBLISH: dict[Engine, Statement] = {
    # The parameter is cast to text first: an application may have told its driver to encode every json parameter as
    # JSON.
    "postgres": Statement("SELECT hookline.publish_events(CAST(CAST(:events AS text) AS json))"),
    # json_each returns the events in their order.
    "sqlite": Statement(
        f"INSERT INTO hookline_outbox ({', '.join(COLUMNS)}) SELECT {_EXTRACTED} FROM json_each(:events)"  # noqa: S608
    ),
}


def as_document(events: Sequence[Event]) -> str:
    """Return the events as JSON, so that no driver has to convert arrays or NULL.

    The JSON is ASCII, which is valid in any encoding.
    """
    document = msgspec.json.encode(events, enc_hook=_instant).decode()
    return document if document.isascii() else json.dumps(json.loads(document), separators=(",", ":"))


def _instant(value: datetime) -> str:
    """Encode a subclass of datetime, such as that of a library that freezes the time in tests."""
    return value.isoformat()
