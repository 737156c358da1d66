"""What holds in every state that the protocol reaches."""

from __future__ import annotations

from hookline.model.states import DeliveryState, EndpointStatus
from tests.model.states import ENDED, WAITING, Row, State, held_slots, rows_of


def ended(s: State) -> bool:
    return all(row is None or row.state in ENDED for row in s.rows)


def fault(s: State, slots: int) -> str | None:
    """Return which invariant the state breaks, or None."""
    faults = [_of_lane(s, no) for no in range(len(s.lanes))]
    faults += [_of_worker(s, w, slots) for w in range(len(s.workers))]
    holders = [job.row for worker in s.workers for job in worker.jobs if job.current]
    if len(holders) > len(set(holders)):
        return "two workers hold one delivery"
    faults += [_of_message(s, index) if row is None else _of_row(s, index, row) for index, row in enumerate(s.rows)]
    return next(filter(None, faults), None)


def _of_lane(s: State, no: int) -> str | None:
    lane = s.lanes[no]
    if lane is None:
        return None
    sent = [row for _, row in rows_of(s) if row.lane == no and row.state == DeliveryState.DELIVERING and row.counted]
    if lane.in_flight != len(sent):
        return f"lane {no} counts {lane.in_flight} in flight, and {len(sent)} are"
    # A probe may start once the lease of a lost probe is over, before the sweep subtracts the lost one.
    if lane.limit is not None and sum(row.lease > 0 for row in sent) > lane.limit:
        return f"lane {no} exceeds its limit"
    return None


def _of_worker(s: State, w: int, slots: int) -> str | None:
    return f"worker {w} uses more slots than it has" if sum(held_slots(s, w)) > slots else None


def _of_message(s: State, index: int) -> str | None:
    return f"delivery {index} is lost" if s.answered >> index // len(s.lanes) & 1 else None


def _of_row(s: State, index: int, row: Row) -> str | None:
    """Check that a claim will look at a waiting delivery. It is the same condition as in the statement `stuck_lanes`."""
    lane = s.lanes[row.lane]
    if row.state not in WAITING or lane is None or lane.status != EndpointStatus.ACTIVE:
        return None
    if lane.waiting_floor is not None and lane.waiting_floor <= row.due and lane.in_flight > 0:
        return None
    latest = max(1, row.due, lane.probe_at or 0)
    if any(token.lane == row.lane and token.floor <= row.due and token.at <= latest for token in s.tokens):
        return None
    return f"delivery {index} waits in a lane that nothing wakes"
