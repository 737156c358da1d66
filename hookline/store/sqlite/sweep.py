"""Sweep and retention in batches, and the search for stuck lanes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta

import structlog
from msgspec.structs import replace

from hookline.model.lanes import Lane
from hookline.model.states import Circuit, EndpointStatus, Health, Reason
from hookline.model.sweep import Death, SweepReport
from hookline.rules import ordering
from hookline.rules.claim.division import MAX_REFUSED
from hookline.rules.lane.circuit import LaneOutcome
from hookline.rules.outcomes import BUDGET_OVER
from hookline.store.bounds import FAR_LEASE
from hookline.store.plans.endpoint_state import stop
from hookline.store.plans.operators import GUESSES_KEPT
from hookline.store.sqlite import lanes as lane_rows
from hookline.store.sqlite.claim import bury
from hookline.store.sqlite.clock import instant, to_micros
from hookline.store.sqlite.database import Database, run_steps
from hookline.store.sqlite.transaction import READ, Tx, numbers

log = structlog.get_logger()

_DAY = 86_400_000_000
# The epoch of a lost lease's outcome. No lane has this epoch, so the outcome does not change the lane's health.
_LOST = -1
_LATE = timedelta(seconds=1)


class Sweep:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def sweep_leases(self, limit: int = 1000, *, overdue: float = 0.0) -> SweepReport:
        report = await self._db.write(_sweep_leases, limit, overdue)
        if report.leases:
            self._db.events.work.set()
        return report

    async def sweep_expired(self, limit: int = 1000) -> SweepReport:
        report = await self._db.write(_sweep_expired, limit)
        if report.deaths:  # the next delivery of a queue may be available now
            self._db.events.work.set()
        return report

    async def sweep_deleted(self, limit: int = 1000) -> SweepReport:
        return await self._db.write(_sweep_deleted, limit)

    async def sweep_failing(self, *, pause_dead: int, disable_after: float) -> SweepReport:
        """Search for failing endpoints in a read-only transaction first, because the search reads the dead letters of
        a day and rarely finds anything to change."""
        if not any(await self._db.read(_failing, pause_dead, disable_after)):
            return SweepReport()
        return await self._db.write(_sweep_failing, pause_dead, disable_after)

    async def retire(self, limit: int = 5000) -> SweepReport:
        """Apply retention in one transaction per kind of history, so that other writes can run between these
        transactions."""
        if not self._db.context.clock.trusted():
            log.warning("retention_put_off", cause="the clock of this machine jumped")
            return SweepReport()
        report = await self._db.write(_retire_dead, limit)
        taken = [await self._db.write(_retire, name, limit) for name in RETIRED]
        return replace(report, retired=report.retired + sum(taken))

    async def sweep_clock(self, limit: int = 1000) -> SweepReport:  # noqa: ARG002  PostgreSQL needs it
        return SweepReport()

    async def find_stuck_lanes(self, *, repair: bool) -> list[int]:
        found = await self._db.read(_stuck_lanes)
        if not (found and repair):
            return found
        repaired = await self._db.write(_wake_stuck_lanes, found)
        self._db.events.work.set()
        return repaired


def _sweep_leases(tx: Tx, limit: int, overdue: float) -> SweepReport:
    lost = tx.tuples("sweep_leases_find", (tx.now - round(1_000_000 * overdue), limit))
    lost += tx.tuples("sweep_leases_ahead", (tx.now + round(1_000_000 * FAR_LEASE), limit - len(lost)))
    if not lost:
        return SweepReport()
    tx.run("sweep_leases_back", (tx.now, numbers(id_ for id_, _, _ in lost)))
    wakes = lane_rows.Wakes(tx)
    outcomes: dict[int, list[LaneOutcome]] = defaultdict(list)
    for _, endpoint_no, counted in lost:
        wakes.add(endpoint_no, tx.now, tx.now)
        outcomes[endpoint_no].append(LaneOutcome(health=Health.NONE, epoch=_LOST, counted=bool(counted)))
    events = lane_rows.apply(tx, lane_rows.load(tx, outcomes), outcomes, wakes)
    wakes.write()
    return SweepReport(leases=len(lost), events=tuple(events))


def _sweep_expired(tx: Tx, limit: int) -> SweepReport:
    found = tx.tuples("sweep_expired_find", (tx.now, limit))
    found += tx.tuples("sweep_expired_queued", (tx.now, limit - len(found)))
    held = [id_ for id_, status in found if status == EndpointStatus.PAUSED]
    over = [id_ for id_, status in found if status != EndpointStatus.PAUSED]
    if held:
        tx.run("sweep_expired_hold", (tx.now + _DAY, numbers(held)))
    deaths = bury(tx, over, Reason.BUDGET_EXHAUSTED, BUDGET_OVER) if over else []
    return SweepReport(deaths=tuple(deaths))


def _sweep_deleted(tx: Tx, limit: int) -> SweepReport:
    """Turn waiting and queued deliveries of deleted endpoints into dead letters, then delete the lanes of these
    endpoints. Deliveries without a lane become dead letters too, and wake tokens without a lane are deleted."""
    dead: list[Death] = []
    for (endpoint_no,) in tx.tuples("sweep_deleted_lanes", (limit,)):
        dead += _bury_lane(tx, endpoint_no, limit - len(dead))
        if len(dead) >= limit:
            return SweepReport(deaths=tuple(dead))
        tx.run("sweep_lanes_drop", (endpoint_no,))
    waiting = [row["endpoint_no"] for name in ("waiting_lanes", "queued_lanes") for row in tx.rows(name)]
    known = {row["endpoint_no"] for row in tx.rows("lanes_of", (numbers(waiting),))}
    for endpoint_no in waiting:
        if endpoint_no not in known and len(dead) < limit:
            dead += _bury_lane(tx, endpoint_no, limit - len(dead))
    stray = [endpoint_no for (endpoint_no,) in tx.tuples("sweep_token_lanes")]
    if stray:
        tx.run("claim_consume", (numbers(stray),))
    return SweepReport(deaths=tuple(dead))


def _bury_lane(tx: Tx, endpoint_no: int, limit: int) -> list[Death]:
    ids = [id_ for (id_,) in tx.tuples("sweep_deleted_find", (endpoint_no, limit))]
    ids += [id_ for (id_,) in tx.tuples("sweep_deleted_queued", (endpoint_no, limit - len(ids)))]
    return bury(tx, ids, Reason.ENDPOINT_DELETED, "the endpoint was deleted") if ids else []


def _failing(tx: Tx, pause_dead: int, disable_after: float) -> tuple[set[int], dict[int, datetime]]:
    """Return the endpoints to pause, and the endpoints to disable, each with the time at which it began to fail."""
    long_ago = tx.now - round(disable_after * 1_000_000)
    disabled = {no: instant(since) for no, since in tx.tuples("sweep_failing_long", (long_ago,))}
    return _many_dead(tx, pause_dead) - set(disabled), disabled


def _sweep_failing(tx: Tx, pause_dead: int, disable_after: float) -> SweepReport:
    dying, failing = _failing(tx, pause_dead, disable_after)
    dead = dict.fromkeys(sorted(dying), f"more than {pause_dead} dead letters in a day")
    paused = run_steps(tx, stop(EndpointStatus.PAUSED, dead, tx.options, READ))
    since = {no: f"failing since {began:%Y-%m-%d %H:%M:%S} UTC" for no, began in sorted(failing.items())}
    disabled = run_steps(tx, stop(EndpointStatus.DISABLED, since, tx.options, READ))
    return SweepReport(paused=len(dying), disabled=len(failing), events=paused + disabled)


def _many_dead(tx: Tx, pause_dead: int) -> set[int]:
    since = tx.now - _DAY
    found = [no for no, _ in tx.tuples("sweep_failing_dead", {"since": since, "pause_dead": pause_dead})]
    lanes = lane_rows.load(tx, found)
    active = [no for no in found if no in lanes and lanes[no].status == EndpointStatus.ACTIVE]
    return {no for no in active if tx.value("sweep_failing_since_resume", {"no": no, "since": since}) > pause_dead}


# ── retention ─────────────────────────────────────────────────────────────────────────────────────────────────────

# The statements that delete rows with an expiry time of their own.
EXPIRING = ("retire_key", "retire_answer", "retire_token", "retire_session")
RETIRED = (
    "retire_resolved",
    "retire_attempts",
    "retire_done",
    "retire_messages",
    "retire_event_id",
    "retire_lane_event",
    "retire_task",
    "retire_guess",
    "retire_audit",
    *EXPIRING,
)


def _retire(tx: Tx, name: str, limit: int) -> int:
    """Run the statement `name`, which deletes up to `limit` old rows of one kind of history. Return their number."""
    before = _cutoff(tx, name)
    if name == "retire_resolved":
        return tx.run(name, {"cutoff": before, "limit": limit})
    return tx.run(name, (before, limit))


def _cutoff(tx: Tx, name: str) -> int:
    if name in EXPIRING:
        return tx.now
    if name == "retire_guess":
        return tx.now - GUESSES_KEPT * 1_000_000
    if name == "retire_audit":
        return tx.now - tx.options.audit_retention_days * _DAY
    return tx.now - tx.options.retention_days * _DAY


def _retire_dead(tx: Tx, limit: int) -> SweepReport:
    """Delete one batch of dead letters that are older than their retention, resolved or not."""
    gone = tx.tuples("retire_dead", (tx.now - tx.options.dead_retention_days * _DAY, limit))
    wakes = lane_rows.Wakes(tx)
    for unresolved, endpoint_no, key in gone:
        if unresolved and key is not None:  # the dead letter may have blocked its queue
            wakes.turn(endpoint_no, key)
    wakes.write()
    return SweepReport(retired=len(gone), dead_expired=sum(unresolved for unresolved, _, _ in gone))


# ── stuck lanes ──────────────────────────────────────────────────────────────────────────────────────────────────


def sleeping_lanes(tx: Tx) -> list[tuple[int, int]]:
    """Return lanes with a waiting delivery that no wake token will wake in time, and the instant at which that
    delivery is due."""
    waiting = tx.rows("waiting_lanes")
    lanes = lane_rows.load(tx, [row["endpoint_no"] for row in waiting])
    return [
        (row["endpoint_no"], row["first_due"])
        for row in waiting
        if row["endpoint_no"] in lanes
        and not _will_wake(tx, lanes[row["endpoint_no"]], row["first_due"], row["token_at"])
    ]


def stuck_queues(tx: Tx) -> list[tuple[int, str]]:
    """Return queues that have no active delivery and that no wake token names."""
    queues = tx.tuples("queues")
    named = {endpoint_no: _named(tx, endpoint_no) for endpoint_no in {no for no, _, _ in queues}}
    return [
        (endpoint_no, key)
        for endpoint_no, key, seq in queues
        if key not in named[endpoint_no]
        and not tx.value("queue_will_move", {"no": endpoint_no, "key": key, "seq": seq})
    ]


def _named(tx: Tx, endpoint_no: int) -> set[str]:
    """Return the ordering keys of the queues that the lane's wake tokens name."""
    return {key for (keys,) in tx.tuples("queues_named", (endpoint_no,)) for key in ordering.read(keys)}


