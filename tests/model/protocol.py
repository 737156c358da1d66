"""The protocol of lanes, wake tokens, leases and hand-over, as a small model: the steps from state to state.

The model follows `store/sql/postgres/{ingest,claim,record,sweep}.sql` under READ COMMITTED. A statement reads its
snapshot in one step, and locks and writes in a later step, so other transactions commit between them. Nobody sees what
a transaction writes before it commits, so its last step writes and commits. A transaction is one step if it checks again
what it has locked: it then does not matter when it took its snapshot.

A worker may be killed between any two steps, and the answer to a COMMIT may be lost. The short methods are the
decisions that `mutations.py` replaces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hookline.model.states import Circuit, DeliveryState, EndpointStatus, Health, move
from tests.model import decisions
from tests.model.decisions import LEASE, Lane, Outcome, Token
from tests.model.states import (
    Chances,
    Claim,
    Ingest,
    Job,
    Part,
    Phase,
    Place,
    Row,
    State,
    Sweep,
    Worker,
    held_slots,
    later,
    less,
    replaced,
    row_of,
    rows_of,
    transactions,
    unseen,
    waiting_of,
    with_claim,
    with_job,
    with_jobs,
    with_lane,
    with_token,
    without_claim,
    would_stall,
)

S = DeliveryState


class Broken(Exception):
    """A step did something that the protocol forbids."""


class Setting(NamedTuple):
    lanes: tuple[Lane, ...]
    chances: Chances
    slots: int = 1  # of each of the two workers
    share: int = 1  # slots that a lane may hold


class Step(NamedTuple):
    text: str
    after: State
    fair: bool = True  # it happens sooner or later if it is possible again and again


class Protocol:
    """Worker 0 is in a process that also accepts messages. Worker 1 is in a process without an API."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    def start(self) -> State:
        lanes, chances, *_ = self.setting
        return State(lanes, (None,) * (chances.messages * len(lanes)), (), (Worker(), Worker()), chances)

    def steps(self, s: State) -> Iterator[Step]:
        yield from self.ingest(s)
        for w in range(len(s.workers)):
            yield from self.claim(s, w)
            yield from self.work(s, w)
        yield from self.sweep(s)
        yield from self.sweep_deleted(s)
        yield from self.administer(s)
        yield from self.renew(s)
        yield from self.wait(s)

    def wait(self, s: State) -> Iterator[Step]:
        if not would_stall(s):
            yield Step("time passes", later(s))
        elif s.chances.stalls and all(now == 0 for now in transactions(s)):
            yield Step("time passes during a stall", later(less(s, stalls=1)), fair=False)

    # ── ingest ──

    def ingest(self, s: State) -> Iterator[Step]:
        if s.ingest is not None:
            yield from self.accept(s, s.ingest)
        elif s.chances.messages:
            message = self.setting.chances.messages - s.chances.messages
            for reserved in sorted({(0,) * len(s.lanes), self.reserve(s)}):
                places = tuple(self.place(s, no, bool(reserved[no])) for no in range(len(s.lanes)))
                after = less(s, messages=1)._replace(ingest=Ingest(0, message, reserved, places))
                text = f"ingest of message {message} reads its snapshot; {sum(reserved)} slots are offered"
                yield Step(text, after, fair=False)

    def reserve(self, s: State) -> tuple[int, ...]:
        claim = s.workers[0].claim
        return decisions.reserved(self.setting.slots, held_slots(s, 0), 0 if claim is None else claim.want)

    def place(self, s: State, no: int, offered: bool) -> Place:
        """Return what ingest makes of the message in one lane. It reads everything from its snapshot."""
        lane = s.lanes[no]
        if lane is None or lane.status >= EndpointStatus.DISABLED:
            return Place.NONE
        if not (offered and self.may_hand_over(s, no, lane)):
            return Place.WAITING
        if lane.status != EndpointStatus.ACTIVE or decisions.restricted(lane) or lane.failures:
            raise Broken("a delivery was handed over, but its lane is paused, limited or not healthy")
        return Place.LEASED

    def may_hand_over(self, s: State, no: int, lane: Lane) -> bool:
        """Return whether the lane is in the part `offered` of ingest.sql."""
        free = lane.status == EndpointStatus.ACTIVE and lane.healthy and lane.window is None and lane.limit is None
        return free and not any(token.lane == no for token in s.tokens)

    def accept(self, s: State, tx: Ingest) -> Iterator[Step]:
        rows, tokens, jobs = list(s.rows), list(s.tokens), list[Job]()
        for no, place in enumerate(tx.places):
            row = tx.message * len(s.lanes) + no
            rows[row] = _made(no, place, tx.now)
            if place == Place.LEASED:
                jobs.append(Job(row, 0))
            elif place == Place.WAITING:
                tokens.append(Token(no, tx.now, tx.now))
        done = s._replace(rows=tuple(rows), tokens=tuple(tokens), ingest=None)
        answered = done._replace(answered=s.answered | 1 << tx.message)
        yield Step("ingest writes and commits", with_jobs(answered, 0, jobs))
        if jobs and s.chances.releases:
            unsent = [job._replace(phase=Phase.UNSENT) for job in jobs]
            text = "ingest writes and commits; the worker has cached an older revision of the endpoint"
            yield Step(text, with_jobs(less(answered, releases=1), 0, unsent), fair=False)
        if s.chances.losses:
            yield Step("ingest writes and commits; the answer is lost", less(done, losses=1), fair=False)

    # ── claim ──

    def claim(self, s: State, w: int) -> Iterator[Step]:
        claim, name = s.workers[w].claim, f"claim of worker {w}"
        if claim is None:
            if (want := self.want(s, w)) > 0 and any(token.at <= 0 for token in s.tokens):
                tokens = tuple(token._replace(seen=token.seen | 1 << w) for token in s.tokens)
                started = Claim(0, want, held_slots(s, w), read=self.claim_reads(s))
                yield Step(f"{name} reads wake tokens", with_claim(s._replace(tokens=tokens), w, started))
        elif claim.part == Part.READ:
            yield Step(f"{name} locks lanes", self.claim_lock(s, w, claim))
        elif claim.part == Part.LOCKED:
            yield Step(f"{name} reads deliveries", with_claim(s, w, self.claim_look(s, claim)))
        else:
            after, jobs = self.claim_take(s, w, claim)
            yield Step(f"{name} leases {len(jobs)} and commits", with_jobs(after, w, jobs))
            if jobs and s.chances.losses:
                text = f"{name} leases {len(jobs)} and commits; the answer is lost"
                yield Step(text, less(after, losses=1), fair=False)

    def want(self, s: State, w: int) -> int:
        return decisions.wanted(self.setting.slots, held_slots(s, w), accepts=w == 0)

    def claim_reads(self, s: State) -> tuple[Lane | None, ...]:
        return ()

    def claim_lock(self, s: State, w: int, claim: Claim) -> State:
        """Lock the lanes of the due wake tokens in the snapshot, except those that others have locked. Mark as read only
        the wake tokens of these lanes, also those for later."""
        seen = [token for token in s.tokens if token.seen >> w & 1]
        due = {token.lane for token in seen if token.at <= claim.now}
        found = [no for no in sorted(due) if s.lanes[no] is not None and not self.skips(s, no)]
        if not found:
            return without_claim(s, w)
        lanes = tuple((no, self.floor(s, no, seen)) for no in found)
        tokens = tuple(token if token.lane in found else unseen(token, w) for token in s.tokens)
        return with_claim(s._replace(tokens=tokens), w, claim._replace(part=Part.LOCKED, lanes=lanes))

    def floor(self, s: State, no: int, seen: Sequence[Token]) -> int:
        """Return the earliest due time that the claim searches for."""
        lane = s.lanes[no]
        floors = [token.floor for token in seen if token.lane == no]
        if lane is not None and lane.waiting_floor is not None:
            floors.append(lane.waiting_floor)
        return min(floors)

    def skips(self, s: State, no: int) -> bool:
        return self.locked(s, no)

    def locked(self, s: State, no: int) -> bool:
        if s.resume is not None and s.resume[0] == no:
            return True
        return any(worker.claim and no in (lane for lane, _ in worker.claim.lanes) for worker in s.workers)

    def claim_lane(self, s: State, claim: Claim, no: int) -> Lane:
        """Return the lane as it is after the lock."""
        lane = s.lanes[no]
        assert lane is not None
        return lane

    def claim_terms(self, s: State, claim: Claim) -> decisions.Terms:
        found = tuple((no, self.claim_lane(s, claim, no)) for no, _ in claim.lanes)
        return decisions.Terms(found, claim.now, claim.want, claim.held, self.setting.share)

    def claim_look(self, s: State, claim: Claim) -> Claim:
        """Read the candidates of `claim_take`: of each lane, one more than it may get."""
        rows: list[tuple[int, int]] = []
        admitted = decisions.admissions(self.claim_terms(s, claim))
        for (no, floor), admission in zip(claim.lanes, admitted, strict=True):
            waiting = sorted((row.due, index) for index, row in waiting_of(s, no) if row.due >= floor)
            rows += [(index, due) for due, index in waiting[: admission.quota + 1]]
        return claim._replace(part=Part.LOOKED, rows=tuple(rows))

    def claim_take(self, s: State, w: int, claim: Claim) -> tuple[State, list[Job]]:
        terms = self.claim_terms(s, claim)
        admitted = decisions.admissions(terms)
        took, left = [], []
        for (no, _), admission in zip(terms.lanes, admitted, strict=True):
            seen = [(index, due) for index, due in claim.rows if row_of(s, index).lane == no]
            wanted = [index for index, due in seen[: admission.quota] if due <= claim.now]
            taken = [index for index in wanted if self.may_lease(s, claim, index)]
            took.append(taken)
            left.append(min((due for index, due in seen if self.leaves(s, index, taken)), default=None))
        after = decisions.after_claim(terms, tuple(map(len, took)), tuple(left))
        lanes, rows, jobs = list(s.lanes), list(s.rows), list[Job]()
        for (no, _), admission, decided, taken in zip(terms.lanes, admitted, after, took, strict=True):
            lanes[no] = self.claim_writes(decided.lane)
            for index in taken:
                row = row_of(s, index)
                leased = move(row.state, S.DELIVERING)
                rows[index] = row._replace(state=leased, lease=claim.now + LEASE, counted=admission.counted)
                jobs.append(Job(index, decided.lane.epoch, admission.counted, admission.probe))
        tokens = [token for token in s.tokens if not self.consumes(claim, w, token)]
        tokens += [self.rearm(decided.token) for decided in after if decided.token is not None]
        return without_claim(s._replace(lanes=tuple(lanes), rows=tuple(rows), tokens=tuple(tokens)), w), jobs

    def may_lease(self, s: State, claim: Claim, index: int) -> bool:
        row = row_of(s, index)
        return row.state in (S.PENDING, S.SCHEDULED) and row.due <= claim.now and s.renewal != index

    def leaves(self, s: State, index: int, taken: Sequence[int]) -> bool:
        """Return whether the next wake token announces this delivery, which an unlocked read has found."""
        return index not in taken

    def claim_writes(self, lane: Lane) -> Lane:
        return lane

    def consumes(self, claim: Claim, w: int, token: Token) -> bool:
        return bool(token.seen >> w & 1)

    def rearm(self, token: Token) -> Token:
        return token

    # ── send, record, release ──

    def work(self, s: State, w: int) -> Iterator[Step]:
        worker = s.workers[w]
        for place, job in enumerate(worker.jobs):
            yield from self.send(s, w, place, job) if job.phase == Phase.FLYING else self.record(s, w, place, job)
        if s.chances.crashes and (worker != Worker() or (w == 0 and s.ingest is not None)):
            killed = without_claim(less(s, crashes=1), w)
            ingest = None if w == 0 else s.ingest
            after = killed._replace(workers=replaced(killed.workers, w, Worker()), ingest=ingest)
            yield Step(f"worker {w} is killed, and starts again", after, fair=False)

    def send(self, s: State, w: int, place: int, job: Job) -> Iterator[Step]:
        name = f"request of worker {w} for delivery {job.row}"
        sent = s._replace(rows=replaced(s.rows, job.row, _sent(row_of(s, job.row), job)))
        yield Step(f"{name} is answered", with_job(sent, w, place, job._replace(phase=Phase.GOOD)))
        if s.chances.failures:
            after = with_job(less(sent, failures=1), w, place, job._replace(phase=Phase.BAD))
            yield Step(f"{name} fails", after, fair=False)
        if s.chances.releases:
            after = with_job(less(s, releases=1), w, place, job._replace(phase=Phase.UNSENT))
            yield Step(f"{name} does not start", after, fair=False)

    def record(self, s: State, w: int, place: int, job: Job) -> Iterator[Step]:
        """Record or release a delivery. The transaction locks the lane first, unless the lane is healthy and does not
        change."""
        row = row_of(s, job.row)
        lane = s.lanes[row.lane]
        changes = job.phase == Phase.BAD or job.counted or job.probe
        locks = lane is not None and (changes or (job.phase == Phase.GOOD and not lane.healthy))
        if locks and self.locked(s, row.lane):
            return
        held = self.fence(row, job)
        after = self.recorded(s, job, row, locks=locks) if held else s
        name = f"worker {w} {'releases' if job.phase == Phase.UNSENT else 'records'} delivery {job.row}"
        yield Step(name if held else f"{name}, but has lost its claim", with_job(after, w, place, None))
        if held and s.chances.losses:
            yield Step(f"{name}; the answer is lost", less(after, losses=1), fair=False)

    def fence(self, row: Row, job: Job) -> bool:
        return row.state == S.DELIVERING and job.current

    def recorded(self, s: State, job: Job, row: Row, *, locks: bool) -> State:
        if not job.current:
            raise Broken("a result was recorded under a lost claim")
        match job.phase:
            case Phase.GOOD:
                health, moved, token = Health.GOOD, Row(row.lane, move(row.state, S.DELIVERED)), None
            case Phase.BAD:
                health, moved = Health.BAD, Row(row.lane, move(row.state, S.SCHEDULED), due=1)
                token = self.retry_token(Token(row.lane, 1, 1))
            case _:
                health, moved = Health.NONE, Row(row.lane, move(row.state, S.PENDING), row.due, sent=row.sent)
                token = self.release_token(Token(row.lane, max(0, row.due), row.due))
        after = with_token(s._replace(rows=replaced(s.rows, job.row, moved)), token)
        return _folded(after, row.lane, Outcome(health, job.epoch, job.counted, job.probe), 0) if locks else after

    def retry_token(self, token: Token) -> Token | None:
        return token

    def release_token(self, token: Token) -> Token | None:
        return token

    # ── sweep ──

    def sweep(self, s: State) -> Iterator[Step]:
        if s.sweep is None:
            found = tuple(index for index, row in rows_of(s) if row.state == S.DELIVERING and row.lease <= 0)
            if found:
                yield Step("sweep finds expired leases", s._replace(sweep=Sweep(0, found)))
            return
        counted = [row for row in (row_of(s, index) for index in s.sweep.rows) if row.counted]
        if not any(self.locked(s, row.lane) for row in counted):
            yield Step("sweep puts deliveries back", self.put_back(s, s.sweep))

    def put_back(self, s: State, sweep: Sweep) -> State:
        after = s._replace(sweep=None)
        for index in sweep.rows:
            row = row_of(after, index)
            if self.has_expired(row, sweep):
                back = Row(row.lane, move(row.state, S.PENDING), sweep.now, sent=2 * bool(row.sent))
                after = after._replace(rows=replaced(after.rows, index, back))
                after = with_token(after, self.sweep_token(Token(row.lane, sweep.now, sweep.now)))
                if row.counted and after.lanes[row.lane] is not None:
                    after = _folded(after, row.lane, self.lost(), sweep.now)
        return after

    def has_expired(self, row: Row, sweep: Sweep) -> bool:
        return row.state == S.DELIVERING and row.lease <= sweep.now

    def sweep_token(self, token: Token) -> Token | None:
        return token

    def lost(self) -> Outcome:
        return Outcome(Health.NONE, epoch=0, counted=True, probe=False)

    def sweep_deleted(self, s: State) -> Iterator[Step]:
        for no, lane in enumerate(s.lanes):
            if lane is not None and lane.status != EndpointStatus.DELETED:
                continue
            waiting = waiting_of(s, no)
            dead = {index: Row(no, move(row.state, S.DEAD)) for index, row in waiting if index != s.renewal}
            if dead:
                rows = tuple(dead.get(index, row) for index, row in enumerate(s.rows))
                yield Step(f"sweep ends the deliveries of lane {no}", s._replace(rows=rows))
            if lane is not None and not (waiting and self.keeps(lane)) and not self.locked(s, no):
                yield Step(f"sweep drops lane {no}", s._replace(lanes=replaced(s.lanes, no, None)))
            if lane is None and any(token.lane == no for token in s.tokens):
                tokens = tuple(token for token in s.tokens if token.lane != no)
                yield Step(f"sweep deletes the wake tokens of lane {no}", s._replace(tokens=tokens))

    def keeps(self, lane: Lane) -> bool:
        """Return whether a deleted lane stays while deliveries wait in it."""
        return True

    # ── operators, and other transactions ──

    def administer(self, s: State) -> Iterator[Step]:
        for no, lane in enumerate(s.lanes):
            if lane is None or lane.status == EndpointStatus.DELETED or self.locked(s, no):
                continue
            paused = lane.status == EndpointStatus.PAUSED
            if paused and s.resume is None:
                yield Step(f"resume locks lane {no}", s._replace(resume=(no, self.resume_reads(s, no))))
            if not paused and s.chances.pauses:
                pause = lane._replace(status=EndpointStatus.PAUSED)
                yield Step(f"lane {no} is paused", less(with_lane(s, no, pause), pauses=1), fair=False)
            if s.chances.deletions:
                deleted = lane._replace(status=EndpointStatus.DELETED)
                yield Step(f"lane {no} is deleted", less(with_lane(s, no, deleted), deletions=1), fair=False)
        if s.resume is not None and self.may_resume(s, s.resume[0]):
            yield Step("resume wakes the lane and commits", self.resumed(s, s.resume[0]))

    def resume_reads(self, s: State, no: int) -> int | None:
        return None

    def may_resume(self, s: State, no: int) -> bool:
        return True

    def resumed(self, s: State, no: int) -> State:
        lane = s.lanes[no]
        assert lane is not None
        probe_at = 0 if lane.circuit == Circuit.OPEN else lane.probe_at
        active = lane._replace(status=EndpointStatus.ACTIVE, failures=0, probe_at=probe_at)
        floor = self.resume_floor(s, no)
        token = None if floor is None else Token(no, max(0, floor), floor)
        return with_token(with_lane(s, no, active)._replace(resume=None), token)

    def resume_floor(self, s: State, no: int) -> int | None:
        return min((row.due for _, row in waiting_of(s, no)), default=None)

    def renew(self, s: State) -> Iterator[Step]:
        """Lock a waiting delivery without its lane, as a transaction does that renews or ends its time budget."""
        if s.renewal is not None:
            row = row_of(s, s.renewal)
            dead = replaced(s.rows, s.renewal, Row(row.lane, move(row.state, S.DEAD)))
            yield Step(f"the time budget of delivery {s.renewal} is renewed", s._replace(renewal=None))
            yield Step(f"the time budget of delivery {s.renewal} is over", s._replace(renewal=None, rows=dead))
        elif s.chances.renewals:
            for index in (index for no in range(len(s.lanes)) for index, _ in waiting_of(s, no)):
                locked = less(s, renewals=1)._replace(renewal=index)
                yield Step(f"another transaction locks delivery {index}", locked, fair=False)


def _made(no: int, place: Place, now: int) -> Row:
    match place:
        case Place.NONE:
            return Row(no, S.DEAD)  # there is nothing to deliver
        case Place.LEASED:
            return Row(no, S.DELIVERING, now, now + LEASE)
        case _:
            return Row(no, S.PENDING, now)


def _sent(row: Row, job: Job) -> Row:
    if not job.current:
        return row  # a duplicate, after a lost lease
    if row.sent == 1:
        raise Broken("a delivery was sent twice, and no lease was lost")
    return row._replace(sent=row.sent or 1)


def _folded(s: State, no: int, outcome: Outcome, now: int) -> State:
    lane = s.lanes[no]
    assert lane is not None
    decided = decisions.folded(lane, no, outcome, now)
    return with_token(with_lane(s, no, decided.lane), decided.token)
