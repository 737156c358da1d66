"""The states of the model: lanes, deliveries, wake tokens, workers, and the transactions that run.

Times are ticks, and 0 is now. Each tick subtracts 1 from all times, so the states do not grow with time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple, TypeVar

from hookline.model.states import DeliveryState
from tests.model.decisions import Lane, Token

T = TypeVar("T")
S = DeliveryState
ENDED = frozenset({S.DELIVERED, S.DEAD})
WAITING = frozenset({S.PENDING, S.SCHEDULED})


class Row(NamedTuple):
    """A delivery."""

    lane: int
    state: DeliveryState
    due: int = 0
    lease: int = 0
    counted: bool = False
    sent: int = 0  # 0: not sent since its last recorded result; 1: sent once; 2: sent, and the lease was lost


class Phase(IntEnum):
    FLYING = 0  # the request holds a slot
    GOOD = 1
    BAD = 2
    UNSENT = 3  # to be released


class Job(NamedTuple):
    """A leased delivery in the memory of a worker. `current`: it has the claim token that the delivery has now."""

    row: int
    epoch: int
    counted: bool = False
    probe: bool = False
    phase: Phase = Phase.FLYING
    current: bool = True


class Part(IntEnum):
    """How far a claim is."""

    READ = 0  # `claim_lanes` has read wake tokens and lanes
    LOCKED = 1  # it has locked them
    LOOKED = 2  # `claim_take` has read deliveries


class Claim(NamedTuple):
    now: int  # when the transaction began
    want: int  # slots that the claim may take
    held: tuple[int, ...]  # slots of the worker that each lane holds
    part: Part = Part.READ
    read: tuple[Lane | None, ...] = ()  # the lanes in the snapshot; only mutations use them
    lanes: tuple[tuple[int, int], ...] = ()  # locked lanes with the floors of their wake tokens
    rows: tuple[tuple[int, int], ...] = ()  # deliveries in the snapshot, with their due times


class Worker(NamedTuple):
    jobs: tuple[Job, ...] = ()
    claim: Claim | None = None


class Place(IntEnum):
    """What ingest makes of a message in one lane."""

    NONE = 0  # no delivery
    WAITING = 1  # a delivery and a wake token
    LEASED = 2
    SILENT = 3  # a delivery without a wake token: only mutations do this


class Ingest(NamedTuple):
    """The transaction that accepts a message, with the slots that the worker reserved and the deliveries, by lane."""

    now: int
    message: int
    reserved: tuple[int, ...]
    places: tuple[Place, ...]


class Sweep(NamedTuple):
    now: int
    rows: tuple[int, ...]


class Chances(NamedTuple):
    """How often each of these may still happen."""

    messages: int = 0
    crashes: int = 0
    losses: int = 0  # of answers to COMMIT
    failures: int = 0
    releases: int = 0
    pauses: int = 0
    deletions: int = 0
    stalls: int = 0  # of a worker until its lease is over, or of a transaction
    renewals: int = 0  # of a time budget


class State(NamedTuple):
    lanes: tuple[Lane | None, ...]
    rows: tuple[Row | None, ...]  # the delivery of message m in lane n has the index m * lanes + n
    tokens: tuple[Token, ...]
    workers: tuple[Worker, ...]
    chances: Chances
    ingest: Ingest | None = None  # of worker 0
    sweep: Sweep | None = None
    resume: tuple[int, int | None] | None = None  # a locked lane; only a mutation uses the second value
    renewal: int | None = None  # a delivery that the transaction which checks its time budget has locked
    answered: int = 0  # messages whose sender got an answer, as bits


# ── states ──


def rows_of(s: State) -> Iterator[tuple[int, Row]]:
    return ((index, row) for index, row in enumerate(s.rows) if row is not None)


def row_of(s: State, index: int) -> Row:
    row = s.rows[index]
    assert row is not None
    return row


def waiting_of(s: State, no: int) -> list[tuple[int, Row]]:
    return [(index, row) for index, row in rows_of(s) if row.lane == no and row.state in WAITING]


def held_slots(s: State, w: int) -> tuple[int, ...]:
    """Return the slots that each lane holds, with those that are reserved."""
    held = [0] * len(s.lanes) if w or s.ingest is None else list(s.ingest.reserved)
    for job in s.workers[w].jobs:
        row = s.rows[job.row]
        if job.phase == Phase.FLYING and row is not None:
            held[row.lane] += 1
    return tuple(held)


def would_stall(s: State) -> bool:
    """Return whether a tick now would last longer than a transaction, or than the lease of a request of a worker."""
    jobs = (job for worker in s.workers for job in worker.jobs)
    rows = (s.rows[job.row] for job in jobs if job.current)
    return bool(transactions(s)) or any(row is not None and row.lease <= 1 for row in rows)


def transactions(s: State) -> list[int]:
    """Return when each running transaction that uses the time began."""
    open_ones = (s.ingest, s.sweep, *(worker.claim for worker in s.workers))
    return [tx.now for tx in open_ones if tx is not None]


def replaced(items: tuple[T, ...], place: int, item: T) -> tuple[T, ...]:
    return (*items[:place], item, *items[place + 1 :])


def less(s: State, **spent: int) -> State:
    left = {name: getattr(s.chances, name) - count for name, count in spent.items()}
    return s._replace(chances=s.chances._replace(**left))


def with_lane(s: State, no: int, lane: Lane) -> State:
    return s._replace(lanes=replaced(s.lanes, no, lane))


def with_token(s: State, token: Token | None) -> State:
    return s if token is None else s._replace(tokens=(*s.tokens, token))


def with_claim(s: State, w: int, claim: Claim | None) -> State:
    return s._replace(workers=replaced(s.workers, w, s.workers[w]._replace(claim=claim)))


def with_jobs(s: State, w: int, jobs: Sequence[Job]) -> State:
    worker = s.workers[w]
    return s._replace(workers=replaced(s.workers, w, worker._replace(jobs=(*worker.jobs, *jobs))))


def with_job(s: State, w: int, place: int, job: Job | None) -> State:
    worker = s.workers[w]
    kept = () if job is None else (job,)
    jobs = (*worker.jobs[:place], *kept, *worker.jobs[place + 1 :])
    return s._replace(workers=replaced(s.workers, w, worker._replace(jobs=jobs)))


def unseen(token: Token, w: int) -> Token:
    return token._replace(seen=token.seen & ~(1 << w))


def without_claim(s: State, w: int) -> State:
    """End a worker's claim: its snapshot is gone."""
    return with_claim(s._replace(tokens=tuple(unseen(token, w) for token in s.tokens)), w, None)


