"""Record the outcomes of attempts. If the database refuses the data of one outcome, the others are still recorded, and
the refused outcome is recorded without the data of the response. Each engine writes the batch in its own way."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

from msgspec.structs import astuple

from hookline import ids
from hookline.model.attempts import Sent
from hookline.model.lanes import LaneEvent
from hookline.model.states import EndpointStatus
from hookline.model.verdicts import RecordReport, Result
from hookline.rules.outcomes import bare, buried, clean, dying_endpoints, halves, joined, outcome_name, refused
from hookline.store.bounds import MAX_PAUSE_CHECK, PAUSE_CHECK_ROWS
from hookline.store.options import StoreOptions
from hookline.store.plans.endpoint_state import stop
from hookline.store.plans.plan import Plan, Step, value
from hookline.store.rows import Reading
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
        Deliveries whose claim no longer holds are skipped. An endpoint that now has too many dead letters is paused.

        If a batch fails because of its data, it is bisected down to the bad row. That row is written again without the
        endpoint's response (headers, body, detail) and with its times moved into the range that the database can
        store, so that the delivery continues. If that fails too, the delivery becomes dead with the reason
        `unsendable`, in its own transaction, and `RecordReport.refused` names it.

        `wake` names endpoints that waited for slots of this worker. Each gets a wake token that is due now.
        """
        if not results and not wake:
            return RecordReport(recorded=0, stale=0)
        try:
            return await self._batch.write(results, wake)
        except self._batch.data_errors:
            if not results:
                raise
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
        """Record the delivery as dead, because the database refused its result. If the database refuses this too,
        because rows of the delivery are damaged, write nothing about this delivery and report it in `refused`, so
        that other deliveries are recorded."""
        burial = buried(result, ids.mint(ids.ATTEMPT, result.job.claimed_at))
        try:
            return refused(result, await self._batch.write([burial], wake))
        except self._batch.data_errors:
            return RecordReport(recorded=0, stale=0, refused=(result.job.delivery_id,))


def pause_dying(results: Sequence[Result], options: StoreOptions, read: Reading) -> Plan[tuple[LaneEvent, ...]]:
    """Pause the endpoints that have more dead letters in a day than the deployment allows, after this batch. This
    plan does not find an endpoint if the limit is above `MAX_PAUSE_CHECK`, or if most of its dead letters have reasons
    that do not count. The sweep pauses such endpoints."""
    most, dying = options.pause_dead_per_day, dying_endpoints(results)
    if not dying or most > MAX_PAUSE_CHECK:
        return ()
    rows_read = PAUSE_CHECK_ROWS * (most + 1)
    causes = {}
    for row in (yield Step("record_dying", nos=sorted(dying), most=most, rows_read=rows_read)):
        no = row["endpoint_no"]
        if (yield from value("record_died_since_resume", no=no, rows_read=rows_read)) > most:
            causes[no] = f"more than {most} dead letters in a day"
    return (yield from stop(EndpointStatus.PAUSED, causes, options, read))


def attempt_values(result: Result, started_at: Any, recorded_at: Any) -> tuple[Any, ...]:
    """Return the columns of an attempt, in the order of the table. Instants are in the form that the engine stores."""
    job, sent = result.job, result.sent
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
        *response_values(sent),
        recorded_at,
    )


def response_values(sent: Sent) -> tuple[Any, ...]:
    """Return the last columns of an attempt, in the order of the table: those between `error` and `recorded_at`."""
    texts = clean(sent.detail), clean(sent.address)
    return (*texts, headers_blob(sent.headers), sent.body, sent.truncated, *astuple(sent.timing))
