"""Record outcomes even if the database refuses some of the data. Each engine writes the batch in its own way."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

from hookline import ids
from hookline.model.verdicts import RecordReport, Result
from hookline.rules.outcomes import bare, buried, clean, halves, joined, outcome_name, refused
from hookline.store.rows.documents import headers_blob


class BatchRecord(Protocol):
    """Writes a batch of outcomes. Each engine has its own."""

    data_errors: tuple[type[Exception], ...]  # errors that say that the database refuses the data

    async def write(self, results: Sequence[Result], wake: Collection[int]) -> RecordReport:
        """Write a batch in one transaction."""


class Record:
    """Record the outcomes of attempts."""

    def __init__(self, batch: BatchRecord) -> None:
        self._batch = batch

    async def record(self, results: Sequence[Result], *, wake: Collection[int] = ()) -> RecordReport:
        """Write outcomes in one transaction: attempts, deliveries, lane health in the given order, and wake tokens.
        Deliveries whose claim no longer holds are skipped.

        If a batch fails because of its data, it is bisected down to the bad row. That row is written again without the
        endpoint's response (headers, body, detail) and with its times moved into the range that the database can
        store, so that the delivery continues. If that fails too, the delivery becomes dead with the reason
        `unsendable`, in its own transaction, and `RecordReport.refused` names it.

        `wake` names endpoints that waited for slots of this worker. Each gets a wake token for now.
        """
        if not results:
            return RecordReport(recorded=0, stale=0)
        try:
            return await self._batch.write(results, wake)
        except self._batch.data_errors:
            if len(results) == 1:
                return await self._record_bare(results[0], wake)
        first, second = halves(results)
        return joined(await self.record(first, wake=wake), await self.record(second))

    async def _record_bare(self, result: Result, wake: Collection[int]) -> RecordReport:
        """Record a result that the database refused. Leave out the endpoint's response, so that the delivery
        continues."""
        try:
            return await self._batch.write([bare(result)], wake)
        except self._batch.data_errors:
            return await self._record_dead(result, wake)

    async def _record_dead(self, result: Result, wake: Collection[int]) -> RecordReport:
        """End the delivery as dead. If even that fails because its rows are damaged, skip it, so that other deliveries
        are recorded."""
        burial = buried(result, ids.mint(ids.ATTEMPT, result.job.claimed_at))
        try:
            return refused(result, await self._batch.write([burial], wake))
        except self._batch.data_errors:
            return RecordReport(recorded=0, stale=0, refused=(result.job.delivery_id,))


def attempt_values(result: Result, started_at: Any, recorded_at: Any) -> tuple[Any, ...]:
    """Return the columns of an attempt, in the order of the table. Instants are in the form that the engine stores."""
    job, sent, timing = result.job, result.sent, result.sent.timing
    return (
        result.attempt_id,
        job.delivery_id,
        job.app_no,
        job.endpoint_no,
        job.message_id,
        job.event_type,
        job.sent + 1,
        job.trigger,
        outcome_name(result),
        job.probe,
        started_at,
        sent.status,
        None if sent.error is None else sent.error.value,
        clean(sent.detail),
        clean(sent.address),
        headers_blob(sent.headers),
        sent.body,
        sent.truncated,
        timing.dns,
        timing.connect,
        timing.tls,
        timing.first_byte,
        timing.total,
        recorded_at,
    )
