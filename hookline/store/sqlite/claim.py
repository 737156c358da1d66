"""Claim: lease the due deliveries of due lanes under one claim token. `rules/lane/admission.py` decides how many each
lane gets."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import lru_cache
from itertools import islice
from typing import Any

from hookline import clock
from hookline.model.deliveries import ClaimBatch, LeasedDelivery, SlotBudgets
from hookline.model.lanes import AppPace, Lane
from hookline.model.states import Reason
from hookline.model.sweep import Death
from hookline.rules import ordering
from hookline.rules.claim.budgets import LARGE
from hookline.rules.claim.division import Division
from hookline.rules.claim.rotation import round_robin
from hookline.rules.lane.admission import Admission
from hookline.rules.outcomes import BUDGET_OVER, released_outcomes
from hookline.store import rows
from hookline.store.plans.operational_events import of_deaths, write_events
from hookline.store.rows import documents
from hookline.store.sqlite import lanes as lane_rows
from hookline.store.sqlite.clock import instant, to_micros
from hookline.store.sqlite.database import Database, run_steps, wait_for
from hookline.store.sqlite.record import fenced
from hookline.store.sqlite.transaction import READ, Tx, numbers

TOKENS = 1000  # maximum wake tokens that one round of a claim reads, the oldest ones
NEWEST = 64  # wake tokens that a round reads in addition if there are more: the newest ones
# maximum rounds of a claim; a lane that got only a part of its deliveries, or none, is tried again in the next round
ROUNDS = 8

_ID, _DUE, _PAYLOAD, _EXPIRES, _SIZE, _SEQ = 0, 1, 5, 9, 15, 16

read_policy = lru_cache(maxsize=1024)(documents.read_policy)


class Claim:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def arm(self) -> bool:
        self._db.events.work.clear()
        return True

    async def wait(self, timeout: float) -> None:
        await wait_for(self._db.events.work, timeout)

    def wake(self) -> None:
        self._db.events.set(self._db.events.work)

    async def claim(self, want: int, budgets: SlotBudgets) -> ClaimBatch:
        return await self._db.write(_claim, want, budgets)

    async def release(self, jobs: Sequence[LeasedDelivery]) -> int:
        if not jobs:
            return 0
        released = await self._db.write(_release, jobs)
        self._db.events.work.set()
        return released


def _claim(tx: Tx, want: int, budgets: SlotBudgets) -> ClaimBatch:
    division = Division(now=tx.at, want=want, budgets=budgets, policy=tx.options.circuit)
    run = _ClaimRun(tx, division)
    for _ in range(ROUNDS):
        if division.left <= 0 or not run.serve():
            break
    tx.many("app_pace_write", [_pace_row(pace) for pace in division.changed_paces()])
    return ClaimBatch(
        jobs=run.jobs,
        now=tx.at,
        next_at=None if run.jobs else _next_at(tx),
        refused=division.refused,
        heavy=division.heavy,
        deaths=tuple(run.deaths),
    )


def _pace_row(pace: AppPace) -> tuple[int | None, int | None, int]:
    tat, tail = (None if at is None else to_micros(at) for at in (pace.tat, pace.tail_at))
    return tat, tail, pace.app_no


def _next_at(tx: Tx) -> Any:
    at = tx.value("claim_next")
    return None if at is None else instant(max(at, tx.now))


class _ClaimRun:
    """The state of one claim."""

    def __init__(self, tx: Tx, division: Division) -> None:
        self.tx = tx
        self.now = tx.at
        self.division = division
        self.token = clock.chance.getrandbits(63)
        self.lease_until = self.now + timedelta(seconds=tx.options.lease)
        self.jobs: list[LeasedDelivery] = []
        # Ids of leased deliveries that are not written yet. The first list has those of lanes without a limit. The
        # second list has those that are added to `in_flight` of their lane.
        self._fresh: tuple[list[int], list[int]] = ([], [])
        self._changed: list[Lane] = []
        self._unsendable: list[int] = []
        self._expired: list[int] = []
        self.deaths: list[Death] = []

    def serve(self) -> bool:
        """Run one round over the due lanes. Return False if no lane is due."""
        due = self._due_lanes()
        if not due:
            return False
        found = lane_rows.load(self.tx, due)
        self._promote(self.tx.tuples("claim_consume", (numbers(due),)))
        known = [found[no] for no in due if no in found]  # `claim_consume` deletes wake tokens of deleted lanes too
        lanes = self._in_pace_order(known)
        wakes = lane_rows.Wakes(self.tx)
        for place, lane in enumerate(lanes):
            self._take(lane, self.division.part(lane, len(lanes) - place), wakes)
        self._write(wakes)
        return True

    def _in_pace_order(self, lanes: Sequence[Lane]) -> Sequence[Lane]:
        if all(lane.app_rate is None for lane in lanes):
            return lanes
        rates = self.division.unpaced(lanes)
        paces = self.tx.rows("app_paces", (numbers(rates),)) if rates else []
        self.division.add_paces(rates, [rows.app_pace(row, READ) for row in paces])
        return self.division.line_up(lanes)

    def _promote(self, consumed: Sequence[tuple[int, str | None]]) -> None:
        """Make the first delivery of a queue pending, for each queue that the consumed wake tokens name.

        Skip a queue that has an active delivery, or whose first delivery must wait for a dead letter. Several wake
        tokens may name the same queue.
        """
        queues = {(no, key) for no, keys in consumed if keys is not None for key in ordering.read(keys)}
        if queues:
            self.tx.many("promote", [{"no": no, "key": key} for no, key in queues])

    def _due_lanes(self) -> list[int]:
        """Return the due lanes that this claim serves: first those that `Rotation` chooses, then others in the order of
        their oldest wake token."""
        tokens = self.tx.tuples("claim_tokens", (self.tx.now, TOKENS))
        if len(tokens) == TOKENS:
            tokens += reversed(self.tx.tuples("claim_newest", (self.tx.now, NEWEST)))
        lanes, free = dict(tokens), self.division.left
        more = len(tokens) >= TOKENS or len(lanes) > free
        self.tx.context.rotation.note(lanes.values(), len(tokens), more=more)
        rotated = self._rotated(free)
        startable = self.division.startable(dict.fromkeys((*rotated, *lanes)), free)
        chosen = {no: rotated[no] for no in startable if no in rotated}
        self.division.reserve(chosen, chosen)
        by_age = free - free // 2 if chosen else free
        return [*chosen, *islice((no for no in startable if no not in chosen), by_age)]

    def _rotated(self, free: int) -> dict[int, int]:
        """Return due lanes of the applications that are next in the rotation, with the `app_no` of each lane. Lanes of
        different applications alternate."""
        rotation, began = self.tx.context.rotation, clock.monotonic()
        wanted = rotation.apps(free, began)
        if not wanted:
            return {}
        apps = self._apps(rotation.below, wanted)
        last, ended = apps[-1] if len(apps) == wanted else None, clock.monotonic()
        rotation.visited(last, took=ended - began, now=ended)
        part = free // 2 // len(apps) if apps else 0
        return dict(round_robin([self.tx.tuples("claim_turns", (app, self.tx.now, part)) for app in apps]))

    def _apps(self, below: int, wanted: int) -> list[int]:
        """Return up to `wanted` applications that have due wake tokens and an `app_no` lower than `below`, the highest
        first."""
        apps: list[int] = []
        while len(apps) < wanted and (found := self.tx.value("claim_app", (below, self.tx.now))) is not None:
            apps.append(below := found)
        return apps

    def _take(self, lane: Lane, part: int, wakes: lane_rows.Wakes) -> None:
        no, division = lane.endpoint_no, self.division
        admission = division.admit(lane, part)
        look_at = admission.rest_at
        found = self.tx.tuples("claim_candidates", (LARGE, no, admission.quota + 1))
        taken, rest = self._split(lane, found, admission.quota)
        left = instant(rest[0][_DUE]) if rest else None
        lease = self.tx.options.lease
        after = division.after(lane, admission, taken=len(taken), floor=left, lease=lease)
        division.take(lane, len(taken))
        if left is not None and admission.last_slots:
            again = division.admit(after, 1, again=True)
            after = division.after(after, again, taken=0, floor=left, lease=lease)
            look_at = again.rest_at
        if left is not None and admission.paced and not admission.quota:
            after, look_at = division.join_line(after, left)
        if after != lane:
            self._changed.append(after)
        if left is not None and look_at is not None:
            wakes.add(no, to_micros(max(left, look_at)), to_micros(left))
        self._lease(after, admission, taken)

    def _split(self, lane: Lane, found: Sequence[Any], quota: int) -> tuple[list[Any], Sequence[Any]]:
        """Split the deliveries into those to send now, up to the quota, and the rest, the earliest first. A large
        payload that does not fit is in the rest. A due delivery whose payload was deleted or whose time budget is over
        is in neither part: it becomes a dead letter."""
        taken: list[Any] = []
        unfit: list[Any] = []
        for place, row in enumerate(found):
            if place >= quota or row[_DUE] > self.tx.now:
                return taken, [*unfit, *found[place:]]
            if row[_SIZE] is None:
                self._unsendable.append(row[_ID])
            elif row[_EXPIRES] <= self.tx.now:
                self._expired.append(row[_ID])
            elif row[_PAYLOAD] is not None:
                taken.append(row)
            elif self.division.take_large(lane, row[_SIZE]):
                taken.append((*row[:_PAYLOAD], self.tx.value("claim_payload", (row[_SEQ],)), *row[_PAYLOAD + 1 :]))
            else:
                unfit.append(row)
        return taken, unfit

    def _lease(self, lane: Lane, admission: Admission, taken: Sequence[Any]) -> None:
        no = lane.endpoint_no
        self._fresh[admission.counted].extend([row[_ID] for row in taken])
        claim, now, until, revision, epoch = self.token, self.now, self.lease_until, lane.revision, lane.epoch
        counted, probe = admission.counted, admission.probe
        for (
            id_,
            due,
            message,
            app,
            kind,
            payload,
            tries,
            sent,
            at,
            ends,
            trigger,
            policy,
            delay,
            key,
            trace,
            *_,
        ) in taken:
            self.jobs.append(
                LeasedDelivery(
                    delivery_id=id_,
                    claim=claim,
                    message_id=message,
                    app_no=app,
                    endpoint_no=no,
                    revision=revision,
                    event_type=kind,
                    payload=payload,
                    attempts=tries,
                    sent=sent,
                    accepted_at=instant(at),
                    expires_at=instant(ends),
                    claimed_at=now,
                    lease_until=until,
                    due_at=instant(due),
                    epoch=epoch,
                    counted=counted,
                    probe=probe,
                    trigger=trigger,
                    policy=read_policy(policy),
                    last_delay=delay,
                    ordering_key=key,
                    trace=trace,
                )
            )

    def _write(self, wakes: lane_rows.Wakes) -> None:
        until = to_micros(self.lease_until)
        for counted, ids in enumerate(self._fresh):
            if ids:
                self.tx.run("claim_take", (self.token, until, counted, numbers(ids)))
                ids.clear()
        lane_rows.save(self.tx, self._changed)
        self._changed.clear()
        wakes.write()
        if self._unsendable:
            bury(self.tx, self._unsendable, Reason.UNSENDABLE, "the payload is gone")
            self._unsendable.clear()
        if self._expired:
            self.deaths += bury(self.tx, self._expired, Reason.BUDGET_EXHAUSTED, BUDGET_OVER)
            self._expired.clear()


def bury(tx: Tx, ids: Sequence[int], reason: Reason, detail: str) -> list[Death]:
    """Turn waiting or queued deliveries into dead letters without a further attempt. Insert wake tokens for their
    queues, so that a claim promotes the next delivery of each queue."""
    given = numbers(ids)
    wakes = lane_rows.Wakes(tx)
    for endpoint_no, key in tx.tuples("queues_of", (given,)):
        wakes.turn(endpoint_no, key)
    wakes.write()
    dead = tx.rows("sweep_dead", {"reason": reason.value, "detail": detail, "now": tx.now, "ids": given})
    tx.run("record_closed", (given,))
    run_steps(tx, write_events(of_deaths(dead, reason, READ), READ))
    return [rows.death(row, reason, READ) for row in dead]


def _release(tx: Tx, jobs: Sequence[LeasedDelivery]) -> int:
    """Make unsent deliveries pending again with their old due time, and subtract them from `in_flight` of
    limited lanes."""
    held = fenced(tx, jobs)
    if not held:
        return 0
    wakes = lane_rows.Wakes(tx)
    for job in held:
        wakes.add(job.endpoint_no, tx.now, to_micros(job.due_at))
    tx.run("release", (numbers(job.delivery_id for job in held),))
    outcomes = released_outcomes(held)
    lane_rows.apply(tx, lane_rows.load(tx, outcomes), outcomes, wakes)
    wakes.write()
    return len(held)
