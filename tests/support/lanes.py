"""One lane in virtual time with deliveries, wake tokens and leases, as an engine keeps it. For tests of `lane` and
`circuit`."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from hookline.model.lanes import Lane, LaneEvent
from hookline.model.policy import CircuitPolicy
from hookline.model.states import Circuit, EndpointStatus, Health
from hookline.rules.lane.admission import REFUSED_PAUSE, admit, after_claim
from hookline.rules.lane.circuit import LaneOutcome, fold

BEGIN = datetime(2025, 6, 2, 9, 30, 11, 40, tzinfo=UTC)
UNKNOWN_EPOCH = -1  # the epoch that a sweep records for an expired lease


@dataclass(frozen=True, eq=False)
class Job:
    """A leased delivery."""

    delivery: int
    started_at: datetime
    lease_until: datetime
    epoch: int
    counted: bool
    probe: bool
    circuit: Circuit  # state of the circuit when the delivery was admitted
    rate: float | None


@dataclass(frozen=True)
class Token:
    at: datetime
    floor: datetime


@dataclass
class World:
    lane: Lane
    policy: CircuitPolicy = field(default_factory=CircuitPolicy)
    lease: float = 45.0
    chance: random.Random = field(default_factory=lambda: random.Random(7))
    now: datetime = BEGIN
    waiting: dict[int, datetime] = field(default_factory=dict)
    tokens: list[Token] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    lost: list[Job] = field(default_factory=list)  # jobs whose workers died
    starts: list[Job] = field(default_factory=list)
    events: list[LaneEvent] = field(default_factory=list)
    made: int = 0

    # ── time and work ──

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def add(self, count: int, due_in: float = 0.0) -> None:
        """Ingest deliveries: add them and one wake token. The lane row does not change."""
        due = self.now + timedelta(seconds=due_in)
        for _ in range(count):
            self.waiting[self.made] = due
            self.made += 1
        self.tokens.append(Token(due, due))

    # ── claim ──

    def claim(self, want: int = 100, crowded: int | None = None, locked: int = 0) -> list[Job]:
        """Claim as an engine does. Another transaction locks the first `locked` candidates, so the claim skips them."""
        if not any(token.at <= self.now for token in self.tokens):
            return []
        floor = min(token.floor for token in self.tokens)
        self.tokens.clear()
        admission = admit(self.lane, now=self.now, want=want, room=crowded, policy=self.policy)
        found = sorted((due, no) for no, due in self.waiting.items() if due >= floor)[: admission.quota + 1]
        taken = [no for due, no in found[locked : admission.quota] if due <= self.now]
        left_floor = min((due for due, no in found if no not in taken), default=None)
        self.lane = after_claim(
            self.lane, admission, taken=len(taken), left_floor=left_floor, now=self.now, lease=self.lease
        )
        if left_floor is not None and admission.rest_at is not None:
            self.tokens.append(Token(max(admission.rest_at, left_floor), left_floor))
        return [self._take(no, admission.counted, admission.probe, admission.rate) for no in taken]

    def _take(self, delivery: int, counted: bool, probe: bool, rate: float | None) -> Job:
        del self.waiting[delivery]
        until = self.now + timedelta(seconds=self.lease)
        job = Job(delivery, self.now, until, self.lane.epoch, counted, probe, self.lane.circuit, rate)
        self.jobs.append(job)
        self.starts.append(job)
        return job

    # ── record and sweep ──

    def finish(
        self,
        jobs: Sequence[Job],
        health: Health,
        *,
        retry_in: float | None = None,
        hold: float | None = None,
        slow_down: bool = False,
    ) -> None:
        """Record one batch. Deliveries that failed are due again after `retry_in` seconds."""
        retry_in = retry_in if retry_in is not None else (None if health == Health.GOOD else 0.0)
        until = None if hold is None else self.now + timedelta(seconds=hold)
        self._fold([outcome(job, health, hold_until=until, slow_down=slow_down) for job in jobs])
        for job in jobs:
            self.jobs.remove(job)
        if retry_in is not None:
            self._again(jobs, retry_in)

    def lose(self, job: Job) -> None:
        """The worker of this job dies. Nothing happens to the job until the sweep finds its expired lease."""
        self.jobs.remove(job)
        self.lost.append(job)

    def sweep(self) -> None:
        over = [job for job in self.lost if job.lease_until <= self.now]
        self._fold([replace(outcome(job, Health.NONE), epoch=UNKNOWN_EPOCH, probe=False) for job in over])
        self.lost = [job for job in self.lost if job not in over]
        self._again(over, 0.0)

    def _again(self, jobs: Sequence[Job], retry_in: float) -> None:
        due = self.now + timedelta(seconds=retry_in)
        self.waiting |= {job.delivery: due for job in jobs}
        if jobs:
            self.tokens.append(Token(due, due))

    def _fold(self, outcomes: Sequence[LaneOutcome]) -> None:
        folded = fold(self.lane, outcomes, now=self.now, policy=self.policy, chance=self.chance)
        self.lane = folded.lane
        self.events += folded.events
        if folded.wake_at is not None:
            assert folded.wake_floor is not None
            self.tokens.append(Token(folded.wake_at, folded.wake_floor))

    # ── status ──

    def set_status(self, status: EndpointStatus) -> None:
        self.lane = replace(self.lane, status=status)
        if status == EndpointStatus.ACTIVE and self.waiting:
            self.tokens.append(Token(self.now, min(self.waiting.values())))

    # ── invariants ──

    def check(self) -> None:
        lane = self.lane
        assert lane.in_flight == sum(job.counted for job in (*self.jobs, *self.lost))
        assert (lane.probe_at is not None) == (lane.circuit in (Circuit.OPEN, Circuit.HALF_OPEN))
        assert (lane.window is not None) == (lane.circuit == Circuit.RECOVERING)
        assert lane.window is None or 1 <= lane.window <= self.policy.recovery_done
        assert (lane.opened_at is None) == (lane.circuit == Circuit.CLOSED)
        probes = [job for job in (*self.jobs, *self.lost) if job.probe and job.lease_until > self.now]
        assert len(probes) <= 1
        # If the lane waits for a slot, a job in flight must exist, which will free one.
        assert lane.waiting_floor is None or lane.in_flight > 0
        for due in set(self.waiting.values()):
            self._check_wakes(due)

    def _check_wakes(self, due: datetime) -> None:
        """Invariant 7: there is a wake token, no later than the due time of the delivery or the end of the hold of its
        lane."""
        if self.lane.status != EndpointStatus.ACTIVE:
            return
        if self.lane.waiting_floor is not None and self.lane.waiting_floor <= due:
            return
        reasons = (self.lane.probe_at, self.lane.held_until, self.lane.tat)
        latest = max(due, self.now + REFUSED_PAUSE, *(at for at in reasons if at is not None))
        assert any(token.floor <= due and token.at <= latest for token in self.tokens)

    # ── recovery ──

    def drain(self, longest: float) -> None:
        """From now on the endpoint is healthy: check that everything is delivered within `longest` seconds."""
        end = self.now + timedelta(seconds=longest)
        while self.waiting or self.jobs or self.lost:
            assert self.now <= end, f"{len(self.waiting)} deliveries were left: {self.lane}"
            self.sweep()
            self.claim()
            if self.jobs:
                self.advance(0.02)
                self.finish(list(self.jobs), Health.GOOD)
            elif not any(token.at <= self.now for token in self.tokens):
                self.now = min([token.at for token in self.tokens] + [job.lease_until for job in self.lost])
            self.check()


def outcome(job: Job, health: Health, *, hold_until: datetime | None = None, slow_down: bool = False) -> LaneOutcome:
    return LaneOutcome(
        health=health,
        epoch=job.epoch,
        claimed_at=job.started_at,
        counted=job.counted,
        probe=job.probe,
        hold_until=hold_until,
        slow_down=slow_down,
        cause="status 503",
    )
