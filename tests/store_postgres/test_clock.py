"""The database's clock is set back or jumps ahead.

Moving every stored time ahead by an hour (`scene.age(-HOUR)`) is the same as setting the clock back by an hour.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from hookline import clock
from hookline.model.catalogue import ApplicationChange
from hookline.model.deliveries import LeasedDelivery, SlotBudgets
from hookline.model.policy import PolicyOverride
from hookline.model.states import Circuit, DeliveryState, Reason
from hookline.model.verdicts import Result, Retry
from hookline.store import Store
from tests.support import factory
from tests.support.scene import Scene

HOUR, DAY = 3600.0, 86_400.0
SLACK = 60.0  # seconds that a busy machine may take


async def turn_back(scene: Scene, seconds: float = HOUR, *, by: Store | None = None, batch: int = 1000) -> float:
    """Set the clock back by `seconds`, and sweep. Return by how many seconds the sweep moved the stored times."""
    await scene.store.upkeep.sweep_clock()
    await scene.age(-seconds)
    return await follow(by or scene.store, batch)


async def follow(store: Store, batch: int = 1000) -> float:
    """Sweep until no time is left to move."""
    first = report = await store.upkeep.sweep_clock(batch)
    while report.set_back or report.moved:
        report = await store.upkeep.sweep_clock(batch)
    return first.set_back


async def ahead(scene: Scene, at: datetime | None) -> float:
    assert at is not None
    return (at - await scene.raw.now()).total_seconds()


async def test_a_clock_that_runs_moves_nothing(scene: Scene) -> None:
    await scene.endpoint()
    [message_id] = await scene.send()
    [job] = await scene.claim()
    await scene.record(factory.retry(job, after=600))
    before = await scene.delivery(message_id)
    for _ in range(4):
        assert await follow(scene.store) == 0
        await scene.age(3)
    assert await ahead(scene, (await scene.delivery(message_id)).due_at) == pytest.approx(
        await ahead(scene, before.due_at) - 12, abs=1
    )


async def test_scheduled_retries_and_their_wake_tokens_keep_their_wait(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    [message_id] = await scene.send()
    [job] = await scene.claim()
    await scene.record(factory.retry(job, after=300))
    assert await turn_back(scene) == pytest.approx(HOUR, abs=SLACK)
    delivery = await scene.delivery(message_id)
    assert 300 - SLACK < await ahead(scene, delivery.due_at) < 300 + SLACK
    assert 86_000 - SLACK < await ahead(scene, delivery.expires_at) < 86_400 + SLACK
    [token] = await scene.tokens(endpoint)
    assert await ahead(scene, token["at"]) < 300 + SLACK


async def test_messages_that_were_just_accepted_are_sent_at_once(scene: Scene) -> None:
    await scene.endpoint()
    sent = await scene.send(3) + await scene.send(2, ordering_key="order-7")
    await turn_back(scene)
    await scene.age(SLACK)
    assert {job.message_id for job in await scene.claim_all()} == set(sent[:4])  # the fifth is queued


async def test_an_open_circuit_is_probed_after_its_cooldown(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.trip(endpoint)
    await turn_back(scene)
    assert await ahead(scene, (await scene.lane(endpoint)).probe_at) < 72 + SLACK
    await scene.age(72 + SLACK)
    [probe] = await scene.claim_all()
    assert probe.probe


async def test_a_retry_after_and_a_throttle_keep_their_length(scene: Scene) -> None:
    endpoint = await scene.endpoint(throttle_rate=0.1)
    await scene.send(2)
    [job] = await scene.claim()
    hold = await scene.raw.now() + timedelta(seconds=200)
    await scene.record(factory.retry(job, after=300, hold_until=hold))
    await turn_back(scene)
    lane = await scene.lane(endpoint)
    assert 200 - SLACK < await ahead(scene, lane.held_until) < 200 + SLACK
    assert await ahead(scene, lane.tat) < 20 + SLACK


async def test_the_rate_of_an_application_continues(scene: Scene) -> None:
    await scene.store.catalogue.change_application(scene.app.no, ApplicationChange(throttle_rate=1))
    await scene.endpoint()
    await scene.send(3)
    await scene.claim_all()
    await turn_back(scene)
    assert await ahead(scene, (await scene.raw.row("SELECT tat FROM app_pace"))["tat"]) < SLACK


async def test_the_lease_of_a_dead_worker_ends_in_time(scene: Scene) -> None:
    await scene.endpoint()
    [message_id] = await scene.send()
    await scene.claim()
    await turn_back(scene)
    await scene.age(60 + SLACK)
    assert (await scene.store.upkeep.sweep_leases()).leases == 1
    assert await scene.state(message_id) == DeliveryState.PENDING


async def test_a_lease_of_the_new_clock_is_kept(scene: Scene) -> None:
    """Between the jump and the sweep, workers claim by the new clock."""
    await scene.endpoint()
    await scene.send(2)
    await scene.age(2 * HOUR)  # a backlog: it is due by either clock
    await scene.store.upkeep.sweep_clock()
    [old] = await scene.claim(1)
    await scene.age(-HOUR)
    await scene.send()  # wakes the lane
    [new] = await scene.claim(1)
    assert old.delivery_id != new.delivery_id
    assert await follow(scene.store) > 0
    assert (await scene.store.upkeep.sweep_leases()).leases == 0
    report = await scene.record(factory.delivered(new), factory.delivered(old))
    assert (report.recorded, report.stale) == (2, 0)


async def test_a_time_that_the_publisher_chose_stays(scene: Scene) -> None:
    await scene.endpoint()
    [message_id] = await scene.send(deliver_at=await scene.raw.now() + timedelta(seconds=500))
    await turn_back(scene)
    assert await ahead(scene, (await scene.delivery(message_id)).due_at) > HOUR  # `age` has moved it, the sweep has not
    await scene.age(HOUR)
    assert await scene.claim_all() == []
    await scene.age(500 + SLACK)
    assert len(await scene.claim_all()) == 1


async def test_several_workers_move_every_time_once_in_batches(scene: Scene, second: Store) -> None:
    await scene.endpoint()
    await scene.send(50)
    await scene.record(*(factory.retry(job, after=1000, spends=True) for job in await scene.claim()))
    await scene.store.upkeep.sweep_clock()
    await scene.age(-HOUR)
    reports = []
    while not reports or any(report.set_back or report.moved for report in reports[-2:]):
        reports += await asyncio.gather(*(store.upkeep.sweep_clock(7) for store in (scene.store, second)))
    assert sum(report.set_back > 0 for report in reports) == 1
    assert sum(report.moved for report in reports) == 50
    dues = [row["due_at"] for row in await scene.raw.rows("SELECT due_at FROM delivery")]
    waits = [await ahead(scene, due) for due in dues]
    assert 1000 - SLACK < min(waits) <= max(waits) < 1000 + SLACK


async def test_another_worker_finishes_what_a_dead_one_began(scene: Scene, second: Store) -> None:
    await scene.endpoint()
    [message_id] = await scene.send()
    await scene.record(factory.retry((await scene.claim())[0], after=1000))
    await scene.store.upkeep.sweep_clock()
    await scene.age(-HOUR)
    assert (await scene.store.upkeep.sweep_clock()).set_back > 0  # the process that swept dies after this step
    assert await follow(second) == 0
    assert await ahead(scene, (await scene.delivery(message_id)).due_at) < 1000 + SLACK


async def test_a_request_in_flight_while_the_clock_is_set_back_is_retried_in_time(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    messages = await scene.send(2)
    jobs = [moved_ahead(job) for job in await scene.claim()]
    await turn_back(scene)
    await scene.record(*(retried(job, after=30, hold=40) for job in jobs))
    for message_id in messages:
        assert await ahead(scene, (await scene.delivery(message_id)).due_at) < 30 + SLACK
    assert await ahead(scene, (await scene.lane(endpoint)).held_until) < 40 + SLACK


def moved_ahead(job: LeasedDelivery) -> LeasedDelivery:
    """Return the job as its worker knows it. The worker claimed it before the clock was set back by an hour."""
    hour = timedelta(seconds=HOUR)
    return replace(job, claimed_at=job.claimed_at + hour, lease_until=job.lease_until + hour, due_at=job.due_at + hour)


def retried(job: LeasedDelivery, *, after: float, hold: float) -> Result:
    now = job.claimed_at + timedelta(seconds=1)
    result = factory.retry(job, hold_until=now + timedelta(seconds=hold))
    verdict = Retry(at=now + timedelta(seconds=after), delay=after)
    return replace(result, judgement=replace(result.judgement, verdict=verdict), ended_at=now)


async def test_a_worker_finds_new_work_after_the_clock_was_set_back(scene: Scene) -> None:
    """A worker remembers up to which time it has read wake tokens. That time must not stay in the future."""
    await scene.endpoint()
    budgets = SlotBudgets(lane_limit=10)
    assert (await scene.store.pipeline.claim(10, budgets)).jobs == []
    claim = scene.store._claim  # type: ignore[attr-defined]
    claim._watermark += timedelta(seconds=HOUR)
    await scene.store.pipeline.claim(10, budgets)
    assert claim._watermark < await scene.raw.now()


# ── ahead ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_clock_that_jumps_ahead_repeats_requests_in_flight_and_loses_nothing(scene: Scene) -> None:
    await scene.endpoint()
    [message_id] = await scene.send()
    [first] = await scene.claim()
    await scene.age(HOUR)
    assert (await scene.store.upkeep.sweep_leases()).leases == 1
    [again] = await scene.claim()
    assert (await scene.record(factory.delivered(first))).stale == 1
    assert (await scene.record(factory.delivered(again))).recorded == 1
    assert await scene.state(message_id) == DeliveryState.DELIVERED


async def test_a_clock_that_jumps_ahead_ends_time_budgets_visibly(scene: Scene) -> None:
    await scene.endpoint()
    [message_id] = await scene.send(policy=PolicyOverride(max_age=600.0))
    await scene.age(HOUR)
    assert (await scene.store.upkeep.sweep_expired()).expired == 1
    found = await scene.delivery(message_id)
    assert (found.state, found.reason) == (DeliveryState.DEAD, Reason.BUDGET_EXHAUSTED)


async def test_a_clock_that_jumps_ahead_and_is_set_right_holds_nothing_back(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.store.upkeep.sweep_clock()
    await scene.age(HOUR)
    await scene.store.upkeep.sweep_clock()
    [retried_one] = await scene.send()
    await scene.record(factory.retry((await scene.claim())[0], after=100))
    waiting = await scene.send(2)
    await scene.age(-HOUR)
    assert await follow(scene.store) == pytest.approx(HOUR, abs=SLACK)
    assert await ahead(scene, (await scene.delivery(retried_one)).due_at) < 100 + SLACK
    await scene.age(SLACK)
    assert {job.message_id for job in await scene.claim_all()} >= set(waiting)
    assert (await scene.lane(endpoint)).circuit == Circuit.CLOSED


async def test_a_clock_that_is_ahead_for_a_moment_between_two_looks_holds_nothing_back(scene: Scene) -> None:
    await scene.endpoint()
    await scene.store.upkeep.sweep_clock()
    for _ in range(2):
        await scene.age(HOUR)
        waiting = await scene.send(3)
        [first] = await scene.claim(1)
        await scene.record(factory.retry(first, after=100))
        await scene.age(-HOUR)
        assert await follow(scene.store) == pytest.approx(HOUR, abs=2 * SLACK)
        assert await ahead(scene, (await scene.delivery(first.message_id)).due_at) < 100 + SLACK
        assert await follow(scene.store) == 0  # the sweep does not notice the same step of the clock twice
        await scene.age(100 + 2 * SLACK)
        assert {job.message_id for job in await scene.claim_all()} == set(waiting)


@pytest.mark.parametrize("step", [HOUR * 2, 11 * DAY, -2 * HOUR])
@pytest.mark.store_options(retention_days=10, dead_retention_days=10)
async def test_retention_deletes_nothing_for_a_day_after_the_clock_jumped(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, step: float
) -> None:
    """Retention compares the clock of the server with that of this process. The test cannot set the clock of the
    server, so it sets the other clock in the opposite direction."""
    await scene.store.upkeep.retire()
    await scene.endpoint()
    await scene.send()
    await scene.record(*(factory.dead(job) for job in await scene.claim()))
    await scene.age(11 * DAY)
    right = clock.monotonic
    monkeypatch.setattr(clock, "monotonic", lambda: right() - step)
    assert (await scene.store.upkeep.retire()).dead_expired == 0
    monkeypatch.setattr(clock, "monotonic", lambda: right() - step + HOUR / 2)
    assert (await scene.store.upkeep.retire()).dead_expired == 0