def _stuck_lanes(tx: Tx) -> list[int]:
    return sorted({no for no, _ in sleeping_lanes(tx)} | {no for no, _ in stuck_queues(tx)})


def _will_wake(tx: Tx, lane: Lane, first_due: int, token_at: int | None) -> bool:
    if lane.status != EndpointStatus.ACTIVE:
        return True  # the lane is paused or disabled; resume inserts a wake token
    if lane.waiting_floor is not None and lane.in_flight > 0:
        return True  # the transaction that ends one of the leases in flight inserts a wake token
    return token_at is not None and token_at <= _latest(tx, lane, first_due)


def _latest(tx: Tx, lane: Lane, first_due: int) -> int:
    """Return the latest time at which the lane's next wake token may be due. If the token is due later, the lane is
    stuck. The time allows for the waits of a due delivery: for a probe, a `Retry-After`, a rate limit, or the lane's
    turn under the throttle of its application."""
    instants = [tx.at + MAX_REFUSED, instant(first_due)]
    instants += [at for at in (lane.held_until, lane.turn_at) if at is not None]
    if lane.circuit in (Circuit.OPEN, Circuit.HALF_OPEN) and lane.probe_at is not None:
        instants.append(lane.probe_at)
    if lane.tat is not None:
        rate = lane.throttle_rate or 1.0
        instants.append(lane.tat + timedelta(seconds=1 / rate))
    return to_micros(max(instants) + _LATE)


def _wake_stuck_lanes(tx: Tx, endpoint_nos: Sequence[int]) -> list[int]:
    """Check again which of the given lanes are stuck, and wake them. Return their numbers."""
    wakes = lane_rows.Wakes(tx)
    found = {no for no in _stuck_lanes(tx) if no in endpoint_nos}
    for no, due in sleeping_lanes(tx):
        if no in found:
            wakes.add(no, tx.now, due)
    for no, key in stuck_queues(tx):
        if no in found:
            wakes.turn(no, key)
    wakes.write()
    return sorted(found)
