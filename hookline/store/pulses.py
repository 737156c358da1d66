"""Pulses as rows: what both engines share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby

import msgspec
from msgspec.structs import replace

from hookline.model.pulses import Pulse, together
from hookline.store.rows import Reading, Row

MAX_READ = 20_000  # that one look takes: two hours of 27 processes, or a week of minutes
MAX_ROLLED = 5_000

_decode = msgspec.json.Decoder(Pulse).decode
encode = msgspec.json.Encoder().encode


def read(row: Row, reading: Reading) -> Pulse:
    """The database's clock counts, not the process's."""
    return replace(_decode(row["data"]), at=reading.instant(row["at"]), process=row["process"])


def minutes(found: Sequence[Row], reading: Reading, *, full: bool) -> Iterator[Pulse]:
    """Those that are whole. Of more rows than were asked for the last minute may not be: it comes with the next look."""
    groups = [(minute, list(rows)) for minute, rows in groupby(found, key=lambda row: row["minute"])]
    for minute, rows in groups[:-1] if full and len(groups) > 1 else groups:
        yield _minute([read(row, reading) for row in rows], reading.instant(minute))


def _minute(pulses: Sequence[Pulse], at: datetime) -> Pulse:
    """Gauges are of the last pulse of each process: summed over a minute they would say nothing."""
    last = {pulse.process: pulse for pulse in pulses}.values()
    total = together(pulses, at)
    return replace(
        total,
        processes=len(last),
        in_flight=sum(pulse.in_flight for pulse in last),
        slots=sum(pulse.slots for pulse in last),
    )
