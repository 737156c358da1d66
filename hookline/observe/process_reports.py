"""Metrics of several worker processes, added up by their supervisor.

Each process writes its counters to a file of its own about once a second. When a process ends, the supervisor keeps
its last report, so that a sum never decreases. The sum lacks
what the process counted after its last report.
"""

from __future__ import annotations

from pathlib import Path
from threading import Lock

import msgspec
from msgspec import Struct

from hookline.model.measures import Measured, Series, Snapshot, added
from hookline.observe.tally import MAX_EVENT_TYPES, Names, Tally

EVERY = 1.0  # seconds between two reports of a process
EVENT_TYPE = "event_type"  # the label whose values tenants choose


class Report(Struct, frozen=True, kw_only=True):
    """Counters of one process, or the sum of several, since they started."""

    snapshot: Snapshot = {}
    processes: int = 1
    in_flight: int = 0
    slots: int = 0
    outbox_lag: float = 0.0  # seconds for which the oldest row of an application's outbox has waited


_decode = msgspec.json.Decoder(Report).decode
_encode = msgspec.json.Encoder().encode


def report(tally: Tally) -> Report:
    return Report(
        snapshot=tally.snapshot(), in_flight=tally.in_flight, slots=tally.slots, outbox_lag=tally.outbox_lag()
    )


def write(path: Path, report: Report) -> None:
    """Replace the file atomically, so that a reader sees the old report or the new one."""
    draft = path.with_suffix(".draft")
    draft.write_bytes(_encode(report))
    draft.replace(path)


class ProcessReports:
    """The reports of a supervisor's worker processes. A thread reads them while the event loop adds and removes
    processes."""

    def __init__(self, directory: Path, *, event_types: int = MAX_EVENT_TYPES) -> None:
        self._directory = directory
        self._event_type = Names(event_types)
        self._running: dict[Path, Report] = {}  # the last report of each running process
        self._past: Snapshot = {}  # sum of the processes that have ended
        self._started = 0
        self._lock = Lock()  # so that a process that ends is counted exactly once

    def born(self) -> Path:
        """Return the file for the reports of a new process."""
        with self._lock:
            self._started += 1
            path = self._directory / str(self._started)
            self._running[path] = Report(processes=0)
        return path

    def died(self, path: Path) -> None:
        with self._lock:
            last = _read(path) or self._running[path]
            self._past = added((self._past, last.snapshot))
            del self._running[path]
        path.unlink(missing_ok=True)
        path.with_suffix(".draft").unlink(missing_ok=True)

    def together(self, own: Report) -> Report:
        """Return the sum of all processes, including the supervisor's `own` report."""
        with self._lock:
            self._running = {path: _read(path) or last for path, last in self._running.items()}
            everyone, past = [own, *self._running.values()], self._past
        return Report(
            snapshot=self._bounded(added([past, *(each.snapshot for each in everyone)])),
            processes=sum(each.processes for each in everyone),
            in_flight=sum(each.in_flight for each in everyone),
            slots=sum(each.slots for each in everyone),
            outbox_lag=max(each.outbox_lag for each in everyone),
        )

    def _bounded(self, total: Snapshot) -> Snapshot:
        """Limit the number of event types in the sum, as each process does. The other event types are counted as `other`."""
        return added([{name: self._relabelled(measured) for name, measured in total.items()}])

    def _relabelled(self, measured: Measured) -> Measured:
        labels = measured.family.labels
        if EVENT_TYPE not in labels:
            return measured
        at = labels.index(EVENT_TYPE)
        renamed = [
            Series((*each.labels[:at], self._event_type(each.labels[at]), *each.labels[at + 1 :]), each.values)
            for each in measured.series
        ]
        return Measured(family=measured.family, series=renamed)


def _read(path: Path) -> Report | None:
    """Return the report of a process; None if the file is missing or cannot be decoded."""
    try:
        return _decode(path.read_bytes())
    except (OSError, msgspec.DecodeError):
        return None
