"""Several processes under one that shows them all: each writes down what it did, the one adds them up.

A process that dies leaves its last word behind, so that a sum never falls; what it did in the moment after that word is lost
with it. Each life has a file of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from threading import Lock

import msgspec
from msgspec import Struct

from hookline.model.measures import Labels, Measured, Series, Snapshot, added
from hookline.observe.tally import MAX_EVENT_TYPES, Names, Tally

EVERY = 1.0  # seconds between two words of a process
EVENT_TYPE = "event_type"  # the label that tenants choose


class Report(Struct, frozen=True, kw_only=True):
    """What one process, or several, did since they started; and what they are at."""

    snapshot: Snapshot = {}
    processes: int = 1
    in_flight: int = 0
    slots: int = 0
    outbox_lag: float = 0.0  # of applications' outboxes


_decode = msgspec.json.Decoder(Report).decode
_encode = msgspec.json.Encoder().encode


def report(tally: Tally) -> Report:
    return Report(
        snapshot=tally.snapshot(), in_flight=tally.in_flight, slots=tally.slots, outbox_lag=tally.outbox_lag()
    )


def write(path: Path, said: Report) -> None:
    """Whole or not at all: whoever reads it finds the last one or this one."""
    draft = path.with_suffix(".draft")
    draft.write_bytes(_encode(said))
    draft.replace(path)


class ProcessReports:
    """The processes that one has started. Read from a thread; told of births and deaths from the loop."""

    def __init__(self, directory: Path, *, event_types: int = MAX_EVENT_TYPES) -> None:
        self._directory = directory
        self._event_type = Names(event_types)
        self._living: dict[Path, Report] = {}  # the last word of each
        self._past: Snapshot = {}  # what the dead have done
        self._lives = 0
        self._lock = Lock()  # nobody is counted twice, or not at all, in the moment of their death

    def born(self) -> Path:
        """Where the next process is to write."""
        with self._lock:
            self._lives += 1
            path = self._directory / str(self._lives)
            self._living[path] = Report(processes=0)
        return path

    def died(self, path: Path) -> None:
        with self._lock:
            last = _read(path) or self._living[path]
            self._past = added((self._past, last.snapshot))
            del self._living[path]
        path.unlink(missing_ok=True)
        path.with_suffix(".draft").unlink(missing_ok=True)

    def together(self, own: Report) -> Report:
        """All of them, with the one that asks."""
        with self._lock:
            self._living = {path: _read(path) or last for path, last in self._living.items()}
            everyone, past = [own, *self._living.values()], self._past
        return Report(
            snapshot=self._bounded(added([past, *(each.snapshot for each in everyone)])),
            processes=sum(each.processes for each in everyone),
            in_flight=sum(each.in_flight for each in everyone),
            slots=sum(each.slots for each in everyone),
            outbox_lag=max(each.outbox_lag for each in everyone),
        )

    def _bounded(self, total: Snapshot) -> Snapshot:
        """Each process names so many event types; together they name no more."""
        return {name: self._within(measured) for name, measured in total.items()}

    def _within(self, measured: Measured) -> Measured:
        labels = measured.family.labels
        if EVENT_TYPE not in labels:
            return measured
        at = labels.index(EVENT_TYPE)
        renamed = (
            Series((*each.labels[:at], self._event_type(each.labels[at]), *each.labels[at + 1 :]), each.values)
            for each in measured.series
        )
        return Measured(family=measured.family, series=_merged(renamed))


def _merged(found: Iterable[Series]) -> list[Series]:
    rows: dict[Labels, list[float]] = {}
    for each in found:
        row = rows.get(each.labels)
        rows[each.labels] = each.values if row is None else [a + b for a, b in zip(row, each.values, strict=True)]
    return [Series(labels, values) for labels, values in rows.items()]


def _read(path: Path) -> Report | None:
    """None: it has not said anything yet, or nothing that can be read."""
    try:
        return _decode(path.read_bytes())
    except (OSError, msgspec.DecodeError):
        return None
