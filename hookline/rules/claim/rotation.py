"""The decisions of a claim that both engines share. Pure; the engines ask under the lanes' locks.

A worker's free slots are divided among the lanes that are due: in turn, so that none waits for another's backlog, and its
application in turn, so that none waits for another's lanes; none beyond its share of the worker, nor its application beyond its
own; and where an application has a rate, its lanes share the starts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from operator import itemgetter
from typing import TypeVar

from msgspec.structs import replace

from hookline.model import AppPace, AppShare, CircuitPolicy, Lane
from hookline.rules.lane.admission import CROWDED_PAUSE, Admission, admit, advance, after_claim, gcra

T = TypeVar("T")

MAX_APPS = 64  # whose turn it is in one claim
LOOK_REST = 5.0  # seconds at most without turns of applications, after a look for them that took more than 10 ms
CROWDED_TOGETHER = 16  # lanes that were passed over and are looked at again at one instant; the next ones a pause later
CROWDED_LONGEST = timedelta(seconds=5)  # until one of them is looked at again, however many there are
LATE_LONGEST = timedelta(seconds=1)  # until a lane that has missed its turn is looked at again, beyond the next start
FARTHEST_TURN = timedelta(hours=1)  # one that lies further ahead was given by a clock that was wrong
UNUSED = timedelta(milliseconds=50)  # a start that nobody has taken for so long is anybody's
LOOK_WITHIN = timedelta(seconds=2)  # a lane that waits for its turn looks this often whether there is such a start ...
LOOK_LATER = timedelta(milliseconds=10)  # ... or less often, where many wait: so much for each turn in front of it
_TOP = 2**63 - 1  # above every application's number


def fair_quota(want: int, lanes: int) -> int:
    """One lane's part of what is wanted when `lanes` of them share it: rounded up, so that no slot stays empty."""
    return -(-want // lanes) if lanes > 0 else 0


def app_room(free: int, held: int, most: float) -> int:
    """How many of a worker's free slots an application may take that holds `held`.

    It holds at most `most / (1 - most)` times what it leaves free: alone it gets `most` of the slots, two that want all get less
    each, and whoever comes next finds some. One request is never too much.
    """
    room = int(most * free - (1 - most) * held + 1e-9)
    return room if held else max(1, room)


class Rotation:
    """Whose turn it is among applications, as one worker goes round.

    Lanes are looked at in the order in which they became ready. That is fair among lanes, and an application with thousands of
    them would hold up everybody else for as long as they take. So while more are ready than a claim looks at, there is a line:
    half of each claim is for the applications that have something ready, as much for each; the other half goes on in order.
    """

    def __init__(self) -> None:
        self.below = _TOP  # the number of the application that came last; it goes downwards
        self._line = False
        self._rest_until = 0.0  # monotonic

    def apps(self, lanes: int, now: float) -> int:
        """How many applications have a turn in a claim of so many lanes."""
        return min(MAX_APPS, lanes // 2) if self._line and now >= self._rest_until else 0

    def note(self, apps: Iterable[int | None], tokens: int, *, more: bool) -> None:
        """After a look at so many tokens, and whose they were; `more` may be ready. One of each application: no line begins."""
        self._line = more and (self._line or len(set(apps)) < tokens)

    def came(self, last: int | None, *, took: float, now: float) -> None:
        """Go on below it; None: nobody is left, so from the top. A look that took long is not repeated at once: it has
        stepped over all that others have for later, on PostgreSQL also over what a long transaction keeps of them."""
        self.below = _TOP if last is None else last
        self._rest_until = now + min(LOOK_REST, 10 * took - 0.1)


def in_turn(lines: Iterable[Sequence[T]]) -> list[T]:
    """The first of each line, then the second of each, and so on."""
    places = [(place, one) for line in lines for place, one in enumerate(line)]
    return [one for _, one in sorted(places, key=itemgetter(0))]


class Starts:
    """What an application's rate leaves to one claim, under the lock of its pace.

    A lane that gets nothing is given a turn: the next start that is nobody's yet. So each start wakes the one lane whose turn
    it is, however many wait, and a lane with much to send goes to the back of the line after each start like all others.
    The lane whose turn it is may have nothing to send by then, or may not: paused, its circuit open. So those behind look now
    and then whether a start was left unused, and take it before their turn.
    """

    def __init__(self, pace: AppPace, rate: float, now: datetime) -> None:
        self.before = pace
        self.lanes = 0  # that have still to be asked in this round
        self._rate = rate
        self._step = timedelta(seconds=1 / rate)
        self._now = now
        self._since = _not_late(pace.tat, now, self._step / 2)
        self.left, self._next_at = gcra(pace.tat, self._since, rate)
        self._unused = pace.tat is None or now - pace.tat >= UNUSED
        self._tail = pace.tail_at
        self._taken = 0
        self._late = 0  # lanes that have missed their turn

    def part(self, turn_at: datetime | None) -> int:
        """Of the next lane in line. One that looks before its turn gets only what those in front have left."""
        part = fair_quota(self.left, max(1, self.lanes))
        self.lanes -= 1
        early = turn_at is not None and self._now < turn_at <= self._now + FARTHEST_TURN
        return part if self._unused or not early else 0

    def take(self, count: int) -> None:
        """Less than none: they were not used after all."""
        self.left -= count
        self._taken += count

    def wait(self, turn_at: datetime | None, *, served: bool) -> tuple[datetime, datetime]:
        """The turn of a lane that got nothing, or nothing more, and when to look at it again."""
        if turn_at is None or turn_at > self._now + FARTHEST_TURN:
            self._tail = self._next_turn()
            # Who has just taken a start that was left unused may find the next one so, too.
            soon = self._next_at + UNUSED if self._unused and served else self._tail
            return self._tail, min(soon, self._look_at(self._tail))
        if turn_at > self._now:
            return turn_at, self._look_at(turn_at)
        # A start that came late has put off all turns behind it. They keep their places before the others.
        late = min(LATE_LONGEST, self._late * self._step)
        self._late += 1
        return turn_at, self._next_at + late

    def _look_at(self, turn_at: datetime) -> datetime:
        in_front = max(0, (turn_at - self._next_at) // self._step)
        return min(turn_at, self._now + max(LOOK_WITHIN, in_front * LOOK_LATER))

    def _next_turn(self) -> datetime:
        behind = self._next_at if self._tail is None else max(self._next_at, self._tail + self._step)
        return min(behind, self._now + FARTHEST_TURN)

    def after(self) -> AppPace:
        tat = advance(self.before.tat, self._since, self._rate, self._taken) if self._taken else self.before.tat
        return replace(self.before, tat=tat, tail_at=self._tail)


def _not_late(tat: datetime | None, now: datetime, forgiven: timedelta) -> datetime:
    """From when the rate counts. Claims come a little late; counted from the claim, each would put off all turns behind it."""
    return now if tat is None else min(now, max(tat, now - forgiven))


class Division:
    """One claim, from the first lane that it asks to the last that it puts off."""

    def __init__(
        self,
        *,
        now: datetime,
        want: int,
        held: Mapping[int, int],
        share: int,
        policy: CircuitPolicy,
        apps: AppShare | None = None,
    ) -> None:
        self.now = now
        self.left = want
        # Endpoints that were passed over with something waiting: because of their own share, or their application's.
        self.crowded: set[int] = set()
        self.crowded_apps: dict[int, int] = {}  # its number by endpoint
        self._held = dict(held)
        self._share = share
        self._policy = policy
        self._most = 1.0 if apps is None else apps.most
        self._held_by_app = {} if apps is None else dict(apps.held)
        self._passed_over = 0 if apps is None else apps.waiting
        self._parts: dict[int, int] = {}  # by endpoint, of those whose application has a turn
        self._starts: dict[int, Starts] = {}
        self._served: set[int] = set()  # endpoints whose applications have a rate, and that got a start

    # ── rates of applications ──

    def unpaced(self, lanes: Sequence[Lane]) -> dict[int, float]:
        """The rates of the applications whose pace is still to be read."""
        rates: dict[int, float] = {}
        for lane in lanes:
            if lane.app_rate is not None and lane.app_no not in self._starts:
                rates[lane.app_no] = min(lane.app_rate, rates.get(lane.app_no, lane.app_rate))
        return rates

    def pace(self, rates: Mapping[int, float], found: Sequence[AppPace]) -> None:
        self._starts |= {pace.app_no: Starts(pace, rates[pace.app_no], self.now) for pace in found}

    def paces(self) -> list[AppPace]:
        """Those that this claim has changed."""
        return [starts.after() for starts in self._starts.values() if starts.after() != starts.before]

    def line_up(self, lanes: Sequence[Lane]) -> list[Lane]:
        """Lanes whose application has a rate are asked in the order of their turns, each in the place of one of them."""
        lines: dict[int, list[Lane]] = {}
        for lane in lanes:
            if self._starts_of(lane) is not None:
                lines.setdefault(lane.app_no, []).append(lane)
        for app_no, line in lines.items():
            self._starts[app_no].lanes = len(line)
            line.sort(key=lambda lane: lane.turn_at or self.now)
            line.reverse()
        return [lane if self._starts_of(lane) is None else lines[lane.app_no].pop() for lane in lanes]

    def _starts_of(self, lane: Lane) -> Starts | None:
        return None if lane.app_rate is None else self._starts.get(lane.app_no)

    # ── before what is taken is known ──

    def give_turns(self, apps: Mapping[int, int], backlogged: Container[int]) -> None:
        """Half of the slots are for these lanes, as many for each application: one with a single lane has it all for that. Only
        those of them that have a backlog get more than others."""
        lanes = Counter(apps.values())
        for_each = self.left // 2 // max(1, len(lanes))
        self._parts = {no: max(1, for_each // lanes[app_no]) for no, app_no in apps.items() if no in backlogged}

    def part(self, lane: Lane, lanes: int) -> int:
        """Of what is left to so many lanes, this one included: what those with a turn have beyond one slot is theirs, and no turn
        takes the one slot of another lane."""
        turn = self._parts.pop(lane.endpoint_no, 0)
        free = self.left - sum(self._parts.values()) + len(self._parts)
        return min(self.left, max(fair_quota(free, lanes), min(turn, free - lanes + 1)))

    def admissions(self, lanes: Sequence[Lane]) -> list[Admission]:
        """As if each lane took its whole quota; `take` less than none for what it did not."""
        admitted = []
        for index, lane in enumerate(lanes):
            admission = self.admit(lane, self.part(lane, len(lanes) - index))
            self.take(lane, admission.quota)
            admitted.append(admission)
        return [self._put_off(lane, admission) for lane, admission in zip(lanes, admitted, strict=True)]

    def _put_off(self, lane: Lane, admission: Admission) -> Admission:
        """What it leaves waits for its application's room: the next claim would look at it for nothing."""
        settled_later = admission.counted or admission.in_turn
        if not admission.quota or settled_later or self._room_of(lane.app_no) > 0:
            return admission
        return replace(admission, rest_at=self._after_the_others(), crowded_app=True)

    def admit(self, lane: Lane, part: int) -> Admission:
        """What the claim may do with the lane: `part` is its fair part of what is left."""
        own = self._share - self._held.get(lane.endpoint_no, 0)
        admission = admit(lane, now=self.now, want=part, crowded=own, policy=self._policy)
        starts = self._starts_of(lane)
        started = None if starts is None else starts.part(lane.turn_at)
        if admission.crowded:
            return replace(admission, rest_at=self._after_the_others())
        if not admission.quota:
            return admission
        room = self._room_of(lane.app_no)
        if room <= 0:
            return Admission(quota=0, rest_at=self._after_the_others(), crowded_app=True)
        if started is not None:
            return replace(admission, quota=min(admission.quota, room, started), in_turn=True)
        return admission if admission.quota <= room else replace(admission, quota=room)

    def _room_of(self, app_no: int) -> int:
        if self.left <= 0:  # nobody has any: that says nothing about this one
            return 1
        return app_room(self.left, self._held_by_app.get(app_no, 0), self._most)

    def _after_the_others(self) -> datetime:
        """When a lane that is passed over is looked at again: all of them at once would be all that a worker does."""
        pauses = 1 + self._passed_over // CROWDED_TOGETHER
        self._passed_over += 1
        return self.now + min(CROWDED_LONGEST, pauses * CROWDED_PAUSE)

    # ── once it is known ──

    def take(self, lane: Lane, count: int) -> None:
        no, app = lane.endpoint_no, lane.app_no
        self.left -= count
        self._held[no] = self._held.get(no, 0) + count
        self._held_by_app[app] = self._held_by_app.get(app, 0) + count
        starts = self._starts_of(lane)
        if starts is not None:
            starts.take(count)
            if count > 0:
                self._served.add(no)

    def after(self, lane: Lane, admission: Admission, *, taken: int, floor: datetime | None, lease: float) -> Lane:
        """The lane once `taken` were leased; `floor` is the smallest due instant of what was left, if anything was."""
        if floor is not None and admission.crowded:
            self.crowded.add(lane.endpoint_no)
        if floor is not None and admission.crowded_app:
            self.crowded_apps[lane.endpoint_no] = lane.app_no
        after = after_claim(lane, admission, taken=taken, left_floor=floor, now=self.now, lease=lease)
        if after.turn_at is not None and (taken or floor is None):
            return replace(after, turn_at=None)
        return after

    def wait(self, lane: Lane, floor: datetime) -> tuple[Lane, datetime]:
        """A lane to which its application's rate has left nothing: with its turn, and when to look at it again."""
        if floor > self.now:  # it waits for nothing yet
            return replace(lane, turn_at=None), floor
        served = lane.endpoint_no in self._served
        turn_at, look_at = self._starts[lane.app_no].wait(lane.turn_at, served=served)
        return replace(lane, turn_at=turn_at), look_at
