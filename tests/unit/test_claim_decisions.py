"""How one claim is divided between lanes and between applications."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hookline.model.deliveries import SlotBudgets
from hookline.model.lanes import AppPace, Lane
from hookline.model.policy import CircuitPolicy
from hookline.model.states import Circuit, EndpointStatus
from hookline.rules.claim.budgets import MAX_AHEAD, fair_quota
from hookline.rules.claim.division import MAX_REFUSED, REFUSED_TOGETHER, Division
from hookline.rules.claim.rotation import MAX_APPS, Rotation, round_robin
from hookline.rules.lane.admission import REFUSED_PAUSE, Admission, burst

NOW = datetime(2031, 5, 7, 11, 13, 17, tzinfo=UTC)


def decide(lanes: list[Lane], want: int, *, held: dict[int, int] | None = None, share: int = 1000) -> list[Admission]:
    budgets = SlotBudgets(lane_limit=share, held_by_lane=held or {})
    division = Division(now=NOW, want=want, budgets=budgets, policy=CircuitPolicy())
    return division.admissions(lanes)


def healthy(count: int) -> list[Lane]:
    return [Lane(endpoint_no=number, app_no=7) for number in range(1, count + 1)]


@given(st.integers(1, 500), st.integers(1, 64))
def test_lanes_share_a_claim_evenly_and_leave_nothing_over(want: int, count: int) -> None:
    quotas = [admission.quota for admission in decide(healthy(count), want)]
    assert sum(quotas) == want
    assert max(quotas) - min(quotas) <= 1


# ── silent lanes ──


def silent_crowd(starts: int, *answering: int, window: int = 8) -> Division:
    budgets = SlotBudgets(
        lane_limit=8,
        windows=dict.fromkeys(answering, 8),
        first_window=window,
        silent_free=1000,
        silent_starts=starts,
    )
    return Division(now=NOW, want=100, budgets=budgets, policy=CircuitPolicy())


@pytest.mark.parametrize(
    ("starts", "limit", "expected"),
    [
        (4, 100, [1, 2, 8, 9, 3, 7]),
        (5, 100, [1, 2, 4, 8, 9, 3, 7]),
        (7, 100, [1, 2, 4, 5, 6, 8, 9, 3, 7]),
        (8, 100, [1, 2, 4, 5, 6, 8, 9, 3, 7]),
        (0, 100, [3, 7]),
        (1, 100, [1, 3, 7]),
        (7, 6, [1, 2, 8, 9, 3, 7]),
        (7, 2, [1, 3]),
        (7, 1, [1]),
    ],
)
def test_a_claim_serves_the_first_and_the_last_silent_lanes_and_lanes_that_answer(
    starts: int, limit: int, expected: list[int]
) -> None:
    assert silent_crowd(starts, 3, 7).startable(range(1, 10), limit) == expected


def test_lanes_that_answer_leave_half_of_a_claim_to_silent_lanes() -> None:
    division = silent_crowd(16, *range(1, 50))
    assert division.startable(range(1, 53), 10) == [50, 51, 52, *range(1, 8)]
    assert division.startable([*range(1, 50), *range(60, 80)], 10) == [60, 61, 62, 78, 79, *range(1, 6)]


@given(st.integers(0, 40), st.integers(1, 40), st.integers(0, 10), st.integers(1, 8))
def test_silent_lanes_share_the_starts_of_a_claim_evenly(starts: int, silent: int, known: int, window: int) -> None:
    lanes = healthy(known + silent)
    division = silent_crowd(starts, *range(1, known + 1), window=window)
    quotas = [admission.quota for admission in division.admissions(lanes)][known:]
    assert sum(quotas) <= starts
    assert sum(quotas) == min(starts, silent * window) or division.left == 0
    assert max(quotas) - min(quotas) <= 1


def test_a_silent_lane_that_took_its_last_slots_waits_for_one_of_them() -> None:
    division = silent_crowd(9, window=3)
    lane = healthy(1)[0]
    (admission,) = division.admissions([lane])
    assert (admission.quota, admission.last_slots, admission.rest_at) == (3, True, NOW)
    again = division.admit(lane, 1, again=True)
    assert (again.quota, again.lane_full, again.rest_at) == (0, True, NOW + REFUSED_PAUSE)
    division.take(lane, -1)  # fewer deliveries could be sent than were allowed
    assert division.admit(lane, 1, again=True).quota == 1


def test_a_claim_decides_when_to_look_again_at_lanes_without_regard_to_its_starts() -> None:
    division = silent_crowd(1)
    paced = Lane(endpoint_no=1, app_no=7, app_rate=1.0)
    division.add_paces(division.unpaced([paced]), [AppPace(app_no=7, tat=None, tail_at=None)])
    assert division.admissions([paced])[0].paced
    assert division.admit(paced, 1, again=True).paced


# ── turns among applications ──


def test_rotation_is_on_while_more_lanes_are_ready_than_a_claim_reads() -> None:
    turns = Rotation()
    seen = []
    for apps, tokens, more in ([1], 2, False), ([1, 2], 2, True), ([1, 2], 3, True), ([1, 2], 2, True), ([1], 2, False):
        turns.note(apps, tokens, more=more)
        seen.append(turns.apps(100, 0.0))
    assert seen == [0, 0, 50, 50, 0]


def test_rotation_gets_half_of_a_claim_and_a_limited_number_of_applications() -> None:
    turns = Rotation()
    turns.note([5, 5], 2, more=True)
    assert [turns.apps(lanes, 0.0) for lanes in (1, 2, 9, 10_000)] == [0, 1, 4, MAX_APPS]


def test_a_round_restarts_when_no_application_is_left() -> None:
    turns = Rotation()
    places = [turns.below]
    for last in (9, 4, None, 9):
        turns.visited(last, took=0.0, now=0.0)
        places.append(turns.below)
    assert places == [2**63 - 1, 9, 4, 2**63 - 1, 9]


def test_a_slow_scan_is_not_repeated_at_once() -> None:
    turns = Rotation()
    turns.note([5, 5], 2, more=True)
    seen = []
    for took in (0.01, 0.1, 60.0):
        turns.visited(None, took=took, now=100.0)
        seen.append([turns.apps(100, now) for now in (100.0, 100.95, 105.0)])
    assert seen == [[50, 50, 50], [0, 50, 50], [0, 0, 50]]


def test_round_robin_the_first_of_each_comes_before_the_second_of_any() -> None:
    assert round_robin([["a", "b", "c"], [], ["d"], ["e", "f"]]) == ["a", "d", "e", "b", "f", "c"]


@given(st.integers(2, 512), st.integers(1, 40), st.integers(0, 100))
def test_applications_in_the_rotation_get_equal_parts_and_nothing_is_left_over(
    want: int, many: int, others: int
) -> None:
    """One application has a single lane in the rotation, another has many. Other lanes follow in order, with at most
    the other half of the slots."""
    many, others = min(many, max(1, want // 4)), min(others, want - want // 2)
    lanes = [replace(lane, app_no=1 if lane.endpoint_no == 1 else 2) for lane in healthy(1 + many + others)]
    division = Division(now=NOW, want=want, budgets=SlotBudgets(lane_limit=1000), policy=CircuitPolicy())
    turns = {lane.endpoint_no: lane.app_no for lane in lanes[: 1 + many]}
    division.reserve(turns, turns)
    quotas = [admission.quota for admission in division.admissions(lanes)]
    assert sum(quotas) == want
    assert quotas[0] >= want // 4


@given(st.integers(2, 512), st.lists(st.integers(1, 40), min_size=1, max_size=8), st.integers(0, 64), st.data())
def test_rotation_takes_half_and_leaves_some_to_every_application(
    want: int, sizes: list[int], others: int, data: st.DataObject
) -> None:
    """`sizes` is the number of lanes of each application in the rotation. Some lanes have fewer deliveries than their
    part."""
    most = max(1, want // 2 // len(sizes))
    sizes = [min(size, most) for size in sizes][: max(1, want // 2)]
    lanes = [lane for app_no, size in enumerate(sizes, 1) for lane in lanes_of(app_no, size)]
    backlogged = data.draw(st.sets(st.sampled_from([lane.endpoint_no for lane in lanes])))
    front = lanes_of(99, min(others, want - want // 2))
    division = Division(now=NOW, want=want, budgets=SlotBudgets(lane_limit=1000), policy=CircuitPolicy())
    division.reserve({lane.endpoint_no: lane.app_no for lane in lanes}, backlogged)
    quotas = [admission.quota for admission in division.admissions([*lanes, *front])]
    assert min(quotas) >= 1
    assert sum(quotas) == want


def test_without_lanes_nothing_is_divided() -> None:
    assert fair_quota(10, 0) == 0


def test_slots_that_a_lane_may_not_take_go_to_others() -> None:
    lanes = healthy(3)
    lanes[0] = Lane(endpoint_no=1, app_no=7, circuit=Circuit.OPEN, probe_at=NOW + timedelta(seconds=9))
    lanes[1] = Lane(endpoint_no=2, app_no=7, status=EndpointStatus.PAUSED)
    assert [admission.quota for admission in decide(lanes, 30)] == [0, 0, 30]


def test_a_lane_that_holds_its_share_of_the_worker_waits() -> None:
    quotas = [admission.quota for admission in decide(healthy(2), 20, held={1: 8, 2: 3}, share=8)]
    assert quotas == [0, 5]


# ── an application's share of a worker ────────────────────────────────────────────────────────────────────────────


def dividing(want: int, *, held: dict[int, int] | None = None, most: float = 0.75, waiting: int = 0) -> Division:
    budgets = SlotBudgets(lane_limit=1000, held_by_app=held or {}, app_part=most, waiting=waiting)
    return Division(now=NOW, want=want, budgets=budgets, policy=CircuitPolicy())


def lanes_of(app_no: int, count: int, **fields: object) -> list[Lane]:
    numbers = range(1000 * app_no, 1000 * app_no + count)
    return [replace(Lane(endpoint_no=number, app_no=app_no), **fields) for number in numbers]


def fill(slots: int, lanes: list[Lane], most: float, *, held: Counter[int] | None = None) -> Counter[int]:
    """Claim all free slots until nothing is left. Return how many each application gets."""
    before = held or Counter()
    taken: Counter[int] = Counter()
    more = True
    while more and (free := slots - before.total() - taken.total()) > 0:
        admitted = dividing(free, held=dict(before + taken), most=most).admissions(lanes)
        for lane, admission in zip(lanes, admitted, strict=True):
            taken[lane.app_no] += admission.quota
        more = any(admission.quota for admission in admitted)
    return taken


@pytest.mark.parametrize(("apps", "each"), [(1, 384), (2, 219), (3, 153), (20, 25)])
def test_applications_that_want_all_get_equal_parts_and_some_slots_stay_free(apps: int, each: int) -> None:
    """The first application takes more. As its requests end, its surplus goes to the others."""
    lanes = [lane for app_no in range(1, apps + 1) for lane in lanes_of(app_no, 9)]
    chance = random.Random(5)
    held = fill(512, lanes, 0.75)
    seen: Counter[int] = Counter()
    for turn in range(500):
        held -= Counter({app_no: chance.randint(0, count // 10 + 1) for app_no, count in held.items()})
        chance.shuffle(lanes)
        held += fill(512, lanes, 0.75, held=held)
        seen.update(held if turn >= 200 else {})
    for app_no in range(1, apps + 1):
        assert abs(seen[app_no] / 300 - each) <= 0.1 * each + 1
    assert 512 - seen.total() / 300 > each / 5


def test_an_application_that_comes_later_is_served_at_once() -> None:
    held = dict(fill(512, lanes_of(1, 400), 0.75))
    greedy, other = dividing(512 - held[1], held=held).admissions([*lanes_of(1, 1), *lanes_of(2, 1)])
    assert (greedy.quota, greedy.app_full, greedy.lane_full) == (0, True, False)
    assert other.quota > 80


@given(st.integers(1, 40), st.sampled_from([0.01, 0.25, 0.5, 0.75, 0.99]))
def test_one_request_per_application_is_always_allowed(slots: int, most: float) -> None:
    """This holds however few slots there are."""
    held = fill(slots, lanes_of(1, 3), most)
    assert 1 <= held[1] <= max(1, most * slots)


def test_a_share_of_one_is_no_limit() -> None:
    assert fill(64, lanes_of(1, 3), 1.0) == {1: 64}


def test_a_probe_is_one_more_request_of_its_application() -> None:
    probe = replace(lanes_of(1, 1)[0], circuit=Circuit.OPEN, probe_at=NOW - timedelta(seconds=1))
    (admission,) = dividing(128, held={1: 384}).admissions([probe])
    assert (admission.quota, admission.app_full, admission.probe) == (0, True, False)


def test_refused_lanes_do_not_all_wake_at_once() -> None:
    """Only a few lanes come back at a time, so that a worker has time for other lanes."""
    division = dividing(128, held={1: 384}, waiting=REFUSED_TOGETHER)
    looks = Counter(admission.rest_at for admission in division.admissions(lanes_of(1, 500)))
    assert min(at for at in looks if at is not None) == NOW + 2 * REFUSED_PAUSE
    assert max(count for count in looks.values()) <= REFUSED_TOGETHER
    late = dividing(128, held={1: 384}, waiting=10**6).admissions(lanes_of(1, 1))
    assert late[0].rest_at == NOW + MAX_REFUSED


def test_the_rest_of_a_full_application_is_postponed() -> None:
    """The application of these lanes is full by now, so the next claim would read the lanes for nothing."""
    full = dividing(20, held={1: 48}).admissions(lanes_of(1, 3))
    assert [(admission.quota, admission.app_full) for admission in full] == [(3, True), (0, True), (0, True)]
    assert {admission.rest_at for admission in full} == {NOW + REFUSED_PAUSE}
    roomy = replace(lanes_of(1, 1)[0], concurrency=2)
    (some,) = dividing(20, held={1: 1}).admissions([roomy])
    assert (some.quota, some.app_full, some.rest_at) == (2, False, NOW)


def test_only_lanes_with_waiting_deliveries_are_reported() -> None:
    division = dividing(128, held={1: 384})
    lanes = lanes_of(1, 2)
    admitted = division.admissions(lanes)
    division.after(lanes[0], admitted[0], taken=0, floor=NOW, lease=60.0)
    division.after(lanes[1], admitted[1], taken=0, floor=None, lease=60.0)
    assert division.refused == {1000: 1}


# ── an application's rate ─────────────────────────────────────────────────────────────────────────────────────────


class RatedApplication:
    """One application with a rate and lanes that always have deliveries, claimed as an engine does."""

    def __init__(self, lanes: int, rate: float, *, late: float = 0.002, seed: int = 3) -> None:
        self.now = NOW
        self.pace = AppPace(app_no=7)
        self.lanes = {lane.endpoint_no: lane for lane in lanes_of(7, lanes, app_rate=rate)}
        self.tokens = dict.fromkeys(self.lanes, NOW)
        self.starts: list[tuple[datetime, int]] = []
        self.looks = 0
        self._late, self._chance = late, random.Random(seed)

    def run(self, seconds: float, *, eager: int | None = None) -> None:
        """Run for some seconds. One lane may be `eager`: it gets new messages all the time."""
        end = self.now + timedelta(seconds=seconds)
        while True:
            at = max(self.now, min(self.tokens.values()))
            self.now = at + timedelta(seconds=self._chance.uniform(0, 2 * self._late))
            if self.now >= end:
                self.now = end
                return
            self.claim()
            if eager is not None:
                self.tokens[eager] = self.now

    def claim(self, most: int = 128) -> None:
        due = sorted((at, no) for no, at in self.tokens.items() if at <= self.now)[:most]
        division = Division(now=self.now, want=512, budgets=SlotBudgets(lane_limit=512), policy=CircuitPolicy())
        found = [self.lanes[no] for _, no in due]
        division.add_paces(division.unpaced(found), [self.pace])
        lanes = division.line_up(found)
        admitted = division.admissions(lanes)
        self.looks += len(lanes)
        for lane, admission in sorted(zip(lanes, admitted, strict=True), key=lambda pair: pair[1].quota > 0):
            self._settle(division, lane, admission)
        for pace in division.changed_paces():
            self.pace = pace

    def _settle(self, division: Division, lane: Lane, admission: Admission) -> None:
        no = lane.endpoint_no
        self.starts += [(self.now, no)] * admission.quota
        after = division.after(lane, admission, taken=admission.quota, floor=NOW, lease=60.0)
        self.tokens[no] = self.now
        if not division.admit(after, 1).quota:
            after, self.tokens[no] = division.join_line(after, NOW)
        self.lanes[no] = after

    def busiest_second(self) -> int:
        instants = [at for at, _ in self.starts]
        return max(
            sum(at <= later < at + timedelta(seconds=1) for later in instants[n:]) for n, at in enumerate(instants)
        )

    def by_lane(self) -> list[int]:
        counts = Counter(no for _, no in self.starts)
        return [counts[no] for no in self.lanes]


@pytest.mark.parametrize(
    ("lanes", "rate", "seconds"), [(1, 20, 20), (3, 20, 20), (40, 20, 20), (7, 3, 60), (5, 200, 4)]
)
def test_lanes_of_an_application_keep_to_its_rate_and_use_it(lanes: int, rate: float, seconds: float) -> None:
    town = RatedApplication(lanes, rate)
    town.run(seconds)
    assert rate * seconds * 0.98 <= len(town.starts) <= rate * seconds + max(2, rate / 10 + 1)
    assert town.busiest_second() <= rate * 1.1 + 1
    counts = town.by_lane()
    assert max(counts) - min(counts) <= 2 + max(counts) // 20


def test_each_start_wakes_the_one_lane_whose_turn_it_is() -> None:
    """A thousand lanes wait. If all of them woke at every start, claims would read 10,000 lanes a second. None is
    forgotten."""
    town = RatedApplication(1000, 10)
    town.run(200)
    assert town.looks <= 1000 + 300 * 200
    assert max(town.by_lane()) - min(town.by_lane()) <= 2
    assert min(town.by_lane()) >= 1


def test_an_eager_lane_gets_no_more_than_its_turn() -> None:
    town = RatedApplication(50, 20)
    eager = next(iter(town.lanes))
    town.run(30, eager=eager)
    counts = town.by_lane()
    assert max(counts) - min(counts) <= 2
    assert Counter(no for _, no in town.starts)[eager] <= min(counts) + 2


def test_late_claims_change_neither_the_rate_nor_the_order() -> None:
    town = RatedApplication(100, 10, late=0.02)
    town.run(60)
    assert len(town.starts) >= 590
    assert town.looks <= 100 + 60 * 60


def test_an_unused_turn_goes_to_another_lane() -> None:
    """The first lane in line is paused, so its start goes to the next lane that asks."""
    town = RatedApplication(10, 10)
    town.run(3)
    gone = min(town.lanes, key=lambda no: town.tokens[no])
    del town.tokens[gone], town.lanes[gone]
    before = len(town.starts)
    town.run(10)
    assert len(town.starts) - before >= 98


def test_paused_lanes_in_line_do_not_delay_those_behind_them() -> None:
    """All lanes but the last in line are paused. The last one is served within seconds, and then gets the whole rate."""
    town = RatedApplication(200, 2)
    town.run(3)
    last = max(town.lanes, key=lambda no: town.tokens[no])
    for no in [no for no in town.lanes if no != last]:
        del town.tokens[no], town.lanes[no]
    before = len(town.starts)
    town.run(20)
    assert len(town.starts) - before >= 30  # 40 at the full rate


def test_a_lane_that_asks_early_takes_no_start_of_another() -> None:
    lane = replace(lanes_of(7, 1, app_rate=2.0)[0], turn_at=NOW + timedelta(seconds=30))
    for since, quota in ((timedelta(milliseconds=10), 0), (timedelta(milliseconds=60), 1)):
        division = Division(now=NOW, want=10, budgets=SlotBudgets(lane_limit=10), policy=CircuitPolicy())
        division.add_paces({7: 2.0}, [AppPace(app_no=7, tat=NOW - since, tail_at=lane.turn_at)])
        (admission,) = division.admissions(division.line_up([lane]))
        assert admission.quota == quota


def test_a_turn_from_a_wrong_clock_is_replaced() -> None:
    division = Division(now=NOW, want=10, budgets=SlotBudgets(lane_limit=10), policy=CircuitPolicy())
    ahead = NOW + MAX_AHEAD * 30
    lane = replace(lanes_of(7, 1, app_rate=5.0)[0], turn_at=ahead)
    division.add_paces({7: 5.0}, [AppPace(app_no=7, tat=NOW + timedelta(seconds=0.2), tail_at=ahead)])
    (admission,) = division.admissions(division.line_up([lane]))
    assert (admission.quota, admission.paced) == (0, True)
    after, look_at = division.join_line(lane, NOW)
    assert after.turn_at is not None
    assert look_at <= after.turn_at <= NOW + MAX_AHEAD


def test_a_delivery_that_is_not_due_gets_no_turn() -> None:
    division = Division(now=NOW, want=10, budgets=SlotBudgets(lane_limit=10), policy=CircuitPolicy())
    division.add_paces({7: 1.0}, [AppPace(app_no=7, tat=NOW + timedelta(seconds=1))])
    later = NOW + timedelta(seconds=90)
    (lane,) = division.line_up(lanes_of(7, 1, app_rate=1.0))
    assert division.join_line(lane, later) == (lane, later)
    assert division.changed_paces() == []


def test_a_lane_has_its_own_limits_too_and_loses_no_start_to_them() -> None:
    held = replace(lanes_of(7, 1, app_rate=100.0)[0], held_until=NOW + timedelta(seconds=9))
    free = replace(held, endpoint_no=8, held_until=None)
    division = Division(now=NOW, want=50, budgets=SlotBudgets(lane_limit=50), policy=CircuitPolicy())
    division.add_paces({7: 100.0}, [AppPace(app_no=7)])
    quotas = {a.quota: a.rest_at for a in division.admissions(division.line_up([held, free]))}
    assert quotas == {0: NOW + timedelta(seconds=9), int(burst(100.0)): NOW}


def test_only_its_own_lanes_keep_to_an_applications_rate() -> None:
    lanes = [*lanes_of(7, 3, app_rate=10.0), *lanes_of(8, 1)]
    division = Division(now=NOW, want=40, budgets=SlotBudgets(lane_limit=40), policy=CircuitPolicy())
    assert division.unpaced(lanes) == {7: 10.0}
    division.add_paces({7: 10.0}, [AppPace(app_no=7)])
    quotas = [admission.quota for admission in division.admissions(division.line_up(lanes))]
    assert (sum(quotas[:3]), quotas[3]) == (1, 39)
    assert division.unpaced(lanes) == {}
