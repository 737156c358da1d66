"""Writes the outcomes of attempts to the store in batches. They wait in memory while the database is not reachable."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

import structlog

from hookline import clock, ids
from hookline.errors import StoreUnavailable
from hookline.model.deliveries import LeasedDelivery
from hookline.model.states import ErrorKind
from hookline.model.verdicts import Dead, RecordReport, Result
from hookline.observe.attempt_log import AttemptLog, silent
from hookline.observe.tally import Tally, kept
from hookline.observe.traces import Traces
from hookline.rules.claim.budgets import Slots
from hookline.rules.redaction import loggable
from hookline.store import Store
from hookline.store.outage import Outage

log = structlog.get_logger()

MAX_PER_BATCH = 500
# Seconds that the result of a timeout waits for further results. If a thousand requests time out, their results are
# written in a few batches. Otherwise these writes and the claims of other deliveries would wait for each other.
TIMEOUTS_TOGETHER = 0.03

T = TypeVar("T")

Write = Callable[[list[T]], Awaitable[object]]


class Recorder:
    """Writes results in the order in which they were added. There is one per worker."""

    def __init__(
        self,
        store: Store,
        slots: Slots,
        outage: Outage,
        on_written: Callable[[], None],
        name_of: Callable[[int], str],
        tally: Tally | None = None,
        journal: AttemptLog | None = None,
        traces: Traces | None = None,
    ) -> None:
        self._store = store
        self._slots = slots
        self._tally = tally or Tally()
        self._journal = journal or silent()
        self._traces = traces
        self._name_of = name_of  # an endpoint's public id by its number
        self._outage = outage
        self._on_written = on_written
        self._results: list[Result] = []
        self._timeouts: list[Result] = []  # they become part of `_results` after `TIMEOUTS_TOGETHER`
        self._unsent: list[LeasedDelivery] = []
        self._writing = 0  # number of results or released deliveries in the batch that is being written
        self._added = asyncio.Event()
        self._closing = False

    @property
    def waiting(self) -> int:
        return len(self._timeouts) + len(self._results) + len(self._unsent) + self._writing

    def add(self, result: Result) -> None:
        if result.sent.error is not ErrorKind.TIMEOUT:
            self._results.append(result)
            return
        if not self._timeouts:
            asyncio.get_running_loop().call_later(TIMEOUTS_TOGETHER, self._add_timeouts)
        self._timeouts.append(result)

    def _add_timeouts(self) -> None:
        self._results += self._timeouts
        self._timeouts.clear()
        self.flush()

    def give_back(self, job: LeasedDelivery) -> None:
        """Release a delivery that was claimed and not sent. This does not count as an attempt."""
        self._unsent.append(job)

    def flush(self) -> None:
        """Start writing the results that were added and the deliveries that were released."""
        self._added.set()

    async def run(self) -> None:
        """Write results and released deliveries until `close` is called and nothing is left to write."""
        while not (self._closing and self.waiting == 0):
            await self._added.wait()
            self._added.clear()
            while self._results or self._unsent or (self._slots.has_ready and not self._closing):
                await self._write()

    def close(self) -> None:
        self._closing = True
        self._added.set()

    def abandon(self) -> int:
        """Drop the results and the unsent deliveries that could not be written, and return how many they are. The
        leases of these deliveries expire, and the deliveries are retried."""
        self._add_timeouts()
        count, lost = self.waiting, tuple(result.attempt_id for result in self._results)
        self._show(self._results, RecordReport(recorded=0, stale=len(lost), lost=lost))
        self._results.clear()
        self._unsent.clear()
        return count

    async def _write(self) -> None:
        """Release one batch of deliveries that were not sent, then record one batch of results and wake lanes.

        The two writes do not run in parallel, because parallel writes make smaller batches and cost more.
        """
        if self._unsent:
            await self._write_batch(self._unsent, self._store.pipeline.release)
        if self._results or self._slots.has_ready:
            await self._write_batch(self._results, self._record)

    async def _write_batch(self, queue: list[T], write: Write[T]) -> None:
        batch = queue[:MAX_PER_BATCH]
        del queue[:MAX_PER_BATCH]
        self._writing += len(batch)
        await self._write_or_keep(batch, queue, write)
        self._writing -= len(batch)
        self._on_written()

    async def _record(self, batch: list[Result]) -> None:
        wake = self._slots.next_in_line(result.job for result in batch)
        began = clock.monotonic()
        report = await self._store.pipeline.record(batch, wake=wake)
        self._tally.recorded(batch, report, clock.monotonic() - began)
        self._slots.leave_line(wake)
        # The batch is committed. An error while writing logs or traces must not cause a second write.
        with suppress(OSError):
            self._show(batch, report)
            _log_outcomes(kept(batch, report), report, self._name_of)

    def _show(self, batch: Sequence[Result], report: RecordReport) -> None:
        """Write attempts to the log and to the traces."""
        if self._traces is not None:
            self._traces.recorded(batch, report, self._name_of)
        self._journal.attempts(batch, self._name_of, frozenset(report.lost))

    async def _write_or_keep(self, batch: list[T], queue: list[T], write: Write[T]) -> None:
        """Write a batch. If the database is not reachable, put the batch back at the start of its queue. On any other
        error, write each half of the batch by itself, down to single items. Drop a single item that fails."""
        try:
            await write(batch)
        except StoreUnavailable as error:
            queue[:0] = batch
            await self._outage.failed("record", error, asyncio.Event())
        except Exception:
            # This is a bug in Hookline, because the store itself handles data that the database refuses. The bug must
            # not block other outcomes. If an outcome cannot be written, the lease of its delivery expires, and the
            # delivery is retried.
            log.exception("record_failed", batch=len(batch))
            if len(batch) > 1:
                middle = len(batch) // 2
                await self._write_or_keep(batch[:middle], queue, write)
                await self._write_or_keep(batch[middle:], queue, write)
            elif not batch:  # the write only had to wake lanes; claims check these lanes again a little later
                self._slots.leave_line(self._slots.next_in_line(()))
        else:
            self._outage.passed()


def _log_outcomes(batch: Sequence[Result], report: RecordReport, name_of: Callable[[int], str]) -> None:
    """Log the events that matter to an operator: dead letters, changes of circuits, lost leases."""
    for result in batch:
        verdict = result.judgement.verdict
        if isinstance(verdict, Dead):
            log.warning(
                "delivery_died",
                message=result.job.message_id,
                dead_letter=f"{ids.DEAD_LETTER}{result.job.delivery_id}",
                endpoint=name_of(result.job.endpoint_no),
                reason=str(verdict.reason),
                detail=loggable(verdict.detail),
            )
    for event in report.events:
        log.warning(str(event.kind), endpoint=name_of(event.endpoint_no), cause=loggable(event.cause))
    if report.stale:
        log.warning("outcomes_of_lost_leases", count=report.stale)
    if report.refused:
        log.error("outcomes_refused_by_the_database", deliveries=report.refused)
