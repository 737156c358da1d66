"""Outcomes on their way into the store: kept in memory, written by the batch, and kept on while the database is away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

import structlog

from hookline import clock, ids
from hookline.errors import StoreUnavailable
from hookline.model import Dead, LeasedDelivery, RecordReport, Result
from hookline.observe.attempt_log import AttemptLog, loggable, silent
from hookline.observe.tally import Tally, kept
from hookline.observe.traces import Traces
from hookline.rules.claim.budgets import Slots
from hookline.store.outage import Outage
from hookline.store.protocols import Store

log = structlog.get_logger()

MAX_PER_BATCH = 500

T = TypeVar("T")


class Recorder:
    """One per worker. Results are written in the order in which they were added."""

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
        self._unsent: list[LeasedDelivery] = []
        self._writing = 0  # results and jobs that are on their way
        self._added = asyncio.Event()
        self._closing = False

    @property
    def waiting(self) -> int:
        return len(self._results) + len(self._unsent) + self._writing

    def add(self, result: Result) -> None:
        self._results.append(result)

    def give_back(self, job: LeasedDelivery) -> None:
        """It was claimed and not sent: released, no attempt spent."""
        self._unsent.append(job)

    def flush(self) -> None:
        """There is something to write."""
        self._added.set()

    async def run(self) -> None:
        """Write until `close`, then what is left; then return."""
        while not (self._closing and self.waiting == 0):
            await self._added.wait()
            self._added.clear()
            while self.waiting:
                await self._write()

    def close(self) -> None:
        self._closing = True
        self._added.set()

    def abandon(self) -> int:
        """Forget what could not be written; the leases run out, and the deliveries are made again."""
        lost = self.waiting
        self._journal.attempts(self._results, self._name_of, recorded=False)
        if self._traces is not None:
            self._traces.abandoned(self._results, self._name_of)
        self._results.clear()
        self._unsent.clear()
        return lost

    async def _write(self) -> None:
        """One batch at a time: written side by side they were smaller, and cost more than they saved."""
        if self._unsent:
            await self._release(self._cut(self._unsent))
        if self._results:
            await self._record(self._cut(self._results))

    def _cut(self, items: list[T]) -> list[T]:
        batch = items[:MAX_PER_BATCH]
        del items[:MAX_PER_BATCH]
        self._writing += len(batch)
        return batch

    async def _release(self, jobs: list[LeasedDelivery]) -> None:
        await self._patiently(jobs, self._unsent, self._store.release)
        self._wrote(len(jobs))

    async def _record(self, batch: list[Result]) -> None:
        await self._patiently(batch, self._results, self._record_batch)
        self._wrote(len(batch))

    async def _record_batch(self, batch: list[Result]) -> None:
        wake = self._slots.next_in_line(result.job for result in batch)
        began = clock.monotonic()
        report = await self._store.record(batch, wake=wake)
        self._tally.recorded(batch, report, clock.monotonic() - began)
        self._slots.leave_line(wake)
        if self._traces is not None:
            self._traces.recorded(batch, report, self._name_of)
        # It is written: a log that cannot be must not have it written again.
        with suppress(OSError):
            held = kept(batch, report)
            self._journal.attempts(held, self._name_of)
            if len(held) < len(batch):
                lost = [result for result in batch if result.attempt_id in report.lost]
                self._journal.attempts(lost, self._name_of, recorded=False)
            tell(held, report, self._name_of)

    def _wrote(self, count: int) -> None:
        self._writing -= count
        self._on_written()

    async def _patiently(self, batch: list[T], queue: list[T], write: Callable[[list[T]], Awaitable[object]]) -> None:
        """Write it. Back to the front of its queue if the database is away; halved on any other error, down to the one."""
        try:
            await write(batch)
        except StoreUnavailable as error:
            queue[:0] = batch
            await self._outage.failed("record", error, asyncio.Event())
        except Exception:
            # A fault of ours, not of the data (the store bisects that away). It must not hold up the others for ever: the
            # lease of the one that cannot be written runs out, and its delivery is made again.
            log.exception("record_failed", batch=len(batch))
            if len(batch) > 1:
                middle = len(batch) // 2
                await self._patiently(batch[:middle], queue, write)
                await self._patiently(batch[middle:], queue, write)
        else:
            self._outage.passed()


def tell(batch: Sequence[Result], report: RecordReport, name_of: Callable[[int], str]) -> None:
    """What an operator wants to read: deaths, changes of circuits, lost leases."""
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
