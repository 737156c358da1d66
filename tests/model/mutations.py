"""Protocols with one deliberate mistake each. The explorer finds the mistakes that break an invariant, which shows that it
can. It also shows which parts of the protocol only improve speed or fairness."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hookline.model.states import DeliveryState, EndpointStatus
from tests.model import decisions
from tests.model.decisions import Lane, Outcome, Token
from tests.model.protocol import Protocol, Step
from tests.model.states import Claim, Job, Phase, Place, Row, State, Sweep, held_slots

# ── ingest and hand-over ──


class AnswersBeforeCommit(Protocol):
    """The sender of a message gets the answer before COMMIT."""

    def ingest(self, s: State) -> Iterator[Step]:
        for step in super().ingest(s):
            tx = step.after.ingest
            answered = step.after.answered | (0 if tx is None else 1 << tx.message)
            yield step._replace(after=step.after._replace(answered=answered))


class InsertsTokensLater(Protocol):
    """Ingest leaves the wake token to a second transaction."""

    def place(self, s: State, no: int, offered: bool) -> Place:
        place = super().place(s, no, offered)
        return Place.SILENT if place == Place.WAITING else place


class WakesNoPausedLanes(Protocol):
    """Ingest inserts no wake token for a lane that is paused in its snapshot."""

    def place(self, s: State, no: int, offered: bool) -> Place:
        lane, place = s.lanes[no], super().place(s, no, offered)
        return Place.SILENT if lane is not None and lane.status == EndpointStatus.PAUSED else place


class OmitsTokensOfOfferedLanes(Protocol):
    """Ingest omits the wake token for each lane in the offer, also if it does not lease the delivery."""

    def place(self, s: State, no: int, offered: bool) -> Place:
        place = super().place(s, no, offered)
        return Place.SILENT if offered and place == Place.WAITING else place


class HandsOverToPausedLanes(Protocol):
    """The hand-over ignores the status of the lane."""

    def may_hand_over(self, s: State, no: int, lane: Lane) -> bool:
        return super().may_hand_over(s, no, lane._replace(status=EndpointStatus.ACTIVE))


class HandsOverToLimitedLanes(Protocol):
    """The hand-over ignores the limit of the lane."""

    def may_hand_over(self, s: State, no: int, lane: Lane) -> bool:
        return super().may_hand_over(s, no, lane._replace(limit=None))


class HandsOverToOpenCircuits(Protocol):
    """The hand-over ignores the circuit of the lane."""

    def may_hand_over(self, s: State, no: int, lane: Lane) -> bool:
        return super().may_hand_over(s, no, Lane(lane.limit, lane.status))


class HandsOverPastTokens(Protocol):
    """The hand-over ignores that other deliveries of the lane wait."""

    def may_hand_over(self, s: State, no: int, lane: Lane) -> bool:
        return super().may_hand_over(s._replace(tokens=()), no, lane)


class ReservesSlotsOfClaims(Protocol):
    """A reservation takes slots that the running claim may take."""

    def reserve(self, s: State) -> tuple[int, ...]:
        return decisions.reserved(self.setting.slots, held_slots(s, 0), 0)


# ── claim ──


class LocksNoLanes(Protocol):
    """A claim locks wake tokens, but not their lanes."""

    def skips(self, s: State, no: int) -> bool:
        return False

    def claim_lock(self, s: State, w: int, claim: Claim) -> State:
        return super().claim_lock(s, w, claim._replace(read=s.lanes))

    def claim_lane(self, s: State, claim: Claim, no: int) -> Lane:
        return claim.read[no] or super().claim_lane(s, claim, no)


class DecidesFromSnapshots(Protocol):
    """A claim reads the lane in its snapshot, not as it is after the lock."""

    def claim_reads(self, s: State) -> tuple[Lane | None, ...]:
        return s.lanes

    def claim_lane(self, s: State, claim: Claim, no: int) -> Lane:
        return claim.read[no] or super().claim_lane(s, claim, no)


class DeletesUnreadTokens(Protocol):
    """A claim deletes all wake tokens of its lanes, also those that were committed after its snapshot."""

    def consumes(self, claim: Claim, w: int, token: Token) -> bool:
        return any(token.lane == no for no, _ in claim.lanes)


class KeepsLaterTokens(Protocol):
    """A claim deletes only due wake tokens."""

    def consumes(self, claim: Claim, w: int, token: Token) -> bool:
        return super().consumes(claim, w, token) and token.at <= claim.now


class ForgetsLockedDeliveries(Protocol):
    """A claim inserts the next wake token only for deliveries that nobody else has locked."""

    def leaves(self, s: State, index: int, taken: Sequence[int]) -> bool:
        return super().leaves(s, index, taken) and index != s.renewal


class RaisesFloors(Protocol):
    """The floor of the next wake token is its time, not the earliest due time of the deliveries that stay."""

    def rearm(self, token: Token) -> Token:
        return token._replace(floor=token.at)


class MarksNoWaitingLanes(Protocol):
    """A claim that finds no room in the lane does not mark the lane as waiting."""

    def claim_writes(self, lane: Lane) -> Lane:
        return lane._replace(waiting_floor=None)


class LeasesUnchecked(Protocol):
    """A claim leases the deliveries of its snapshot without a second look at their state."""

    def may_lease(self, s: State, claim: Claim, index: int) -> bool:
        return True


# ── record and release ──


class RecordsWithoutClaim(Protocol):
    """A result is recorded for any leased delivery, also if another worker holds the lease."""

    def fence(self, row: Row, job: Job) -> bool:
        return row.state == DeliveryState.DELIVERING


class RetriesWithoutToken(Protocol):
    """The transaction that schedules a retry inserts no wake token."""

    def retry_token(self, token: Token) -> Token | None:
        return None


class ReleasesWithoutToken(Protocol):
    """The transaction that releases a delivery inserts no wake token."""

    def release_token(self, token: Token) -> Token | None:
        return None


class ReleasesAfterSending(Protocol):
    """A worker releases a delivery whose request was answered, as if it had not sent it."""

    def recorded(self, s: State, job: Job, row: Row, *, locks: bool) -> State:
        phase = Phase.UNSENT if job.phase == Phase.GOOD else job.phase
        return super().recorded(s, job._replace(phase=phase), row, locks=locks)


# ── sweep ──


class SweepsNothing(Protocol):
    """Nobody puts deliveries with an expired lease back."""

    def sweep(self, s: State) -> Iterator[Step]:
        return iter(())


class SweepsWithoutToken(Protocol):
    """The sweep puts a delivery back without a wake token."""

    def sweep_token(self, token: Token) -> Token | None:
        return None


class SweepsUnchecked(Protocol):
    """The sweep puts back what it has found, also if the delivery has ended meanwhile."""

    def has_expired(self, row: Row, sweep: Sweep) -> bool:
        return True


class SweepsUncounted(Protocol):
    """The sweep does not subtract a lost delivery from those in flight."""

    def lost(self) -> Outcome:
        return super().lost()._replace(counted=False)


class DropsLanesEarly(Protocol):
    """The sweep drops a deleted lane while deliveries wait in it."""

    def keeps(self, lane: Lane) -> bool:
        return False


# ── resume ──


class ResumesWithoutToken(Protocol):
    """A resume does not wake the lane."""

    def resume_floor(self, s: State, no: int) -> int | None:
        return None


class ResumesBeforeLock(Protocol):
    """A resume reads which deliveries wait before it locks the lane."""

    def resume_reads(self, s: State, no: int) -> int | None:
        return super().resume_floor(s, no)

    def resume_floor(self, s: State, no: int) -> int | None:
        return None if s.resume is None else s.resume[1]

    def locked(self, s: State, no: int) -> bool:
        return super().locked(s._replace(resume=None), no)

    def may_resume(self, s: State, no: int) -> bool:
        return not self.locked(s, no)