# ── times, and states that mean the same ──


def later(s: State) -> State:
    return _with_times(s, lambda at: at - 1)


def canonical(s: State) -> State:
    """Return the state that stands for all states that behave in the same way.

    Of past times, only the order is kept. An epoch is 0 if it is that of the lane, and -1 otherwise. A wake token that
    is neither earlier nor has a lower floor than another one is left out: a claim that reads it has read the other one too.
    """
    ranks = {at: -place for place, at in enumerate(sorted(_past(s), reverse=True), 1)}
    if any(at != rank for at, rank in ranks.items()):
        s = _with_times(s, lambda at: ranks.get(at, at))
    lanes = s.lanes
    if any(lane is not None and lane.epoch for lane in lanes):
        lanes = tuple(lane and lane._replace(epoch=0) for lane in lanes)
    workers = tuple(worker._replace(jobs=_jobs(s, worker.jobs)) if worker.jobs else worker for worker in s.workers)
    return s._replace(lanes=lanes, workers=workers, tokens=_needed(s.tokens))


def _jobs(s: State, jobs: Sequence[Job]) -> tuple[Job, ...]:
    return tuple(sorted(_job(s, job) for job in jobs))


def _job(s: State, job: Job) -> Job:
    row = s.rows[job.row]
    assert row is not None
    if not job.current or row.state != S.DELIVERING:
        return Job(job.row, 0, job.counted, job.probe, job.phase, current=False)
    lane = s.lanes[row.lane]
    old = lane is not None and job.epoch != lane.epoch
    return job._replace(epoch=-1 if old else 0)


def _needed(tokens: Sequence[Token]) -> tuple[Token, ...]:
    kept: list[Token] = []
    for token in sorted(tokens):
        others = (other for other in kept if other.lane == token.lane and other.seen == token.seen)
        if not any(other.floor <= token.floor for other in others):
            kept.append(token)
    return tuple(kept)


def _past(s: State) -> set[int]:
    """Return the past times whose order matters."""
    times = set(transactions(s))
    times.update(token.floor for token in s.tokens)
    times.update(row.due for _, row in rows_of(s))
    times.update(lane.waiting_floor for lane in s.lanes if lane is not None and lane.waiting_floor is not None)
    for worker in s.workers:
        if worker.claim is not None:
            times.update(at for _, at in (*worker.claim.lanes, *worker.claim.rows))
    if s.resume is not None and s.resume[1] is not None:
        times.add(s.resume[1])
    return {at for at in times if at < 0}


def _with_times(s: State, change: Callable[[int], int]) -> State:
    """Change all times. Of the times that are only compared with the present, -1 stands for all in the past."""

    def present(at: int) -> int:
        return max(-1, change(at))

    def pairs(items: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
        return tuple((no, change(at)) for no, at in items)

    def of_row(row: Row) -> Row:
        if row.state in ENDED:
            return row
        return row._replace(due=change(row.due), lease=present(row.lease) if row.state == S.DELIVERING else 0)

    def of_lane(lane: Lane) -> Lane:
        probe_at, floor = lane.probe_at, lane.waiting_floor
        return lane._replace(
            probe_at=None if probe_at is None else present(probe_at),
            waiting_floor=None if floor is None else change(floor),
        )

    def of_claim(claim: Claim) -> Claim:
        read = tuple(lane and of_lane(lane) for lane in claim.read)
        return claim._replace(now=change(claim.now), read=read, lanes=pairs(claim.lanes), rows=pairs(claim.rows))

    return s._replace(
        lanes=tuple(lane and of_lane(lane) for lane in s.lanes),
        rows=tuple(row and of_row(row) for row in s.rows),
        tokens=tuple(token._replace(at=present(token.at), floor=change(token.floor)) for token in s.tokens),
        workers=tuple(worker._replace(claim=worker.claim and of_claim(worker.claim)) for worker in s.workers),
        ingest=s.ingest and s.ingest._replace(now=change(s.ingest.now)),
        sweep=s.sweep and s.sweep._replace(now=change(s.sweep.now)),
        resume=s.resume and (s.resume[0], None if s.resume[1] is None else change(s.resume[1])),
    )
