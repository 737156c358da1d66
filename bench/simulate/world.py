"""One worker, its lanes and its endpoints on a virtual clock, without I/O and threads. The same seed gives the same result.

The real code makes all decisions: `claim` and `lane` decide what may start, `judge` and `backoff` decide about retries, and
`outcomes`, `circuit` and `pace` change the lane. The clock, the network, the database's tables (a heap of deliveries per
lane, a heap of tokens) and the worker's loop are simulated.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Protocol

from hookline.engine.worker import SETTLE, WorkerSettings
from hookline.model.attempts import Sent
from hookline.model.deliveries import ClaimBatch, LeasedDelivery
from hookline.model.lanes import Lane
from hookline.model.policy import CircuitPolicy, RetryPolicy
from hookline.model.states import Circuit, ErrorKind
from hookline.model.verdicts import Delivered, Result, Retry
from hookline.rules.claim.budgets import SILENT_AFTER, Slots, fair_quota
from hookline.rules.claim.division import Division
from hookline.rules.judge import judge
from hookline.rules.lane import circuit
from hookline.rules.lane.admission import Admission
from hookline.rules.outcomes import moves_lane, outcomes_of
from hookline.store.sqlite.claim import NEWEST, ROUNDS, TOKENS

BEGIN = datetime(2025, 1, 1, tzinfo=UTC)
CLAIMING = timedelta(milliseconds=2)  # duration of a claim; only one runs at a time
RECORDING = timedelta(milliseconds=5)  # duration of recording a batch of outcomes; only one runs at a time
SETTLING = timedelta(seconds=SETTLE)
BATCH = 500  # outcomes recorded together
LEASE = 60.0

Row = tuple[datetime, int, int, float, datetime]  # due, number, attempts, last delay, accepted


@dataclass(frozen=True)
class Plan:
    """A retry strategy. Without a circuit, outcomes do not change the lane."""

    name: str
    retry: RetryPolicy
    circuit: CircuitPolicy | None


class Endpoint(Protocol):
    def answer(self, now: datetime) -> tuple[Sent, timedelta]:
        """Return the result of a request that starts now, and its duration."""


class Watch:
    """Receives the events of a simulation. This base class ignores them."""

    def started(self, no: int, now: datetime, *, probe: bool) -> None: ...

    def delivered(self, job: LeasedDelivery, now: datetime) -> None: ...

    def failed(self, no: int, attempts: int) -> None:
        """An attempt failed. `attempts` is the number of attempts used so far."""

    def died(self, no: int) -> None: ...


# The slots with which the figures in docs/simulations were made.
WORKER = WorkerSettings(slots=512, share=128)


class World:
    """The simulation. Events run in the order of their times, then in the order in which they were created."""

    def __init__(
        self,
        plan: Plan,
        endpoints: Sequence[Endpoint],
        watch: Watch,
        seed: str,
        worker: WorkerSettings | None = None,
        *,
        per_application: int = 10,
    ) -> None:
        self.plan = plan
        self.endpoints = endpoints
        self.watch = watch
        self.chance = random.Random(seed)
        self.worker = worker or WORKER
        self.policy = plan.circuit or CircuitPolicy()
        self.budget = timedelta(seconds=plan.retry.max_age)
        self.now = BEGIN
        self.lanes = [Lane(endpoint_no=no, app_no=no // per_application) for no in range(len(endpoints))]
        self.queues: list[list[Row]] = [[] for _ in endpoints]
        self.slots = Slots(
            self.worker.slots,
            lane_limit=self.worker.share,
            app_part=self.worker.app_share,
            silent=self.worker.silent_slots,
            max_bytes=self.worker.max_bytes,
        )
        self._tokens: list[tuple[datetime, int, int]] = []
        self._armed: list[datetime | None] = [None] * len(endpoints)  # each lane's earliest token
        self._claimed: list[LeasedDelivery] = []  # deliveries that the current claim has leased
        self._claim_at: datetime | None = None
        self._claims: set[datetime] = set()  # times with a claim event; only the one at `_claim_at` is valid
        self._ready_at = BEGIN  # end of the last claim
        self._done: list[Result] = []
        self._recording = False
        self._events: list[tuple[datetime, int, Callable[[Any], None], Any]] = []
        self._order = count()
        self._numbers = count()

    def run(self, until: datetime) -> None:
        """Run all events before this time."""
        while self._events and self._events[0][0] < until:
            self.now, _, act, given = heapq.heappop(self._events)
            act(given)
        self.now = until

    def at(self, when: datetime, act: Callable[[Any], None], given: Any = None) -> None:
        heapq.heappush(self._events, (when, next(self._order), act, given))

    def publish(self, no: int, messages: int = 1) -> None:
        """Accept messages for one endpoint now."""
        for _ in range(messages):
            heapq.heappush(self.queues[no], (self.now, next(self._numbers), 0, 0.0, self.now))
        self.wake(no, self.now)

    def _seconds(self) -> float:
        return (self.now - BEGIN).total_seconds()

    def waiting(self) -> int:
        """Return the number of open deliveries."""
        return sum(map(len, self.queues)) + self.slots.used + len(self._done)

    # ── claim ──

    def wake(self, no: int, when: datetime) -> None:
        """Insert a wake token. A claim consumes all tokens of a lane, so only the earliest one matters."""
        armed = self._armed[no]
        if armed is None or when < armed:
            self._armed[no] = when
            heapq.heappush(self._tokens, (when, next(self._order), no))
            self._claim_by(when)

    def _claim_by(self, when: datetime) -> None:
        when = max(when, self._ready_at)
        if self._claim_at is None or when < self._claim_at:
            self._claim_at = when
            if when not in self._claims:
                self._claims.add(when)
                self.at(when, self._claim)

    def _claim(self, _: None) -> None:
        self._claims.discard(self.now)
        if self._claim_at != self.now:
            return  # an earlier claim replaced this one
        self._claim_at = None
        self.slots.silence(self._seconds())
        if not self.slots.free:
            self._claim_by(self.now + timedelta(seconds=SILENT_AFTER))  # earlier if a request ends
            return
        division = self._divide()
        for _round in range(ROUNDS):
            due = self._due(division)
            if not due:
                break
            for place, no in enumerate(due):
                self._take(division, self.lanes[no], fair_quota(division.left, len(due) - place))
        self.slots.line_up(self._batch(division))
        self._ready_at = self.now + CLAIMING
        if self._tokens and self.slots.free:
            self._claim_by(self._tokens[0][0])

    def _due(self, division: Division) -> list[int]:
        """Return the lanes with a due token that a claim serves, and not more lanes than free slots. Like a claim on
        SQLite, look at the oldest tokens, and if there are more, at the newest ones."""
        read: dict[int, tuple[datetime, int, int]] = {}
        tokens, now, armed = self._tokens, self.now, self._armed
        while tokens and tokens[0][0] <= now and len(read) < TOKENS:
            token = heapq.heappop(tokens)
            if armed[token[2]] == token[0]:  # otherwise the token was consumed together with an earlier one
                read[token[2]] = token
        oldest = list(read.values())
        if len(read) == TOKENS:
            more = (token for token in tokens if token[0] <= now and armed[token[2]] == token[0])
            read |= {token[2]: token for token in sorted(heapq.nlargest(NEWEST, more))}
        due = division.startable(read, self.slots.free)
        for no in due:
            armed[no] = None
        for token in oldest:
            if armed[token[2]] is not None:
                heapq.heappush(tokens, token)
        return due

    def _divide(self) -> Division:
        return Division(
            now=self.now,
            want=self.slots.free,
            budgets=self.slots.budgets(self._seconds()),
            policy=self.policy,
        )

    def _batch(self, division: Division) -> ClaimBatch:
        jobs, self._claimed = self._claimed, []
        return ClaimBatch(jobs=jobs, now=self.now, next_at=None, refused=division.refused)

    def _take(self, division: Division, lane: Lane, part: int) -> None:
        admission = division.admit(lane, part)
        no, now = lane.endpoint_no, self.now
        queue = self.queues[no]
        rows: list[Row] = []
        while len(rows) < admission.quota and queue and queue[0][0] <= now:
            row = heapq.heappop(queue)
            if row[4] + self.budget > now:
                rows.append(row)
            else:
                self.watch.died(no)  # the time budget of this delivery has ended
        floor = queue[0][0] if queue else None
        division.take(lane, len(rows))
        self.lanes[no] = lane = division.after(lane, admission, taken=len(rows), floor=floor, lease=LEASE)
        if floor is not None and admission.rest_at is not None:
            self.wake(no, max(admission.rest_at, floor))
        for row in rows:
            self._start(lane, admission, row)

    # ── send ──

    def _start(self, lane: Lane, admission: Admission, row: Row) -> None:
        no, now = lane.endpoint_no, self.now
        due_at, number, attempts, last_delay, accepted_at = row
        job = LeasedDelivery(
            delivery_id=number,
            claim=1,
            message_id="",
            app_no=lane.app_no,
            endpoint_no=no,
            revision=1,
            event_type="order.paid",
            payload=b"",
            attempts=attempts,
            sent=attempts,
            accepted_at=accepted_at,
            expires_at=accepted_at + self.budget,
            claimed_at=now,
            lease_until=now,
            due_at=due_at,
            epoch=lane.epoch,
            counted=admission.counted,
            probe=admission.probe,
            trigger=0,
            last_delay=last_delay,
        )
        self._claimed.append(job)
        self.slots.take([job], self._seconds())
        self.watch.started(no, now, probe=admission.probe)
        sent, took = self.endpoints[no].answer(now)
        self.at(now + took, self._finish, (job, sent))

    def _finish(self, given: tuple[LeasedDelivery, Sent]) -> None:
        job, sent = given
        answered, timed_out = sent.status is not None, sent.error is ErrorKind.TIMEOUT
        self.slots.give_back(job, self._seconds(), answered=answered, timed_out=timed_out)
        judgement = judge(sent, job, self.plan.retry, now=self.now, chance=self.chance)
        self._done.append(Result(job=job, attempt_id="", sent=sent, judgement=judgement))
        if not self._recording:
            self._recording = True
            self.at(self.now + RECORDING, self._record)
        if self._tokens and self._tokens[0][0] <= self.now:
            roomy = self.slots.free >= self.worker.slots / 4
            self._claim_by(self.now if roomy else self.now + SETTLING)

    # ── record ──

    def _record(self, _: None) -> None:
        results = self._done[:BATCH]
        del self._done[:BATCH]
        for result in results:
            self._move(result)
        if self.plan.circuit is not None:
            self._fold(results)
        woken = self.slots.next_in_line(result.job for result in results)
        self.slots.leave_line(woken)
        for no in sorted(woken):
            self.wake(no, self.now)
        self._recording = bool(self._done)
        if self._recording:
            self.at(self.now + RECORDING, self._record)

    def _move(self, result: Result) -> None:
        job, verdict = result.job, result.judgement.verdict
        if isinstance(verdict, Delivered):
            self.watch.delivered(job, self.now)
        elif isinstance(verdict, Retry):
            attempts = job.attempts + verdict.spends
            row = (verdict.at, job.delivery_id, attempts, verdict.delay, job.accepted_at)
            heapq.heappush(self.queues[job.endpoint_no], row)
            self.watch.failed(job.endpoint_no, attempts)
            self.wake(job.endpoint_no, max(verdict.at, self.now))
        else:
            self.watch.failed(job.endpoint_no, job.attempts + 1)
            self.watch.died(job.endpoint_no)

    def _fold(self, results: Sequence[Result]) -> None:
        """Apply the outcomes to the lanes as the stores do: a healthy lane without limits is neither read nor written."""
        touched = {result.job.endpoint_no for result in results if moves_lane(result)}
        touched |= {no for no in (result.job.endpoint_no for result in results) if unhealthy(self.lanes[no])}
        if not touched:
            return
        ended = (result for result in results if result.job.endpoint_no in touched)
        for no, outcomes in outcomes_of(ended, self.now).items():
            folded = circuit.fold(self.lanes[no], outcomes, now=self.now, policy=self.policy, chance=self.chance)
            self.lanes[no] = folded.lane
            if folded.wake_at is not None:
                self.wake(no, folded.wake_at)


def unhealthy(lane: Lane) -> bool:
    """Return whether the lane is not healthy. This is the condition of `record_lanes` in the SQL of both engines."""
    return (
        lane.circuit != Circuit.CLOSED or lane.failures > 0 or lane.failing_since is not None or lane.pace is not None
    )
