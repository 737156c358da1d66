"""Budgets: how many deliveries a claim may take from a lane.

Each of these budgets limits the number, and the smallest one decides: the lane's fair part of the claim, the slots
that the lane may hold, the slots that its application may hold, and the requests that its application may start per
second. If a budget is used up, the lane joins the line of lanes that wait for that budget. Each slot or start that
becomes available wakes the first lane in that line.

Slots (`Slots`) belong to one worker, so their counts and lines are in its memory. Starts (`StartBudget`) belong to an
application on all workers, so their line is in the database: `turn_at` is a lane's place, `tail_at` is the end of the
line. Limits of the endpoint itself (circuit, throttle, concurrency, pace) are in `rules/lane/`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

from msgspec.structs import replace

from hookline.model.deliveries import ClaimBatch, LeasedDelivery, SlotBudgets
from hookline.model.lanes import AppPace
from hookline.rules.lane.admission import advance, gcra

# A lane that could start no request at its turn is checked again when the application's rate limit allows the next
# request, or at most this much later.
MAX_LATE = timedelta(seconds=1)
MAX_AHEAD = timedelta(hours=1)  # a turn further in the future was set by a wrong clock, and is ignored
# If no lane has started a request for this long after `AppPace.tat`, the time of the application's next request by its
# rate, any lane may start requests, even before its turn.
UNUSED = timedelta(milliseconds=50)
# A lane that waits for its turn is checked again after the longer of two times: LOOK_WITHIN, and LOOK_LATER for each
# turn before its own. So it can use a start that another lane left unused. If its turn comes earlier, it is checked
# then.
LOOK_WITHIN = timedelta(seconds=2)
LOOK_LATER = timedelta(milliseconds=10)


def fair_quota(want: int, lanes: int) -> int:
    """Return one lane's part when `lanes` lanes share `want` slots. It is rounded up, so that no slot stays empty."""
    return -(-want // lanes) if lanes > 0 else 0


def app_room(free: int, held: int, part: float) -> int:
    """Return how many of the worker's free slots an application may take that already holds `held`.

    An application holds at most `part / (1 - part)` times what it leaves free. Alone it gets `part` of all slots. Two
    applications that want all slots get less each, and a third still finds free slots. One request is always allowed.
    """
    room = int(part * free - (1 - part) * held + 1e-9)
    return room if held else max(1, room)


class Slots:
    """The slots of one worker: who holds them, and which lanes wait because a budget of slots was full."""

    def __init__(self, total: int, *, lane_limit: int, app_part: float) -> None:
        self.total = total
        self._lane_limit = lane_limit
        self._app_part = app_part
        self.used = 0
        self._by_lane: Counter[int] = Counter()
        self._by_app: Counter[int] = Counter()
        self._full_lanes: set[int] = set()  # endpoints that wait because they hold as many slots as one lane may
        # By application: endpoints that wait because the application holds as many slots as it may. The endpoint that
        # has waited longest comes first.
        self._lines: dict[int, dict[int, None]] = {}

    @property
    def free(self) -> int:
        return self.total - self.used

    @property
    def usable(self) -> int:
        """The most free slots that one of the applications with waiting lanes may take. All free slots if no
        application has waiting lanes."""
        rooms = [app_room(self.free, self._by_app[app_no], self._app_part) for app_no in self._lines]
        return max(rooms, default=self.free)

    @property
    def apps_in_line(self) -> Collection[int]:
        return self._lines.keys()

    @property
    def waiting(self) -> int:
        """The number of lanes that wait for a slot."""
        return len(self._full_lanes) + sum(map(len, self._lines.values()))

    def budgets(self) -> SlotBudgets:
        """Return the slots that each lane and application holds now, and the limits of both, as a copy for one
        claim."""
        return SlotBudgets(
            lane_limit=self._lane_limit,
            held_by_lane=dict(self._by_lane),
            app_part=self._app_part,
            held_by_app=dict(self._by_app),
            waiting=self.waiting,
        )

    def take(self, jobs: Collection[LeasedDelivery]) -> None:
        self.used += len(jobs)
        self._by_lane.update(job.endpoint_no for job in jobs)
        self._by_app.update(job.app_no for job in jobs)

    def give_back(self, job: LeasedDelivery) -> None:
        self.used -= 1
        for held, owner in ((self._by_lane, job.endpoint_no), (self._by_app, job.app_no)):
            if held[owner] > 1:
                held[owner] -= 1
            else:
                del held[owner]

    def line_up(self, batch: ClaimBatch) -> None:
        """Note which lanes wait for slots after a claim.

        A lane that got deliveries leaves the line, which is the list of its application's waiting lanes. A lane that
        the claim refused because its application holds as many slots as it may joins the line. If the lane itself
        holds as many slots as one lane may, it waits for one of its own slots instead.
        """
        if self._lines:
            self._leave({job.endpoint_no: job.app_no for job in batch.jobs}.items())
        for endpoint_no, app_no in batch.refused.items():
            if app_no is None:
                self._full_lanes.add(endpoint_no)
            else:
                self._lines.setdefault(app_no, {}).setdefault(endpoint_no)

    def next_in_line(self, done: Iterable[LeasedDelivery]) -> set[int]:
        """Return the endpoints to wake that wait for slots, when the outcomes of these deliveries are recorded.

        An endpoint of `done` is woken if it waits because it held as many slots as one lane may. If endpoints wait
        because their application held as many slots as it may, one of them is woken for each of its deliveries in
        `done`. Call `leave_line` once the transaction that wakes them is committed.
        """
        jobs = list(done) if self._full_lanes or self._lines else []
        woken = self._full_lanes.intersection(job.endpoint_no for job in jobs)
        for app_no, freed in Counter(job.app_no for job in jobs if job.app_no in self._lines).items():
            woken.update(endpoint_no for endpoint_no, _ in zip(self._lines[app_no], range(freed), strict=False))
        return woken

    def leave_line(self, woken: set[int]) -> None:
        self._full_lanes -= woken
        self._leave([(no, app_no) for app_no, line in self._lines.items() for no in woken if no in line])

    def _leave(self, lanes: Iterable[tuple[int, int]]) -> None:
        for endpoint_no, app_no in lanes:
            line = self._lines.get(app_no)
            if line is not None:
                line.pop(endpoint_no, None)
                if not line:
                    del self._lines[app_no]


class StartBudget:
    """The requests that one claim may start under an application's rate limit. Meanwhile no other claim can take
    deliveries of the application: this claim holds the lock of its row in `app_pace`, or on SQLite the write lock.

    A lane that gets nothing is given a turn: the next start that is not another lane's turn. So each start wakes one
    lane, however many wait, and a lane goes to the back of the line after each start. The lane whose turn comes may
    have nothing to send by then, or may be paused. Therefore the lanes behind it are checked from time to time, and
    may take an unused start before their turn.
    """

    def __init__(self, pace: AppPace, rate: float, now: datetime) -> None:
        self.before = pace
        self.lanes = 0  # lanes of the application that have not got their part in this round
        self._rate = rate
        self._step = timedelta(seconds=1 / rate)
        self._now = now
        self._since = _rate_start(pace.tat, now, self._step / 2)
        self.left, self._next_at = gcra(pace.tat, self._since, rate)
        self._unused = pace.tat is None or now - pace.tat >= UNUSED
        self._tail = pace.tail_at
        self._taken = 0
        self._late = 0  # lanes whose turn has come, but that could start nothing in this claim

    def part(self, turn_at: datetime | None) -> int:
        """Return how many requests the next lane in line may start.

        A lane whose turn has not come yet may start requests only if other lanes left starts unused.
        """
        part = fair_quota(self.left, max(1, self.lanes))
        self.lanes -= 1
        early = turn_at is not None and self._now < turn_at <= self._now + MAX_AHEAD
        return part if self._unused or not early else 0

    def take(self, count: int) -> None:
        """Subtract the requests that a lane starts from those that the rate limit allows. A negative count returns
        requests that were not started."""
        self.left -= count
        self._taken += count

    def wait(self, turn_at: datetime | None, *, served: bool) -> tuple[datetime, datetime]:
        """Return two times for a lane that may start nothing more in this claim: when its turn is, and when a claim
        should check the lane again."""
        if turn_at is None or turn_at > self._now + MAX_AHEAD:
            self._tail = self._next_turn()
            # If this lane has just used a start that no other lane had used for a while, the next start may stay
            # unused, too. So the lane is checked again soon after the time of that start.
            soon = self._next_at + UNUSED if self._unused and served else self._tail
            return self._tail, min(soon, self._look_at(self._tail))
        if turn_at > self._now:
            return turn_at, self._look_at(turn_at)
        # The time of the turn has come, but no start is left, because earlier starts were late. The lane keeps its
        # turn, so it stays before lanes with later turns. Lanes that missed their turns are checked one after the
        # other, in the order of their turns.
        late = min(MAX_LATE, self._late * self._step)
        self._late += 1
        return turn_at, self._next_at + late

    def _look_at(self, turn_at: datetime) -> datetime:
        in_front = max(0, (turn_at - self._next_at) // self._step)
        return min(turn_at, self._now + max(LOOK_WITHIN, in_front * LOOK_LATER))

    def _next_turn(self) -> datetime:
        behind = self._next_at if self._tail is None else max(self._next_at, self._tail + self._step)
        return min(behind, self._now + MAX_AHEAD)

    def after(self) -> AppPace:
        tat = advance(self.before.tat, self._since, self._rate, self._taken) if self._taken else self.before.tat
        return replace(self.before, tat=tat, tail_at=self._tail)


def _rate_start(tat: datetime | None, now: datetime, forgiven: timedelta) -> datetime:
    """Return the time at which the rate limit counts a claim that is made `now`.

    `tat` is the time at which the rate limit expects the next request. A claim after `tat` counts as if it had been
    made earlier: by `forgiven`, but not before `tat`. So a short delay of one claim does not delay the turns of all
    later ones.
    """
    return now if tat is None else min(now, max(tat, now - forgiven))
