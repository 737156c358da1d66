"""Record the outcomes of a batch in one transaction, fenced by claim token."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from hookline import clock
from hookline.model.attempts import Timing
from hookline.model.verdicts import Dead, Delivered, RecordReport, Result, Retry
from hookline.rules import operational_events, ordering
from hookline.rules.outcomes import clean, dying_endpoints, lost_of, moves_lane, outcomes_of
from hookline.store.plans.operational_events import write_events
from hookline.store.plans.record import attempt_values, pause_dying, response_values
from hookline.store.postgres.database import DATA_ERRORS, READ, Connection, Database, run_steps
from hookline.store.postgres.lanes import Lanes

_DELIVERED, _RETRY, _DEAD = 0, 1, 2

_Fence = tuple[int, int]  # delivery id and claim token

# The columns that `attempt_values` returns.
_ATTEMPT = (
    "id",
    "delivery_id",
    "app_no",
    "endpoint_no",
    "message_id",
    "event_type",
    "number",
    "trigger",
    "outcome",
    "probe",
    "started_at",
    "status_code",
    "error",
    "detail",
    "address",
    "response_headers",
    "response_body",
    "truncated",
    *(f"{phase}_us" for phase in Timing.__struct_fields__),
    "recorded_at",
)


class _Move(Struct, frozen=True):
    """The new state of one delivery: one row of the values that the statement `record_moves` gets."""

    delivery_id: int
    claim: int
    kind: int
    due_at: Any
    spent: int
    delay: float
    status: int | None
    reason: str | None
    detail: str | None
    reckoned: datetime | None = None  # the database's time at the end of the attempt, as the worker reckoned it


class BatchRecord:
    """Writes the outcomes of one batch."""

    data_errors: tuple[type[Exception], ...] = DATA_ERRORS

    def __init__(self, database: Database, lanes: Lanes) -> None:
        self._db = database
        self._sql = database.sql
        self._lanes = lanes

    async def write(self, results: Sequence[Result], wake: Collection[int]) -> RecordReport:
        report = await self._record_plain(results, wake) if results and all(map(_plain, results)) else None
        if report is not None:
            return report

        async def work(connection: Connection) -> RecordReport:
            report = await self._record(connection, results)
            if wake:
                await connection.execute(self._sql["record_wake"], list(wake))
            return report

        return await self._db.transact(work, cached_plans=True)

    async def _record_plain(self, results: Sequence[Result], wake: Collection[int]) -> RecordReport | None:
        """Record a batch of successes that change no lane, in one statement. None: nothing was written,
        because a lane is unhealthy or no claim of the batch is still valid."""
        receipts = sorted(map(_receipt, results), key=_by_delivery)
        endpoints = list({result.job.endpoint_no for result in results})
        tokens = _tokens(results, wake)
        values = receipts, endpoints, list(tokens), list(tokens.values())

        async def work(connection: Connection) -> tuple[int, list[str] | None]:
            row = await connection.fetchrow(self._sql["record_plain"], *values)
            return row["recorded"], row["held"]

        recorded, held = await self._db.alone(work, cached_plans=True)
        if not recorded:
            return None
        lost = () if held is None else lost_of(results, held)
        return RecordReport(recorded=recorded, stale=len(results) - recorded, lost=lost)

    async def _record(self, connection: Connection, results: Sequence[Result]) -> RecordReport:
        all_of = sorted({result.job.endpoint_no for result in results})
        # A dead letter may pause its endpoint, so its lane is locked too, before the deliveries.
        always = sorted({result.job.endpoint_no for result in results if moves_lane(result)} | dying_endpoints(results))
        lanes, now = await self._lanes.lock(connection, all_of, always)
        claims, at = await self._move(connection, results)
        held = [result for result in results if claims.pop((result.job.delivery_id, result.job.claim), False)]
        if held:
            # COPY is faster than an INSERT with arrays: for arrays the driver would check every element of all 24
            # columns.
            records = [attempt_values(result, result.sent.started_at, at) for result in held]
            await connection.copy_records_to_table("attempt", schema_name="hookline", columns=_ATTEMPT, records=records)
        await run_steps(connection, self._sql, write_events(operational_events.of_results(held), READ))
        events = await self._lanes.fold(connection, lanes, outcomes_of(held, now), now) if now is not None else ()
        events += await run_steps(connection, self._sql, pause_dying(held, self._db.options, READ))
        lost = lost_of(results, [result.attempt_id for result in held])
        return RecordReport(recorded=len(held), stale=len(results) - len(held), events=events, lost=lost)

    async def _move(self, connection: Connection, results: Sequence[Result]) -> tuple[dict[_Fence, bool], datetime]:
        """Write the new state of each delivery whose claim is still valid. Return the id and the claim of each of these
        deliveries as the keys of a dict (all values are True), and the database's time.

        Of several results for one claimed delivery, only the first is written.
        """
        once = {(result.job.delivery_id, result.job.claim): result for result in reversed(results)}
        moves = [_move(once[fence]) for fence in sorted(once)]
        columns = [[getattr(move, name) for move in moves] for name in _Move.__struct_fields__]
        found = await connection.fetch(self._sql["record_moves"], *columns)
        at = found[0]["now"] if found else clock.EPOCH
        return {(row["id"], row["claim"]): True for row in found}, at


def _plain(result: Result) -> bool:
    verdict = result.judgement.verdict
    return isinstance(verdict, Delivered) and not moves_lane(result) and not operational_events.recovers(result)


def _tokens(results: Sequence[Result], wake: Collection[int]) -> dict[int, str | None]:
    """Return the wake tokens by endpoint. A wake token names the queues whose next delivery may be available now. If
    the claim of a result is no longer valid, its wake token is unnecessary but harmless."""
    keys: dict[int, list[str]] = {endpoint_no: [] for endpoint_no in wake}
    for result in results:
        if result.job.ordering_key is not None:
            keys.setdefault(result.job.endpoint_no, []).append(result.job.ordering_key)
    return {endpoint_no: ordering.written(moved) for endpoint_no, moved in keys.items()}


def _receipt(result: Result) -> tuple[Any, ...]:
    """Return the result of an attempt as a value of the SQL type `hookline.receipt`. It is a tuple of
    all columns, because the driver encodes the fields of a tuple without the checks that it makes for each element of
    an array."""
    job, sent = result.job, result.sent
    return (
        job.delivery_id,
        job.claim,
        result.attempt_id,
        sent.started_at,
        sent.status,
        *response_values(sent),
    )


def _by_delivery(receipt: tuple[Any, ...]) -> int:
    delivery_id: int = receipt[0]
    return delivery_id


def _move(result: Result) -> _Move:
    job, sent = result.job, result.sent
    match result.judgement.verdict:
        case Delivered():
            return _Move(job.delivery_id, job.claim, _DELIVERED, None, 1, 0.0, sent.status, None, None)
        case Retry(at=at, spends=spends, delay=delay):
            spent = int(spends)
            return _Move(job.delivery_id, job.claim, _RETRY, at, spent, delay, sent.status, None, None, result.ended_at)
        case Dead(reason=reason, detail=detail):
            return _Move(job.delivery_id, job.claim, _DEAD, None, 1, 0.0, sent.status, reason.value, clean(detail))
