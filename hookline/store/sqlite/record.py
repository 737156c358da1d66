"""Record the outcomes of a batch in one transaction, fenced by claim token and state."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from hookline.model.deliveries import LeasedDelivery
from hookline.model.lanes import LaneEvent
from hookline.model.verdicts import Dead, Delivered, RecordReport, Result, Retry
from hookline.rules.operational_events import of_results
from hookline.rules.outcomes import clean, lost_of, moves_lane, outcomes_of
from hookline.store.plans.operational_events import write_events
from hookline.store.plans.record import attempt_values, pause_dying
from hookline.store.sqlite import lanes as lane_rows
from hookline.store.sqlite.clock import to_micros
from hookline.store.sqlite.database import Database, run_steps
from hookline.store.sqlite.errors import BadData
from hookline.store.sqlite.transaction import READ, Tx, numbers


class BatchRecord:
    """Writes the outcomes of one batch."""

    data_errors: tuple[type[Exception], ...] = (BadData,)

    def __init__(self, database: Database) -> None:
        self._db = database

    async def write(self, results: Sequence[Result], wake: Collection[int]) -> RecordReport:
        report, woke = await self._db.write(_record, results, wake)
        if woke:
            self._db.events.work.set()
        return report


def _record(tx: Tx, results: Sequence[Result], wake: Collection[int]) -> tuple[RecordReport, bool]:
    """Record the outcomes. Return the report, and whether a wake token was inserted."""
    claims = {(job.delivery_id, job.claim): True for job in fenced(tx, [result.job for result in results])}
    held = [result for result in results if claims.pop((result.job.delivery_id, result.job.claim), False)]
    wakes = lane_rows.Wakes(tx)
    for endpoint_no in wake:
        wakes.add(endpoint_no, tx.now, tx.now)
    _move(tx, held, wakes)
    tx.many("record_attempts", [attempt_values(result, to_micros(result.sent.started_at), tx.now) for result in held])
    run_steps(tx, write_events(of_results(held), READ))
    events = (*_fold(tx, held, wakes), *run_steps(tx, pause_dying(held, tx.options, READ)))
    lost = lost_of(results, [result.attempt_id for result in held])
    report = RecordReport(recorded=len(held), stale=len(results) - len(held), events=events, lost=lost)
    return report, wakes.write() > 0


def fenced(tx: Tx, jobs: Sequence[LeasedDelivery]) -> list[LeasedDelivery]:
    """Return the jobs whose claim still holds. The write lock keeps this true until the transaction ends."""
    claims = dict(tx.tuples("record_fence", (numbers(job.delivery_id for job in jobs),)))
    return [job for job in jobs if claims.get(job.delivery_id) == job.claim]


def _move(tx: Tx, results: Sequence[Result], wakes: lane_rows.Wakes) -> None:
    delivered: list[int] = []
    retries: list[tuple[Any, ...]] = []
    dead: list[dict[str, Any]] = []
    for result in results:
        id_, status = result.job.delivery_id, result.sent.status
        match result.judgement.verdict:
            case Delivered():
                delivered.append(id_)
                _move_up(result.job, wakes)
            case Retry() as retry:
                due = to_micros(retry.at)
                retries.append((due, int(retry.spends), retry.delay, status, id_))
                wakes.add(result.job.endpoint_no, due, due)
            case Dead() as verdict:
                dead.append(_dead(id_, verdict, status, tx.now))
                _move_up(result.job, wakes)
    tx.many("record_retry", retries)
    tx.many("record_dead", dead)
    if delivered:
        tx.run("record_delivered", (tx.now, numbers(delivered)))
    if delivered or dead:
        tx.run("record_closed", (numbers([*delivered, *(row["id"] for row in dead)]),))


def _move_up(job: LeasedDelivery, wakes: lane_rows.Wakes) -> None:
    if job.ordering_key is not None:
        wakes.turn(job.endpoint_no, job.ordering_key)


def _dead(id_: int, verdict: Dead, status: int | None, now: int) -> dict[str, Any]:
    return {"id": id_, "reason": verdict.reason.value, "detail": clean(verdict.detail), "status": status, "now": now}


def _fold(tx: Tx, results: Sequence[Result], wakes: lane_rows.Wakes) -> list[LaneEvent]:
    """Apply outcomes to lanes. A healthy lane with only successes is not read, because it does not change."""
    moving = {result.job.endpoint_no for result in results if moves_lane(result)}
    lanes = lane_rows.load_moved(tx, {result.job.endpoint_no for result in results}, moving)
    if not lanes:
        return []
    outcomes = outcomes_of((result for result in results if result.job.endpoint_no in lanes), tx.at)
    return lane_rows.apply(tx, lanes, outcomes, wakes)
