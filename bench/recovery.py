"""What an endpoint sees when it comes back: 5,000 messages have waited through an outage of 30 s. Virtual time, seeded, no I/O.

    python -m bench.recovery [--seed N] [--json]

The decisions are the real ones (`judge`, `backoff`, `lane`, `circuit`); only the clock, the network and the database are
played. One worker with 256 slots; the endpoint refuses in 2 ms while it is down and answers in 20 ms when it is up.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count

from msgspec.structs import replace

from hookline.flow import circuit, lane
from hookline.flow.judge import judge
from hookline.model import CircuitPolicy, Delivered, Job, Judgement, Lane, Retry, RetryPolicy, Sent, Strategy
from hookline.states import ErrorKind

BEGIN = datetime(2025, 1, 1, tzinfo=UTC)
RETURN = BEGIN + timedelta(seconds=30)
MESSAGES = 5_000
SLOTS = 256
LEASE = 60.0
SHOWN = 15  # seconds
REFUSING = timedelta(milliseconds=2)
ANSWERING = timedelta(milliseconds=20)
RECORDING = timedelta(milliseconds=5)  # outcomes are written in batches this far apart

DEFAULT = RetryPolicy()
NO_JITTER = replace(DEFAULT, strategy=Strategy.FIXED, schedule=tuple(min(6 * 3600.0, 3.0**n) for n in range(11)))


@dataclass(frozen=True)
class Plan:
    name: str
    retry: RetryPolicy
    circuit: CircuitPolicy | None  # None: outcomes leave the lane alone


PLANS = [
    Plan("exponential, no jitter", NO_JITTER, None),
    Plan("full jitter alone", DEFAULT, None),
    Plan("ours: jitter, circuit, ramp", DEFAULT, CircuitPolicy()),
    Plan("ours, cooldown 10 s", DEFAULT, CircuitPolicy(cooldown=10.0)),
]


@dataclass
class Tally:
    """What came of one plan."""

    starts: list[datetime] = field(default_factory=list)
    failed: int = 0
    spent: int = 0  # attempts of the budget
    dead: int = 0
    drained_at: datetime = BEGIN

    def answered(self) -> datetime:
        return min(at for at in self.starts if at >= RETURN)

    def curve(self, origin: datetime) -> list[int]:
        """Requests in each second from `origin` on."""
        seconds = Counter((at - origin) // timedelta(seconds=1) for at in self.starts if at >= origin)
        return [seconds[second] for second in range(SHOWN)]

    def steepest(self) -> int:
        """The most requests in any second after the return."""
        after = sorted(at for at in self.starts if at >= RETURN)
        first = most = 0
        for last, at in enumerate(after):
            while at - after[first] >= timedelta(seconds=1):
                first += 1
            most = max(most, last - first + 1)
        return most


class Simulation:
    """One lane, one worker, one endpoint. Events run in the order of their instants, then of their making."""

    def __init__(self, plan: Plan, seed: int) -> None:
        self.plan = plan
        self.chance = random.Random(seed)
        self.now = BEGIN
        self.lane = Lane(endpoint_no=1, app_no=1)
        self.token: datetime | None = None
        self.free = SLOTS
        self.tally = Tally()
        self.jobs = {number: new_job(number) for number in range(MESSAGES)}
        self.waiting = [(BEGIN, number) for number in range(MESSAGES)]
        self.done: list[tuple[Job, Sent]] = []
        self.events: list[tuple[datetime, int, Callable[[], None]]] = []
        self.order = count()

    def run(self) -> Tally:
        self.wake(BEGIN)
        while self.events:
            self.now, _, event = heapq.heappop(self.events)
            event()
        assert not self.jobs, f"{len(self.jobs)} deliveries were never finished"
        return self.tally

    def at(self, when: datetime, event: Callable[[], None]) -> None:
        heapq.heappush(self.events, (max(when, self.now), next(self.order), event))

    # ── claim ──

    def wake(self, when: datetime) -> None:
        """Whoever serves the lane consumes all its tokens, so only the earliest matters."""
        when = max(when, self.now)
        if self.token is None or when < self.token:
            self.token = when
            self.at(when, self.serve)

    def serve(self) -> None:
        if self.token == self.now:
            self.token = None
            self.look()

    def look(self) -> None:
        if not self.free or not self.waiting:
            return  # whoever frees a slot or adds work looks again
        policy = self.plan.circuit or CircuitPolicy()
        admission = lane.admit(self.lane, now=self.now, want=self.free, crowded=None, policy=policy)
        taken = self.take(admission.quota)
        left = self.waiting[0][0] if self.waiting else None
        self.lane = lane.after_claim(self.lane, admission, taken=len(taken), left_floor=left, now=self.now, lease=LEASE)
        if left is not None and admission.rest_at is not None:
            self.wake(max(admission.rest_at, left))
        for number in taken:
            self.start(number, admission)

    def take(self, quota: int) -> list[int]:
        taken: list[int] = []
        while len(taken) < quota and self.waiting and self.waiting[0][0] <= self.now:
            taken.append(heapq.heappop(self.waiting)[1])
        return taken

    # ── send ──

    def start(self, number: int, admission: lane.Admission) -> None:
        self.free -= 1
        self.tally.starts.append(self.now)
        job = replace(self.jobs[number], epoch=self.lane.epoch, counted=admission.counted, probe=admission.probe)
        if self.now < RETURN:
            sent, took = Sent(error=ErrorKind.REFUSED, untouched=True, started_at=self.now), REFUSING
        else:
            sent, took = Sent(status=204, started_at=self.now), ANSWERING
        self.at(self.now + took, lambda: self.finish(job, sent))

    def finish(self, job: Job, sent: Sent) -> None:
        self.free += 1
        if not self.done:
            self.at(self.now + RECORDING, self.record)
        self.done.append((job, sent))

    # ── judge and record ──

    def record(self) -> None:
        results, self.done = self.done, []
        outcomes = []
        for job, sent in results:
            judgement = judge(sent, job, self.plan.retry, now=self.now, chance=self.chance)
            self.move(job, judgement)
            outcomes.append(outcome_of(job, judgement))
        if self.plan.circuit is not None:
            self.fold(outcomes, self.plan.circuit)
        if self.waiting:
            self.wake(self.waiting[0][0])

    def move(self, job: Job, judgement: Judgement) -> None:
        match judgement.verdict:
            case Delivered():
                del self.jobs[job.delivery_id]
                self.tally.drained_at = self.now
            case Retry(at=at, spends=spends, delay=delay):
                self.tally.failed += 1
                self.tally.spent += spends
                self.jobs[job.delivery_id] = replace(job, attempts=job.attempts + spends, last_delay=delay)
                heapq.heappush(self.waiting, (at, job.delivery_id))
            case _:
                self.tally.failed += 1
                self.tally.dead += 1
                del self.jobs[job.delivery_id]

    def fold(self, outcomes: list[circuit.LaneOutcome], policy: CircuitPolicy) -> None:
        folded = circuit.fold(self.lane, outcomes, now=self.now, policy=policy, chance=self.chance)
        self.lane = folded.lane
        if folded.wake_at is not None:
            self.wake(folded.wake_at)


def new_job(number: int) -> Job:
    return Job(
        delivery_id=number,
        claim=1,
        message_id=f"msg_{number}",
        app_no=1,
        endpoint_no=1,
        revision=1,
        event_type="order.paid",
        payload=b"{}",
        attempts=0,
        sent=0,
        accepted_at=BEGIN,
        expires_at=BEGIN + timedelta(seconds=DEFAULT.max_age),
        claimed_at=BEGIN,
        lease_until=BEGIN + timedelta(seconds=LEASE),
        due_at=BEGIN,
        epoch=0,
        counted=False,
        probe=False,
        trigger=0,
    )


def outcome_of(job: Job, judgement: Judgement) -> circuit.LaneOutcome:
    return circuit.LaneOutcome(health=judgement.health, epoch=job.epoch, counted=job.counted, probe=job.probe)


# ── report ────────────────────────────────────────────────────────────────────────────────────────────────────────


def seconds(span: timedelta) -> float:
    return round(span.total_seconds(), 1)


def report(plan: Plan, tally: Tally) -> dict[str, object]:
    return {
        "plan": plan.name,
        "after_return": tally.curve(RETURN),
        "after_first_answer": tally.curve(tally.answered()),
        "first_answer_s": seconds(tally.answered() - RETURN),
        "steepest_second": tally.steepest(),
        "drained_s": seconds(tally.drained_at - RETURN),
        "failed_attempts": tally.failed,
        "attempts_spent": tally.spent,
        "dead": tally.dead,
    }


def show(reports: list[dict[str, object]]) -> None:
    numbers = "".join(f"{second + 1:>6}" for second in range(SHOWN))
    for key, title in (
        ("after_return", "requests in each second after the endpoint's return"),
        ("after_first_answer", "the same from the first request that it answered"),
    ):
        print(f"{title}\n{'second':28}{numbers}")
        for row in reports:
            curve = row[key]
            assert isinstance(curve, list)
            print(f"{row['plan']!s:28}{''.join(f'{n:>6}' for n in curve)}")
        print()
    columns = ("first_answer_s", "steepest_second", "drained_s", "failed_attempts", "attempts_spent", "dead")
    print(f"{'':28}{''.join(f'{name:>17}' for name in columns)}")
    for row in reports:
        print(f"{row['plan']!s:28}{''.join(f'{row[name]!s:>17}' for name in columns)}")


def main() -> None:
    parser = argparse.ArgumentParser(description="What an endpoint sees when it comes back after an outage.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    reports = [report(plan, Simulation(plan, options.seed).run()) for plan in PLANS]
    if options.json:
        print(json.dumps(reports))
    else:
        show(reports)


if __name__ == "__main__":
    main()
