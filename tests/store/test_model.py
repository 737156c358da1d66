"""A test of the store against a simple model: any sequence of operations, on both engines, with two workers.

The model knows the correct state of every delivery. It does not know which deliveries a claim picks, only which it may
pick.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from hookline.model.dead import DeadFilter
from hookline.model.deliveries import LeasedDelivery, Offer, SlotBudgets
from hookline.model.endpoints import EndpointChange, OnDeath, Ordering
from hookline.model.policy import CircuitPolicy, PolicyOverride
from hookline.model.states import ACTIVE, DeliveryState, EndpointStatus, Reason, move
from hookline.rules.ordering import queue_of
from hookline.security.vault import Vault
from hookline.store import Store, StoreOptions, open_store
from tests.support import factory
from tests.support.raw import Raw, open_raw
from tests.support.timeshift import age

T = TypeVar("T")
S = DeliveryState

LEASE = 1000.0
SHORT, LONG = 2.0, 1100.0  # on any machine, SHORT never ends a lease and LONG always does
BUDGET = 5000.0
OPTIONS = StoreOptions(
    lease=LEASE,
    pool_size=2,
    circuit=CircuitPolicy(threshold=3, spread=0.5, cooldown=3.0, cooldown_cap=10.0, recovery_done=4),
)
# The number of the chosen item. It does not depend on the store, whose jitter and clock would make draws differ.
PICK = st.integers(0, 10_000)
OUTCOMES = st.sampled_from(["delivered", "retry", "retry", "retry", "dead", "gone"])


def pick(items: Sequence[T], number: int) -> T:
    return items[number % len(items)]


class World:
    """The state that all examples share: two workers on one database, and their event loop."""

    def __init__(self, url: str, vault: Vault) -> None:
        self.loop = asyncio.new_event_loop()
        self.url, self.vault = url, vault
        self.workers: list[Store] = []
        self.raw: Raw

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    async def open(self) -> None:
        self.workers = [await open_store(self.url, vault=self.vault, options=OPTIONS) for _ in range(2)]
        await self.workers[0].migrate()
        self.raw = await open_raw(self.url)

    async def empty(self) -> None:
        tables = [table for table in await self.raw.instants() if table != "migration"]
        parents = ("endpoint", "event_type", "application", "organization")
        for table in (*(table for table in tables if table not in parents), *parents):
            await self.raw.execute(f"DELETE FROM {table}")

    async def close(self) -> None:
        await self.raw.close()
        for worker in self.workers:
            await worker.close()


class Known:
    """The expected state of one delivery."""

    def __init__(self, delivery_id: int, endpoint_no: int, place: int = 0, queue: str | None = None) -> None:
        self.id = delivery_id
        self.endpoint_no = endpoint_no
        self.place = place  # the position of its message in the order of acceptance
        self.queue = queue
        self.state = S.PENDING if queue is None else S.QUEUED
        self.attempts = 0
        self.sent = 0
        self.job: LeasedDelivery | None = None
        self.aged = 0.0  # simulated seconds since the lease

    def go(self, state: DeliveryState) -> None:
        self.state = move(self.state, state)
        if state != S.DELIVERING:
            self.job = None

    def again(self) -> None:
        self.go(S.PENDING if self.queue is None else S.QUEUED)
        self.attempts = 0

    @property
    def lost(self) -> bool:
        return self.state == S.DELIVERING and self.aged > LEASE


class StoreMachine(RuleBasedStateMachine):
    world: World

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[int, Known] = {}
        self.status: dict[int, EndpointStatus] = {}
        self.caps: dict[int, int | None] = {}
        self.limited: set[int] = set()
        self.ordering: dict[int, Ordering] = {}
        self.on_death: dict[int, OnDeath] = {}
        self.stale: list[LeasedDelivery] = []
        self.accepted = 0
        self.messages = 0

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.world.run(work)

    @property
    def store(self) -> Store:
        return self.world.workers[0]

    def of(self, *states: DeliveryState) -> list[Known]:
        return [known for known in self.known.values() if known.state in states]

    # ── the catalogue ──

    @initialize()
    def begin(self) -> None:
        self.run(self.world.empty())
        org = self.run(self.store.catalogue.save_organization(factory.organization()))
        self.app = self.run(self.store.catalogue.create_application(org.id, factory.new_application()))
        self.add_endpoint(None, None, Ordering.KEY, OnDeath.SKIP)
        self.add_endpoint(2, None, Ordering.KEY, OnDeath.BLOCK)

    @rule(
        cap=st.sampled_from([None, 1, 3]),
        rate=st.sampled_from([None, 2.0]),
        ordering=st.sampled_from(Ordering),
        on_death=st.sampled_from(OnDeath),
    )
    def add_endpoint(self, cap: int | None, rate: float | None, ordering: Ordering, on_death: OnDeath) -> None:
        if len(self.status) == 4:
            return
        new = factory.new_endpoint(concurrency=cap, throttle_rate=rate, ordering=ordering, on_death=on_death)
        endpoint = self.run(self.store.catalogue.create_endpoint(self.app.no, new))
        self.status[endpoint.no] = EndpointStatus.ACTIVE
        self.caps[endpoint.no] = cap
        if cap is not None or rate is not None:
            self.limited.add(endpoint.no)
        self.ordering[endpoint.no], self.on_death[endpoint.no] = ordering, on_death

    @rule(which=PICK, on_death=st.sampled_from(OnDeath))
    def set_on_death(self, which: int, on_death: OnDeath) -> None:
        no = pick(self.living(), which)
        self.run(self.store.catalogue.change_endpoint(no, EndpointChange(on_death=on_death)))
        self.on_death[no] = on_death

    def living(self) -> list[int]:
        return [no for no, status in self.status.items() if status != EndpointStatus.DELETED]

    @rule(which=PICK, status=st.sampled_from([EndpointStatus.ACTIVE, EndpointStatus.PAUSED, EndpointStatus.DISABLED]))
    def set_status(self, which: int, status: EndpointStatus) -> None:
        no = pick(self.living(), which)
        self.run(self.store.catalogue.set_endpoint_status(no, status, "an operator"))
        self.status[no] = status

    @rule(which=PICK)
    def delete_endpoint(self, which: int) -> None:
        if len(self.living()) == 1:
            return
        no = pick(self.living(), which)
        self.run(self.store.catalogue.delete_endpoint(no))
        self.status[no] = EndpointStatus.DELETED

    # ── deliveries ──

    @rule(
        keys=st.lists(st.sampled_from([None, None, "a", "b"]), min_size=1, max_size=4),
        short_lived=st.booleans(),
        worker=st.integers(0, 1),
        offered=st.booleans(),
    )
    def ingest(self, keys: list[str | None], short_lived: bool, worker: int, offered: bool) -> None:
        policy, count = PolicyOverride(max_age=BUDGET) if short_lived else None, len(keys)
        messages = [factory.new_message(self.app.no, policy=policy, ordering_key=key) for key in keys]
        offer = Offer(reserved=dict.fromkeys(self.status, count) if offered else {})
        answers = self.run(self.world.workers[worker].pipeline.ingest(messages, offer))
        takers = {no for no, s in self.status.items() if s in (EndpointStatus.ACTIVE, EndpointStatus.PAUSED)}
        assert [answer.deliveries for answer in answers] == [len(takers)] * count
        for message in messages:
            made = self.run(self.store.history.deliveries(message.id))
            assert {delivery.endpoint_no for delivery in made} == takers
            self.messages += 1
            for delivery in made:
                no = delivery.endpoint_no
                queue = queue_of(self.ordering[no], message.ordering_key)
                self.known[delivery.id] = Known(delivery.id, no, self.messages, queue)
        self.hand_over(offer.jobs)

    def hand_over(self, jobs: list[LeasedDelivery]) -> None:
        """Note the deliveries that a worker got without a claim. Their lanes have no limit and nothing else to send."""
        for job in jobs:
            known = self.known[job.delivery_id]
            assert known.queue is None
            assert self.status[known.endpoint_no] == EndpointStatus.ACTIVE
            assert known.endpoint_no not in self.limited
            assert (job.endpoint_no, job.attempts, job.sent, job.counted) == (known.endpoint_no, 0, 0, False)
            known.go(S.DELIVERING)
            known.job, known.aged = job, 0.0
        waiting = {known.endpoint_no for known in self.of(S.PENDING, S.SCHEDULED)}
        assert waiting.isdisjoint(job.endpoint_no for job in jobs)

    @rule(want=st.integers(1, 8), worker=st.integers(0, 1), share=st.sampled_from([1, 2, 100]))
    def claim(self, want: int, worker: int, share: int) -> None:
        self.take(want, worker, share)

    def take(self, want: int, worker: int, share: int) -> list[Known]:
        batch = self.run(self.world.workers[worker].pipeline.claim(want, SlotBudgets(lane_limit=share)))
        jobs = batch.jobs
        assert len(jobs) <= want
        for death in batch.deaths:
            self.expire(self.known[death.delivery_id])
        self.promote([job.delivery_id for job in jobs])
        for job in jobs:
            known = self.known[job.delivery_id]
            assert self.status[known.endpoint_no] == EndpointStatus.ACTIVE
            assert (job.endpoint_no, job.attempts, job.sent) == (known.endpoint_no, known.attempts, known.sent)
            known.go(S.DELIVERING)
            known.job, known.aged = job, 0.0
        for no, cap in self.caps.items():
            flying = [known for known in self.of(S.DELIVERING) if known.endpoint_no == no]
            assert cap is None or len(flying) <= cap
            assert sum(known.job is not None and known.job.probe and not known.lost for known in flying) <= 1
        return [self.known[job.delivery_id] for job in jobs]

    def expire(self, known: Known) -> None:
        """A claim ends a delivery whose time budget is over, which it may have promoted before."""
        if known.state == S.QUEUED:
            self.check_turn(known)
            known.go(S.PENDING)
        known.go(S.DEAD)

    def promote(self, claimed: list[int]) -> None:
        """A claim promotes queued deliveries in the lanes that it visits. The model cannot predict which, but only the
        first of a key may be promoted."""
        turned = "SELECT id FROM delivery WHERE state = 0 AND ordering_key IS NOT NULL"
        ids = [*claimed, *(row["id"] for row in self.run(self.world.raw.rows(turned)))]
        for known in {self.known[id_] for id_ in ids}:
            if known.state == S.QUEUED:
                self.check_turn(known)
                known.go(S.PENDING)

    def check_turn(self, known: Known) -> None:
        line = [
            other
            for other in self.known.values()
            if (other.endpoint_no, other.queue) == (known.endpoint_no, known.queue)
        ]
        assert not [other for other in line if other.state in ACTIVE], "two deliveries of one key are active"
        assert min((other.place, other.id) for other in line if other.state == S.QUEUED) == (known.place, known.id)
        if self.on_death[known.endpoint_no] == OnDeath.BLOCK:
            assert not [other for other in line if other.state == S.DEAD and other.place < known.place]

    @rule(want=st.integers(1, 20), worker=st.integers(0, 1), outcomes=st.lists(OUTCOMES, min_size=20, max_size=20))
    def work(self, want: int, worker: int, outcomes: list[str]) -> None:
        """Claim deliveries and record their outcomes in one batch, as a worker does."""
        taken = list(zip(self.take(want, worker, 100), outcomes, strict=False))
        report = self.run(self.store.pipeline.record([self.result(known, outcome, 0.0) for known, outcome in taken]))
        assert (report.recorded, report.stale) == (len(taken), 0)
        for known, outcome in taken:
            self.settle(known, outcome)

    @rule(worker=st.integers(0, 1), times=st.integers(2, 8))
    def fail_steadily(self, worker: int, times: int) -> None:
        """Fail several times in a row, so that circuits open and then probes fail."""
        for _ in range(times):
            self.work(20, worker, ["retry"] * 20)
            self.pass_time(SHORT)

    @rule(worker=st.integers(0, 1), times=st.integers(2, 8))
    def recover(self, worker: int, times: int) -> None:
        for _ in range(times):
            self.work(20, worker, ["delivered"] * 20)
            self.pass_time(SHORT)

    @rule(which=PICK, outcome=OUTCOMES, after=st.sampled_from([0.0, 1.0, 30.0]), count=st.integers(1, 4))
    def record(self, which: int, outcome: str, after: float, count: int) -> None:
        flying = self.of(S.DELIVERING)
        chosen = [pick(flying, which + turn) for turn in range(min(count, len(flying)))]
        results = [self.result(known, outcome, after) for known in chosen]
        report = self.run(self.store.pipeline.record(results))
        assert (report.recorded, report.stale, report.refused) == (len(chosen), 0, ())
        for known in chosen:
            self.settle(known, outcome)

    def result(self, known: Known, outcome: str, after: float) -> Any:
        job = known.job
        assert job is not None
        match outcome:
            case "delivered":
                return factory.delivered(job)
            case "retry":
                return factory.retry(job, after=after)
            case "dead":
                return factory.dead(job)
            case _:
                return factory.dead(job, Reason.ENDPOINT_GONE)

    def settle(self, known: Known, outcome: str) -> None:
        assert known.job is not None
        self.accepted += 1
        known.sent += 1
        known.attempts += not (outcome == "retry" and known.job.probe)
        self.stale.append(known.job)
        if outcome == "gone" and self.status[known.endpoint_no] == EndpointStatus.ACTIVE:
            self.status[known.endpoint_no] = EndpointStatus.DISABLED
        known.go({"delivered": S.DELIVERED, "retry": S.SCHEDULED}.get(outcome, S.DEAD))

    @rule(which=PICK)
    def release(self, which: int) -> None:
        if not (flying := self.of(S.DELIVERING)):
            return
        known = pick(flying, which)
        assert known.job is not None
        self.stale.append(known.job)
        assert self.run(self.store.pipeline.release([known.job])) == 1
        known.go(S.PENDING)

    @rule(which=PICK, outcome=OUTCOMES)
    def come_too_late(self, which: int, outcome: str) -> None:
        if not self.stale:
            return
        job = pick(self.stale, which)
        known = Known(job.delivery_id, job.endpoint_no)
        known.job = job
        report = self.run(self.store.pipeline.record([self.result(known, outcome, 1.0)]))
        assert (report.recorded, report.stale, report.events) == (0, 1, ())
        assert self.run(self.store.pipeline.release([job])) == 0

    # ── time and the sweep ──

    @rule(seconds=st.sampled_from([SHORT, SHORT, SHORT, LONG]))
    def pass_time(self, seconds: float) -> None:
        self.run(age(self.world.raw, seconds))
        for known in self.of(S.DELIVERING):
            known.aged += seconds

    @rule()
    def sweep_leases(self) -> None:
        lost = [known for known in self.known.values() if known.lost]
        assert self.run(self.store.upkeep.sweep_leases()).leases == len(lost)
        for known in lost:
            assert known.job is not None
            self.stale.append(known.job)
            known.go(S.PENDING)

    @rule()
    def sweep_deleted(self) -> None:
        doomed = [
            known
            for known in self.of(S.PENDING, S.SCHEDULED, S.QUEUED)
            if self.status[known.endpoint_no] == EndpointStatus.DELETED
        ]
        assert self.run(self.store.upkeep.sweep_deleted()).deleted == len(doomed)
        for known in doomed:
            known.go(S.DEAD)

    @rule()
    def sweep_expired(self) -> None:
        self.sweep_deleted()
        over = self.run(
            self.world.raw.rows(
                "SELECT id, endpoint_no FROM delivery WHERE state <> 2 AND expires_at < $1", self.run(self.store.now())
            )
        )
        doomed = [self.known[row["id"]] for row in over if self.status[row["endpoint_no"]] != EndpointStatus.PAUSED]
        assert self.run(self.store.upkeep.sweep_expired()).expired == len(doomed)
        for known in doomed:
            known.go(S.DEAD)

    # ── operators ──

    @rule(limit=st.sampled_from([1, 100]))
    def replay(self, limit: int) -> None:
        takers = {no for no, s in self.status.items() if s in (EndpointStatus.ACTIVE, EndpointStatus.PAUSED)}
        dead = [known for known in self.of(S.DEAD) if known.endpoint_no in takers]
        count = self.run(self.store.repair.replay(DeadFilter(), limit))
        assert count == min(limit, len(dead))
        back = {row["id"] for row in self.run(self.world.raw.rows("SELECT id FROM delivery"))}
        replayed = [known for known in dead if known.id in back]
        assert len(replayed) == count
        for known in replayed:
            known.again()

    @rule(which=PICK, count=st.integers(0, 2))
    def resolve(self, which: int, count: int) -> None:
        dead = self.of(S.DEAD)
        chosen = [pick(dead, which + turn) for turn in range(min(count, len(dead)))]
        ids = tuple(known.id for known in chosen)
        assert self.run(self.store.repair.resolve(DeadFilter(ids=ids), "by hand")) == len(chosen)
        for known in chosen:
            known.go(S.RESOLVED)

    # ── invariants ──

    @invariant()
    def every_delivery_is_where_the_model_says(self) -> None:
        assert self.run(self.stored()) == {
            known.id: (known.state, known.attempts, known.sent) for known in self.known.values()
        }

    async def stored(self) -> dict[int, tuple[DeliveryState, int, int]]:
        raw = self.world.raw
        found: list[tuple[int, tuple[DeliveryState, int, int]]] = []
        for row in await raw.rows("SELECT id, state, attempts, sent FROM delivery"):
            found.append((row["id"], (S(row["state"]), row["attempts"], row["sent"])))
        for row in await raw.rows("SELECT id, attempts, sent FROM delivery_done"):
            found.append((row["id"], (S.DELIVERED, row["attempts"], row["sent"])))
        for row in await raw.rows("SELECT id, attempts, sent, resolved_at FROM dead_letter"):
            state = S.DEAD if row["resolved_at"] is None else S.RESOLVED
            found.append((row["id"], (state, row["attempts"], row["sent"])))
        assert len(dict(found)) == len(found), "a delivery is in two tables"
        return dict(found)

    @invariant()
    def room_in_use_is_what_is_counted(self) -> None:
        wrong = "SELECT * FROM lane l WHERE in_flight <> (SELECT count(*) FROM delivery d WHERE d.endpoint_no = l.endpoint_no AND"
        counted = "counted" if self.world.raw.engine == "postgres" else "counted = 1"
        assert self.run(self.world.raw.rows(f"{wrong} d.state = 2 AND d.{counted})")) == []

    @invariant()
    def every_accepted_result_is_one_attempt(self) -> None:
        assert self.run(self.world.raw.count("attempt")) == self.accepted

    @invariant()
    def every_lane_with_something_to_do_will_wake(self) -> None:
        assert self.run(self.store.upkeep.find_stuck_lanes(repair=False)) == []

    @invariant()
    def every_token_says_whose_lane_it_wakes(self) -> None:
        wrong = "SELECT w.* FROM wake w JOIN lane l ON l.endpoint_no = w.endpoint_no"
        assert self.run(self.world.raw.rows(f"{wrong} WHERE coalesce(w.app_no, 0) <> l.app_no")) == []

    def teardown(self) -> None:
        """Deliver everything that is still open. This must be possible after any sequence of operations."""
        if not self.status:
            return
        for no in self.living():
            self.run(self.store.catalogue.set_endpoint_status(no, EndpointStatus.ACTIVE, "the end"))
        for _ in range(80):
            self.run(self.store.repair.resolve(DeadFilter(), "the end: nothing is blocked"))
            self.run(age(self.world.raw, LONG))
            self.run(self.store.upkeep.sweep_leases())
            self.run(self.store.upkeep.sweep_deleted())
            while jobs := self.run(self.store.pipeline.claim(50, SlotBudgets(lane_limit=100))).jobs:
                self.run(self.store.pipeline.record([factory.delivered(job) for job in jobs]))
            if self.run(self.world.raw.count("delivery")) == 0:
                return
        raise AssertionError("some deliveries can never be delivered")


@pytest.fixture
def world(database_url: str, vault: Vault) -> Iterator[World]:
    shared = World(database_url, vault)
    shared.run(shared.open())
    yield shared
    shared.run(shared.close())
    shared.loop.close()


def test_the_store_behaves_like_its_model(world: World, engine: str) -> None:
    machine = type("Machine", (StoreMachine,), {"world": world})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=40 if engine == "sqlite" else 20,
            stateful_step_count=40,
            deadline=None,
            database=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
