"""Budgets: how many deliveries a claim may take from a lane.

Several budgets limit this number, and the smallest one decides: the lane's fair part of the claim, the slots that the
lane may hold, the slots and the bytes of large payloads that its application may hold, and the requests that the
application's rate limit allows to start now. If a budget of its application is used up, the lane joins the line of
lanes that wait for that budget. Each slot that the application frees, and each request that the rate limit allows to
start, wakes the first lane in that line. A lane that holds as many slots as it may waits for one of its own slots.

Slots (`Slots`) belong to one worker, so their counts and lines are in its memory. All workers share the rate limit of
an application (`StartBudget`), so its line is in the database: `turn_at` is the time of a lane's turn, and `tail_at`
is the last turn in the line. Limits of the endpoint itself (circuit, throttle, concurrency, pace) are in
`rules/lane/`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import islice

from msgspec.structs import replace

from hookline.model.deliveries import ByteBudget, ClaimBatch, LeasedDelivery, SlotBudgets
from hookline.model.lanes import AppPace
from hookline.rules.claim.silent_starts import SilentStarts
from hookline.rules.lane.admission import advance, gcra
from hookline.rules.lane.window import START, Window

SILENT_AFTER = 1.0  # seconds without a result of any of a lane's requests, after which the lane counts as silent
LARGE = 16 * 1024  # bytes; larger payloads count against the budget of bytes, smaller ones only against the slots
# Silent lanes have a pool of slots. If more than `CROWD` of these slots are used, or more than 1 / `CROWDED` of them, each
# silent lane may hold only one slot.
CROWD, CROWDED = 64, 4
SHARED_FOR = 10.0  # seconds after the process accepted messages in which claims leave slots for reservations
MAX_LANES = 4096  # lanes whose windows a worker remembers, plus lanes that hold slots

# Lanes that could start no request at their turn are checked again one after the other. The first is checked when the
# application's rate limit allows the next request, and the last at most this much later.
MAX_LATE = timedelta(seconds=1)
# No turn is set further than this in the future. A `turn_at` that is further comes from a wrong clock, and is ignored.
MAX_AHEAD = timedelta(hours=1)
# `AppPace.tat` is the time at which the application's rate limit expects the next request. If no lane has started a
# request for this long after `tat`, any lane may start requests, even before its turn.
UNUSED = timedelta(milliseconds=50)
# A lane that waits for its turn is checked again after the longer of two times: LOOK_WITHIN, and LOOK_LATER multiplied
# by the number of turns before its own. So it can start a request in place of a lane that starts none at its turn. If
# its turn comes earlier, it is checked then.
LOOK_WITHIN = timedelta(seconds=2)
LOOK_LATER = timedelta(milliseconds=10)


def fair_quota(want: int, lanes: int) -> int:
    """Return one lane's part when `lanes` lanes share `want` slots. It is rounded up, so that no slot stays empty."""
    return -(-want // lanes) if lanes > 0 else 0


def app_room(free: int, held: int, part: float) -> int:
    """Return how many of the worker's `free` slots an application may take, if it already holds `held` slots.

    An application may hold at most `part / (1 - part)` times as many slots as stay free. If no other application holds
    slots, it gets `part` of all slots. If two applications want all slots, each gets less, and some slots stay free for
    a third. An application that holds no slot may always take one.
    """
    room = int(part * free - (1 - part) * held + 1e-9)
    return room if held else max(1, room)


def large_bytes(job: LeasedDelivery) -> int:
    """Return the size of the payload, or 0 if it is so small that only its slot counts."""
    return size if (size := len(job.payload)) > LARGE else 0


def _count(counts: dict[int, int], no: int, change: int) -> int:
    """Add `change` to the count of `no` in `counts`, and return the new count. A count of 0 is removed."""
    count = counts.get(no, 0) + change
    if count:
        counts[no] = count
    else:
        counts.pop(no, None)
    return count


class _Pool:
    """Slots that the lanes of all applications share. `max_bytes` limits the total size of their large
    payloads in flight."""

    def __init__(self, total: int, max_bytes: int) -> None:
        self.total = total
        self.used = 0
        self.by_app: dict[int, int] = {}
        self._max_bytes = max_bytes
        self._bytes_by_app: dict[int, int] = {}
        self.windows: dict[int, int] = {}  # the lanes of this pool, by endpoint: how many slots each may hold
        # By application: endpoints that wait because the application may hold no more slots or bytes. The endpoint that
        # has waited longest comes first.
        self.lines: dict[int, dict[int, None]] = {}
        self.freed: Counter[int] = Counter()  # by application: freed slots for which no waiting lane was woken yet

    @property
    def free(self) -> int:
        return self.total - self.used

    def add(self, app_no: int, count: int, large: int, *, freed: bool = True) -> None:
        """Add to the slots and the bytes of large payloads that an application holds. Negative numbers free them.
        `freed`: a lane that waits may take the freed slots."""
        self.used += count
        _count(self.by_app, app_no, count)
        if large:
            _count(self._bytes_by_app, app_no, large)
        if freed and count < 0 and app_no in self.lines:
            self.freed[app_no] -= count

    def free_bytes_for(self, heavy: Set[int]) -> None:
        """Count at least one freed slot for each application with a waiting lane in `heavy`, the lanes that wait for
        bytes. `next_in_line` then returns a lane of the application. All applications share the bytes, so bytes that
        one application frees may help another."""
        for app_no, line in self.lines.items():
            if not heavy.isdisjoint(line):
                self.freed[app_no] = max(1, self.freed[app_no])

    @property
    def bytes(self) -> ByteBudget:
        return ByteBudget(free=self._max_bytes - sum(self._bytes_by_app.values()), by_app=dict(self._bytes_by_app))

    def next_in_line(self) -> set[int]:
        """Return the endpoints that have waited longest: of each application, as many as the slots that it freed."""
        return {no for app_no, freed in self.freed.items() for no in islice(self.lines[app_no], freed)}

    def leave(self, endpoints: Iterable[int], *, woken: bool) -> None:
        for app_no, line in list(self.lines.items()):
            for endpoint_no in endpoints:
                if endpoint_no in line:
                    del line[endpoint_no]
                    self.freed[app_no] -= woken
            if not line:
                del self.lines[app_no]
        self.freed = Counter(
            {app_no: count for app_no, count in self.freed.items() if count > 0 and app_no in self.lines}
        )


class Slots:
    """The slots of one worker: who holds them, and which lanes wait because a budget of slots was full.

    There are two pools. `total` slots are for lanes whose endpoints answer. `silent` slots are for all other lanes: the
    endpoint has not answered this worker yet, or it has not answered for `SILENT_AFTER` seconds while requests wait. So
    endpoints that hang do not take slots from endpoints that answer. In each pool, the payloads in flight that are
    larger than `LARGE` bytes may have at most `max_bytes` bytes together.
    """

    def __init__(self, total: int, *, lane_limit: int, app_part: float, silent: int, max_bytes: int) -> None:
        self.total = total
        self._lane_limit = lane_limit
        self._app_part = app_part
        self._answering, self._silent = _Pool(total, max_bytes), _Pool(silent, max_bytes)
        self._windows: dict[int, Window] = {}  # of lanes, by endpoint; the lane with the latest result comes last
        self._held: dict[int, int] = {}  # requests in flight of each lane, by endpoint
        # Slots that are reserved for messages that are being accepted, by endpoint. They count in the pools too.
        self._reserved: dict[int, int] = {}
        self._held_bytes: dict[int, int] = {}  # bytes of each lane's large payloads in flight, by endpoint
        # Lanes that answer and hold slots, by endpoint: the time when the last result came, or the first request
        # started, and the application. The earliest time comes first.
        self._since: dict[int, tuple[float, int]] = {}
        self._full_lanes: set[int] = set()  # endpoints that wait because they hold as many slots as one lane may
        self._heavy: set[int] = set()  # endpoints whose next delivery has a large payload that did not fit
        self._silent_starts = SilentStarts()
        self._claiming = 0  # slots that the running claim may take
        self.accepted_at = -math.inf  # time at which the worker's process last accepted messages
        self._freed: set[int] = set()  # endpoints of which a slot was freed since the last claim began
        # Endpoints that a claim refused because each held as many slots as one lane may, although one of these slots
        # was freed while the claim ran. The next call of `next_in_line` returns them: perhaps no request is left whose
        # end would wake them.
        self._ready: set[int] = set()

    @property
    def free(self) -> int:
        return self._answering.free

    @property
    def used(self) -> int:
        return self._answering.used + self._silent.used

    @property
    def usable(self) -> int:
        """The most free slots that one of the applications with waiting lanes may take. All free slots if no
        application has waiting lanes."""
        pool = self._answering
        rooms = [app_room(pool.free, pool.by_app.get(app_no, 0), self._app_part) for app_no in pool.lines]
        return max(rooms, default=pool.free)

    @property
    def apps_in_line(self) -> Collection[int]:
        return self._answering.lines.keys()

    @property
    def has_ready(self) -> bool:
        """Whether lanes wait that can be woken now."""
        return bool(self._ready)

    @property
    def waiting(self) -> int:
        """The number of lanes that wait for a slot."""
        return len(self._full_lanes) + sum(len(line) for pool in self._pools for line in pool.lines.values())

    @property
    def _pools(self) -> tuple[_Pool, _Pool]:
        return self._answering, self._silent

    def budgets(self, now: float = 0.0) -> SlotBudgets:
        """Return the slots that each lane and application holds now, and the limits of both, as a copy for one
        claim."""
        self.silence(now)
        silent_starts, recent_starts = self._silent_starts.offer(now)
        self._freed.clear()
        crowded = self._silent.used > min(CROWD, self._silent.total // CROWDED)
        return SlotBudgets(
            lane_limit=self._lane_limit,
            held_by_lane=self._taken(),
            app_part=self._app_part,
            held_by_app=dict(self._answering.by_app),
            windows=dict(self._answering.windows),
            silent_windows={} if crowded else dict(self._silent.windows),
            first_window=1 if crowded else min(START, self._lane_limit),
            silent_free=self._silent.free,
            silent_starts=silent_starts,
            recent_starts=recent_starts,
            silent_by_app=dict(self._silent.by_app),
            waiting=self.waiting,
            bytes=self._answering.bytes,
            silent_bytes=self._silent.bytes,
            heavy=frozenset(self._heavy),
        )

    def _taken(self) -> dict[int, int]:
        """Return the slots of each lane, by endpoint: requests in flight and reserved slots."""
        taken = dict(self._held)
        for no, count in self._reserved.items():
            _count(taken, no, count)
        return taken

    def take(self, jobs: Iterable[LeasedDelivery], now: float = 0.0) -> None:
        for job in jobs:
            no, large = job.endpoint_no, large_bytes(job)
            if no not in self._windows:
                self._windows[no] = Window()
                self._silent.windows[no] = min(START, self._lane_limit)
            _count(self._held, no, 1)
            if large:
                _count(self._held_bytes, no, large)
            pool = self._pool_of(no)
            pool.add(job.app_no, 1, large)
            if pool is self._answering:
                self._since.setdefault(no, (now, job.app_no))
            else:
                self._silent_starts.started()

    def reserve(self, app_no: int, wanted: Mapping[int, int], now: float) -> dict[int, int]:
        """Reserve slots for deliveries of an application that are being accepted. `wanted` has their number, by
        endpoint. Return the reserved slots, by endpoint.

        A lane gets all slots that it wants, or none. The reservation obeys the same budgets as a claim. It takes none of
        the slots that a running claim may still take, and leaves a quarter of all slots to later claims. Only endpoints
        that answer get slots, and only while no lane of the application waits for slots.
        """
        self.silence(now)
        pool = self._answering
        if any(app_no in pool.lines for pool in self._pools):
            return {}
        left = pool.free - max(self._claiming, pool.total // 4)
        room = min(app_room(pool.free, pool.by_app.get(app_no, 0), self._app_part), left)
        reserved: dict[int, int] = {}
        for no, count in wanted.items():
            taken = self._held.get(no, 0) + self._reserved.get(no, 0)
            if count <= min(room, pool.windows.get(no, 0) - taken) and no not in self._full_lanes:
                reserved[no] = count
                room -= count
                _count(self._reserved, no, count)
                pool.add(app_no, count, 0)
        return reserved

    def cancel(self, app_no: int, reserved: Mapping[int, int]) -> None:
        """Free reserved slots. Lanes that a claim refused because of them are ready to be woken."""
        for no, count in reserved.items():
            if not count:
                continue
            _count(self._reserved, no, -count)
            self._pool_of(no).add(app_no, -count, 0)
            self._freed.add(no)
            if no in self._full_lanes:
                self._ready.add(no)
        self._ready.update(*(pool.next_in_line() for pool in self._pools))

    def use(self, job: LeasedDelivery, now: float) -> None:
        """Turn a reserved slot into the slot of a request in flight."""
        _count(self._reserved, job.endpoint_no, -1)
        self._pool_of(job.endpoint_no).add(job.app_no, -1, 0, freed=False)
        self.take([job], now)

    @contextmanager
    def claim(self, now: float) -> Iterator[int]:
        """Return the number of slots that a claim may take. In a process that also accepts messages, a quarter of the free
        slots is left for reservations during the claim."""
        shared = now - self.accepted_at < SHARED_FOR
        self._claiming = self.free - self.free // 4 if shared else self.free
        try:
            yield self._claiming
        finally:
            self._claiming = 0

    def silent_pause(self, now: float) -> float:
        return self._silent_starts.pause(now)

    def give_back(
        self, job: LeasedDelivery, now: float = 0.0, *, answered: bool = False, timed_out: bool = False
    ) -> None:
        """Free the slot of a request. `timed_out`: the endpoint did not answer in time. `answered` and `timed_out` are
        both False in all other cases, such as a refused connection."""
        no, large = job.endpoint_no, large_bytes(job)
        self._freed.add(no)
        held = _count(self._held, no, -1)
        pool = self._pool_of(no)
        pool.add(job.app_no, -1, -large)
        if large:
            _count(self._held_bytes, no, -large)
            if self._heavy:
                pool.free_bytes_for(self._heavy)
        self._learn(no, job.app_no, now, answered=answered, timed_out=timed_out)
        if not held:
            self._forget()

    def _learn(self, no: int, app_no: int, now: float, *, answered: bool, timed_out: bool) -> None:
        window = self._windows.pop(no)
        self._windows[no] = window  # move it to the end: its result is the latest
        if answered:
            window.on_answer(self._lane_limit)
            if not self.answers(no):
                self._silent_starts.answered()
            self._move(no, app_no, self._answering)
        elif timed_out:
            window.on_timeout()
            self._move(no, app_no, self._silent)
        self._since.pop(no, None)
        if no in self._held and self.answers(no):
            self._since[no] = (now, app_no)

    def answers(self, endpoint_no: int) -> bool:
        """Return whether the lane takes slots from the pool of endpoints that answer."""
        return endpoint_no in self._answering.windows

    def _pool_of(self, endpoint_no: int) -> _Pool:
        return self._answering if self.answers(endpoint_no) else self._silent

    def _move(self, no: int, app_no: int, to: _Pool) -> None:
        """Move the lane `no` and the slots that it holds to the pool `to`, and set the size of its window there."""
        pool = self._pool_of(no)
        if pool is not to:
            del pool.windows[no]
            slots, large = self._held.get(no, 0) + self._reserved.get(no, 0), self._held_bytes.get(no, 0)
            pool.add(app_no, -slots, -large)
            to.add(app_no, slots, large)
        to.windows[no] = self._windows[no].slots(self._lane_limit)

    def silence(self, now: float) -> None:
        """Move lanes whose requests have waited for `SILENT_AFTER` seconds without a result to the pool of silent
        lanes."""
        while self._since:
            no, (since, app_no) = next(iter(self._since.items()))
            if now - since < SILENT_AFTER:
                return
            del self._since[no]
            self._move(no, app_no, self._silent)

    def _forget(self) -> None:
        """If the worker knows the windows of many lanes, forget the window of the lane whose last result is oldest,
        unless that lane holds slots."""
        if len(self._windows) > MAX_LANES:
            oldest = next(iter(self._windows))
            if oldest not in self._held and oldest not in self._reserved:
                del self._windows[oldest]
                del self._pool_of(oldest).windows[oldest]

    def line_up(self, batch: ClaimBatch) -> None:
        """Note which lanes wait for slots after a claim.

        A lane that got deliveries leaves the line, which is the list of its application's waiting lanes. The claim
        refuses a lane if a budget of slots is used up. If it is the application's budget, the lane joins the line. If
        it is the lane's own budget, the lane waits for one of its own slots instead.
        """
        served = {job.endpoint_no for job in batch.jobs}
        self._heavy = (self._heavy - served).union(batch.heavy)
        for pool in self._pools:
            if pool.lines:
                pool.leave(served, woken=False)
        for endpoint_no, app_no in batch.refused.items():
            if app_no is None:
                self._full_lanes.add(endpoint_no)
                if endpoint_no in self._freed:
                    self._ready.add(endpoint_no)
            else:
                self._pool_of(endpoint_no).lines.setdefault(app_no, {}).setdefault(endpoint_no)

    def next_in_line(self, done: Iterable[LeasedDelivery]) -> set[int]:
        """Return the waiting endpoints to wake, because the deliveries in `done` free their slots.

        An endpoint of `done` is woken if it waits because it held as many slots as one lane may. If endpoints wait
        because their application held as many slots as it may, one of them is woken for each slot that the application
        has freed. Call `leave_line` once the transaction that wakes them is committed.
        """
        woken = self._full_lanes.intersection(job.endpoint_no for job in done) if self._full_lanes else set()
        return woken.union(self._ready, *(pool.next_in_line() for pool in self._pools))

    def leave_line(self, woken: set[int]) -> None:
        self._heavy -= woken
        self._ready -= woken
        self._full_lanes -= woken
        for pool in self._pools:
            pool.leave(woken, woken=True)


class StartBudget:
    """The requests that one claim may start under an application's rate limit. While this claim runs, no other claim
    can take deliveries of the application: this claim holds the lock of the application's row in `app_pace`, or on
    SQLite the write lock.

    A lane that may start no request now is given a turn: the next time at which the rate limit allows a request to
    start and no other lane has its turn. So each turn wakes one lane, however many wait. A lane that started a request
    goes to the back of the line. The lane whose turn comes may have nothing to send by then, or may be paused.
    Therefore the lanes behind it are checked from time to time, and may start a request in its place.
    """

    def __init__(self, pace: AppPace, rate: float, now: datetime) -> None:
        self.before = pace
        self.lanes = 0  # lanes of the application that have not got their part in this round of the claim
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

        A lane whose turn has not come yet may start requests only if the lanes before it started none at their turns.
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
            # This lane has just started a request in place of other lanes. They may start none at their next turn, too.
            # So the lane is checked again soon after the rate limit allows the next request to start (`_next_at`).
            soon = self._next_at + UNUSED if self._unused and served else self._tail
            return self._tail, min(soon, self._look_at(self._tail))
        if turn_at > self._now:
            return turn_at, self._look_at(turn_at)
        # The time of the turn has come, but the rate limit allows no further request to start now, because earlier
        # requests started late. The lane keeps its turn, so it stays before lanes with later turns. Lanes that missed
        # their turns are checked again one after the other, in the order of their turns.
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
    """Return the time that the rate limit uses as the time of a claim that is made `now`.

    `tat` is the time at which the rate limit expects the next request. If the claim comes after `tat`, the result is
    earlier than `now` by the duration `forgiven`, but not before `tat`. So a short delay of one claim does not delay
    the turns of all later ones.
    """
    return now if tat is None else min(now, max(tat, now - forgiven))
