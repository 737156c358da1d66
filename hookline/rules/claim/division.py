"""One claim: divides free slots among the lanes that are due. Both engines call it while they hold the lanes'
locks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from hookline.model.deliveries import ByteBudget, SlotBudgets
from hookline.model.lanes import AppPace, Lane
from hookline.model.policy import CircuitPolicy
from hookline.rules.claim.budgets import StartBudget, app_room, fair_quota
from hookline.rules.lane.admission import REFUSED_PAUSE, Admission, admit, after_claim

# Number of refused lanes that are checked again at the same time. The next group follows one `REFUSED_PAUSE` later.
# A claim refuses a lane if the lane or its application holds its maximum number of slots or bytes.
REFUSED_TOGETHER = 16
MAX_REFUSED = timedelta(seconds=5)  # a refused lane is checked again after this time at the latest


def newest_starts(budgets: SlotBudgets) -> int:
    """Return how many of `silent_starts` are for the silent lanes with the newest wake tokens. The others are for those
    with the oldest wake tokens."""
    return budgets.silent_starts // 2


class Division:
    def __init__(
        self,
        *,
        now: datetime,
        want: int,
        budgets: SlotBudgets,
        policy: CircuitPolicy,
    ) -> None:
        self.now = now
        self.left = want
        self.refused: dict[int, int | None] = {}  # see `ClaimBatch.refused`
        self.heavy: set[int] = set()  # see `ClaimBatch.heavy`
        self._budgets = budgets
        self._held = dict(budgets.held_by_lane)
        self._held_by_app = dict(budgets.held_by_app)
        self._silent_free = budgets.silent_free
        # Requests that this claim may still start to silent lanes.
        self.silent_starts = budgets.silent_starts + budgets.recent_starts
        self._oldest_starts = budgets.silent_starts - newest_starts(budgets)
        self.unstarted: set[int] = set()  # silent lanes that got nothing only because other lanes used up this claim
        self._silent_lanes = 0  # silent lanes that have not got their part of `silent_starts`
        self._silent_by_app = dict(budgets.silent_by_app)
        self._bytes = {True: _Bytes(budgets.bytes), False: _Bytes(budgets.silent_bytes)}  # by result of `_answers`
        self._waiting = budgets.waiting
        self._policy = policy
        self._reserved: dict[int, int] = {}  # by endpoint: number of slots that `reserve` reserved for its lane
        self._starts: dict[int, StartBudget] = {}  # by application
        # Endpoints whose application has a rate limit, and that were allowed to start a request in this claim.
        self._started: set[int] = set()

    # ── rates of applications ──

    def unpaced(self, lanes: Sequence[Lane]) -> dict[int, float]:
        """Return the rate limit of each application of these lanes that has one, by application number. Leave out
        applications whose rate limiter state (`AppPace`) this claim has already read."""
        rates: dict[int, float] = {}
        for lane in lanes:
            if lane.app_rate is not None and lane.app_no not in self._starts:
                rates[lane.app_no] = min(lane.app_rate, rates.get(lane.app_no, lane.app_rate))
        return rates

    def add_paces(self, rates: Mapping[int, float], found: Sequence[AppPace]) -> None:
        self._starts |= {pace.app_no: StartBudget(pace, rates[pace.app_no], self.now) for pace in found}

    def changed_paces(self) -> list[AppPace]:
        """Return the rate limiter states of the applications whose state this claim changed."""
        return [starts.after() for starts in self._starts.values() if starts.after() != starts.before]

    def line_up(self, lanes: Sequence[Lane]) -> list[Lane]:
        """Sort the lanes of each application that has a rate limit by `turn_at`, earliest first.

        These lanes exchange positions only with lanes of the same application. All other lanes stay where they are.
        """
        lines: dict[int, list[Lane]] = {}
        for lane in lanes:
            if self._starts_of(lane) is not None:
                lines.setdefault(lane.app_no, []).append(lane)
        for app_no, line in lines.items():
            self._starts[app_no].lanes = len(line)
            line.sort(key=lambda lane: lane.turn_at or self.now)
            line.reverse()
        return [lane if self._starts_of(lane) is None else lines[lane.app_no].pop() for lane in lanes]

    def _starts_of(self, lane: Lane) -> StartBudget | None:
        return None if lane.app_rate is None else self._starts.get(lane.app_no)

    # ── before the deliveries are taken ──

    def startable(self, endpoints: Iterable[int], limit: int) -> list[int]:
        """Return the lanes that this claim serves, at most `limit`: first silent lanes, then lanes whose endpoints
        answer. The other lanes keep their wake tokens for the next claim.

        The claim serves at most as many silent lanes as it may start requests to. Silent lanes may fill half of
        `limit`, or the part that lanes which answer leave unused, if it is larger. If more lanes are silent, the claim
        serves the first and the last silent lanes of `endpoints`, about half each. So a new endpoint that answers does
        not wait behind all endpoints that hang.
        """
        answering: list[int] = []
        silent: list[int] = []
        for endpoint_no in endpoints:
            (answering if self._answers(endpoint_no) else silent).append(endpoint_no)
        most = min(self.silent_starts, max(limit // 2, limit - len(answering), 1))
        if len(silent) > most:
            oldest = min(most - most // 2, self._oldest_starts)
            held = self._budgets.held_by_lane
            newest = [no for no in silent[oldest:] if no not in held]
            silent = silent[:oldest] + newest[max(0, len(newest) - most + oldest) :]
        self._silent_lanes = len(silent)
        return [*silent, *answering][:limit]

    def reserve(self, apps: Mapping[int, int], backlogged: Container[int]) -> None:
        """Reserve about half of the claim's unused slots for the lanes that the rotation (`rotation.py`) chose.

        `apps` has the application number of each chosen lane, by endpoint number. Each application gets an equal part
        of that half, divided among its chosen lanes. Only lanes in `backlogged` get reserved slots, at least one each.
        """
        lanes = Counter(apps.values())
        for_each = self.left // 2 // max(1, len(lanes))
        self._reserved = {no: max(1, for_each // lanes[app_no]) for no, app_no in apps.items() if no in backlogged}

    def part(self, lane: Lane, lanes: int) -> int:
        """Return how many slots the lane may take. `lanes` counts the lanes still to be served, including this one.

        The lane may take an equal part of the free slots, or the slots that are reserved for it if these are more. Of
        the slots that are reserved for a lane still to be served, only one counts as free. Each of these lanes keeps
        at least one slot.
        """
        reserved = self._reserved.pop(lane.endpoint_no, 0)
        free = self.left - sum(self._reserved.values()) + len(self._reserved)
        return min(self.left, max(fair_quota(free, lanes), min(reserved, free - lanes + 1)))

    def admissions(self, lanes: Sequence[Lane]) -> list[Admission]:
        """Admit the lanes as if each took its whole quota.

        If a lane takes less, the caller gives the unused slots back: it calls `take` with a negative count.
        """
        self._silent_lanes = sum(not self._answers(lane.endpoint_no) for lane in lanes)
        admitted = []
        for index, lane in enumerate(lanes):
            admission = self.admit(lane, self.part(lane, len(lanes) - index))
            self.take(lane, admission.quota)
            admitted.append(admission)
        return [self._line_up_rest(lane, admission) for lane, admission in zip(lanes, admitted, strict=True)]

    def _line_up_rest(self, lane: Lane, admission: Admission) -> Admission:
        """Postpone the deliveries that this claim leaves in the lane, if the application has no slots left for them.

        No claim of this worker could take them before slots are free again.
        """
        settled_later = admission.counted or admission.paced
        if not admission.quota or settled_later or self._room_of(lane) > 0:
            return admission
        return replace(admission, rest_at=self._retry_at(), app_full=True)

    def admit(self, lane: Lane, part: int, *, again: bool = False) -> Admission:
        """Decide how many deliveries the claim may take from the lane. `part` is the lane's fair part of the slots
        that this claim has not used yet. `again`: this claim has served the lane, and only needs to know when the
        lane's remaining deliveries can be claimed."""
        own = self._window_of(lane) - self._held.get(lane.endpoint_no, 0)
        starts_few = not again and not self._answers(lane.endpoint_no)
        if starts_few:
            part = min(part, fair_quota(self.silent_starts, max(1, self._silent_lanes)))
            self._silent_lanes -= 1
        admission = admit(lane, now=self.now, want=part, room=own, policy=self._policy)
        if starts_few and not admission.quota and admission.rest_at == self.now:
            self.unstarted.add(lane.endpoint_no)
        starts = self._starts_of(lane)
        started = None if starts is None else starts.part(lane.turn_at)
        if admission.lane_full:
            return replace(admission, rest_at=self._retry_at())
        if not admission.quota:
            return admission
        room = self._room_of(lane)
        if room <= 0 or self._too_heavy(lane):
            return Admission(quota=0, rest_at=self._retry_at(), app_full=True)
        if started is not None:
            return replace(admission, quota=min(admission.quota, room, started), paced=True)
        if admission.quota > room:
            return replace(admission, quota=room)
        if starts_few and admission.quota == own and not admission.counted:
            return replace(admission, last_slots=True)
        return admission

    def _window_of(self, lane: Lane) -> int:
        budgets, no = self._budgets, lane.endpoint_no
        if budgets.windows is None:
            return budgets.lane_limit
        return budgets.windows.get(no) or budgets.silent_windows.get(no, budgets.first_window)

    def _answers(self, endpoint_no: int) -> bool:
        return self._budgets.windows is None or endpoint_no in self._budgets.windows

    def _room_of(self, lane: Lane) -> int:
        """Return how many slots the application may take from the pool that this lane takes slots from."""
        part = self._budgets.app_part
        if not self._answers(lane.endpoint_no):
            return app_room(self._silent_free, self._silent_by_app.get(lane.app_no, 0), part)
        if self.left <= 0:  # no slot is free in the worker; do not refuse the lane because of its application's share
            return 1
        return app_room(self.left, self._held_by_app.get(lane.app_no, 0), part)

    # ── bytes of large payloads ──

    def take_large(self, lane: Lane, size: int) -> bool:
        """Count a payload of this size as in flight, if the application may hold more bytes. Otherwise return False: the
        claim must leave the delivery in the lane, and the lane waits as if its application had no slots."""
        if self._bytes[self._answers(lane.endpoint_no)].take(lane.app_no, size, self._budgets.app_part):
            return True
        self.heavy.add(lane.endpoint_no)
        return False

    def _too_heavy(self, lane: Lane) -> bool:
        """Return whether the lane's next delivery has a large payload, and the application may hold no more bytes."""
        if lane.endpoint_no in self.heavy:
            return True
        pool = self._bytes[self._answers(lane.endpoint_no)]
        too_heavy = lane.endpoint_no in self._budgets.heavy and pool.room(lane.app_no, self._budgets.app_part) <= 0
        if too_heavy:
            self.heavy.add(lane.endpoint_no)
        return too_heavy

    def _retry_at(self) -> datetime:
        """Return when a refused lane is checked again if nothing wakes it. The times of many lanes are spread."""
        pauses = 1 + self._waiting // REFUSED_TOGETHER
        self._waiting += 1
        return self.now + min(MAX_REFUSED, pauses * REFUSED_PAUSE)

    # ── after the deliveries are taken ──

    def take(self, lane: Lane, count: int) -> None:
        no, app = lane.endpoint_no, lane.app_no
        self.left -= count
        self._held[no] = self._held.get(no, 0) + count
        by_app = self._held_by_app if self._answers(lane.endpoint_no) else self._silent_by_app
        by_app[app] = by_app.get(app, 0) + count
        if by_app is self._silent_by_app:
            self._silent_free -= count
            self.silent_starts -= count
        starts = self._starts_of(lane)
        if starts is not None:
            starts.take(count)
            if count > 0:
                self._started.add(no)

    def after(self, lane: Lane, admission: Admission, *, taken: int, floor: datetime | None, lease: float) -> Lane:
        """Return the lane after `taken` deliveries were leased. `floor` is the earliest due time of the
        deliveries that stay in the lane, or None if none stay."""
        app_full = admission.app_full or lane.endpoint_no in self.heavy
        if floor is not None and (admission.lane_full or app_full):
            self.refused[lane.endpoint_no] = lane.app_no if app_full else None
        after = after_claim(lane, admission, taken=taken, left_floor=floor, now=self.now, lease=lease)
        if after.turn_at is not None and (taken or floor is None):
            return replace(after, turn_at=None)
        return after

    def join_line(self, lane: Lane, floor: datetime) -> tuple[Lane, datetime]:
        """Give a turn to a lane that may start no request now, because its application has reached its rate limit.

        Return the lane, and when a claim should check it again. None of the lane's waiting deliveries is due before
        `floor`. If `floor` is in the future, the lane gets no turn and is checked at that time.
        """
        if floor > self.now:  # nothing is due yet
            return replace(lane, turn_at=None), floor
        started = lane.endpoint_no in self._started
        turn_at, look_at = self._starts[lane.app_no].wait(lane.turn_at, served=started)
        return replace(lane, turn_at=turn_at), look_at


class _Bytes:
    """The bytes of large payloads in flight in one pool of slots. Each application gets a part, as with slots.

    An application that may hold more bytes may take any payload, even one that is larger than its room. So a large
    payload does not wait until smaller ones leave enough room. The pool exceeds its limit by at most one payload.
    """

    def __init__(self, budget: ByteBudget) -> None:
        self._free = budget.free
        self._by_app = dict(budget.by_app)

    def room(self, app_no: int, part: float) -> float:
        """Return how many bytes the application may take. An application that holds none may take all free bytes."""
        held = self._by_app.get(app_no, 0)
        if self._free <= 0 or not held:
            return self._free
        return part * self._free - (1 - part) * held

    def take(self, app_no: int, size: int, part: float) -> bool:
        if self.room(app_no, part) <= 0:
            return False
        self._free -= size
        self._by_app[app_no] = self._by_app.get(app_no, 0) + size
        return True
