"""Outcomes on their way into the store: kept in memory, written by the batch, and kept on while the database is away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import structlog

from hookline.errors import StoreUnavailable
from hookline.flow.outage import Outage
from hookline.model import Dead, Job, RecordReport, Result
from hookline.store.base import Store

log = structlog.get_logger()

MOST_PER_BATCH = 500


class Recorder:
    """One per worker. Results are written in the order in which they were added."""

    def __init__(self, store: Store, outage: Outage, on_written: Callable[[Sequence[Job]], None]) -> None:
        self._store = store
        self._outage = outage
        self._on_written = on_written
        self.crowded: set[int] = set()  # endpoints that wait for one of their own to be recorded
        self._results: list[Result] = []
        self._unsent: list[Job] = []
        self._added = asyncio.Event()
        self._closing = asyncio.Event()

    @property
    def waiting(self) -> int:
        return len(self._results) + len(self._unsent)

    def add(self, result: Result) -> None:
        self._results.append(result)
        self._added.set()

    def give_back(self, job: Job) -> None:
        """It was claimed and not sent: released, no attempt spent."""
        self._unsent.append(job)
        self._added.set()

    async def run(self) -> None:
        """Write until `close`, then what is left; then return."""
        while not (self._closing.is_set() and self.waiting == 0):
            await self._added.wait()
            self._added.clear()
            while self.waiting:
                await self._write_patiently()

    def close(self) -> None:
        self._closing.set()
        self._added.set()

    def abandon(self) -> int:
        """Forget what could not be written; the leases run out, and the deliveries are made again."""
        lost = self.waiting
        self._results.clear()
        self._unsent.clear()
        return lost

    async def _write_patiently(self) -> None:
        try:
            await self._write()
            self._outage.passed()
        except StoreUnavailable as error:
            await self._outage.failed("record", error, asyncio.Event())
        except Exception:
            # A bug in us, not in the data (the store bisects that away). Wait for the lease rather than spin.
            log.exception("record_failed", results=len(self._results))
            await self._outage.failed("record", RuntimeError("see above"), asyncio.Event())

    async def _write(self) -> None:
        """Nothing leaves the lists before it is written. Others only append meanwhile."""
        if self._unsent:
            jobs = self._unsent[:MOST_PER_BATCH]
            await self._store.release(jobs)
            del self._unsent[: len(jobs)]
            self._on_written(jobs)
        if self._results:
            batch = self._results[:MOST_PER_BATCH]
            wake = self.crowded.intersection(result.job.endpoint_no for result in batch) if self.crowded else ()
            report = await self._store.record(batch, wake=wake)
            self.crowded.difference_update(wake)
            del self._results[: len(batch)]
            self._on_written([result.job for result in batch])
            tell(batch, report)


def tell(batch: Sequence[Result], report: RecordReport) -> None:
    """What an operator wants to read: deaths, changes of circuits, lost leases."""
    for result in batch:
        verdict = result.judgement.verdict
        if isinstance(verdict, Dead):
            log.warning(
                "delivery_died",
                message=result.job.message_id,
                delivery=result.job.delivery_id,
                endpoint_no=result.job.endpoint_no,
                reason=str(verdict.reason),
                detail=verdict.detail,
            )
    for event in report.events:
        log.warning(str(event.kind), endpoint_no=event.endpoint_no, cause=event.cause)
    if report.stale:
        log.warning("outcomes_of_lost_leases", count=report.stale)
    if report.refused:
        log.error("outcomes_refused_by_the_database", deliveries=report.refused)
