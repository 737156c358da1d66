"""Adaptive rate limits: an endpoint that asks for a lower rate is sent to more slowly. A changed limit applies at
once."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from msgspec.structs import replace

from hookline.model.deliveries import LeasedDelivery, SlotBudgets
from hookline.model.endpoints import Endpoint, EndpointChange
from hookline.model.lanes import LaneEventKind
from hookline.model.policy import CircuitPolicy
from hookline.model.states import Circuit
from hookline.rules.lane.admission import burst, effective_rate
from hookline.rules.lane.pace import FLOOR, QUIET
from hookline.store import Store
from tests.support import factory
from tests.support.scene import Scene

STEP = CircuitPolicy().recovery_step
START = CircuitPolicy().recovery_window * CircuitPolicy().recovery_rate
K = LaneEventKind


async def complain(scene: Scene, *jobs: LeasedDelivery, after: float = 500.0) -> tuple[LaneEventKind, ...]:
    report = await scene.record(*(factory.retry(job, after=after, slow_down=True) for job in jobs))
    return tuple(event.kind for event in report.events)


async def slowed(scene: Scene, count: int = 60, **fields: object) -> tuple[Endpoint, list[LeasedDelivery]]:
    """Return an endpoint that has just asked for a lower rate, and jobs of it that were claimed before."""
    endpoint = await scene.endpoint(**fields)
    await scene.send(count)
    first, *before = await scene.claim(5)
    assert await complain(scene, first) == (K.LANE_SLOWED,)
    return endpoint, before


async def set_pace(scene: Scene, endpoint: Endpoint, pace: float, *, quiet: float = 0.0) -> None:
    """Set the pace as many slow-down responses in a row would, the last of them `quiet` seconds ago."""
    at = await scene.store.now() - timedelta(seconds=quiet)
    await scene.raw.execute(
        "UPDATE lane SET pace = $1, pace_top = 30.0, pace_at = $2, slowed_at = $2 WHERE endpoint_no = $3",
        pace,
        at,
        endpoint.no,
    )


# ── slower ──


async def test_a_slow_down_response_slows_the_lane_and_does_not_open_its_circuit(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send(90)
    jobs = await scene.claim(30)
    assert await complain(scene, *jobs[:10]) == (K.LANE_SLOWED,)
    await scene.age(2.0)
    await complain(scene, *jobs[10:])  # a late response to an earlier request
    lane = await scene.lane(endpoint)
    assert (lane.circuit, lane.failures, lane.failing_since) == (Circuit.CLOSED, 0, None)
    assert (lane.pace is not None, lane.in_flight) == (True, 0)
    (event,) = await scene.store.history.lane_events(endpoint.no)
    assert event.kind == K.LANE_SLOWED
    assert "503" in event.cause


async def test_a_slowed_lane_starts_no_more_than_its_pace_over_all_workers(scene: Scene, second: Store) -> None:
    endpoint, _ = await slowed(scene)
    await scene.age(1.0)
    begun = await scene.store.now()
    batches = await asyncio.gather(
        *(handle.pipeline.claim(50, SlotBudgets(lane_limit=50)) for handle in (scene.store, second) * 4)
    )
    real = (await scene.store.now() - begun).total_seconds()
    jobs = [job for batch in batches for job in batch.jobs]
    # a burst, plus the starts that the duration of the claims allows
    assert 1 <= len(jobs) <= START / 10 + START * real
    assert all(job.counted for job in jobs)
    lane = await scene.lane(endpoint)
    assert (lane.in_flight, lane.pace) == (len(jobs), START)
    begun, taken, passed = await scene.store.now(), len(jobs), 0.0
    for _ in range(10):
        await scene.age(0.1)
        passed += 0.1
        taken += len(await scene.claim(50))
    real = (await scene.store.now() - begun).total_seconds()
    assert taken <= START * (passed + real) + START / 10 + len(jobs)


async def test_further_slow_down_responses_halve_the_pace_once_a_step(scene: Scene) -> None:
    endpoint, _ = await slowed(scene, count=200)
    paces = []
    for _ in range(3):
        await scene.age(STEP + 0.1)
        jobs = await scene.claim_all()
        assert await complain(scene, *jobs) == ()
        paces.append((await scene.lane(endpoint)).pace)
    assert paces == [START / 2, START / 4, START / 8]
    lane = await scene.lane(endpoint)
    assert (lane.pace_top, lane.circuit, lane.failures) == (START, Circuit.CLOSED, 0)


async def test_at_the_slowest_pace_a_slow_down_response_counts_against_the_circuit(scene: Scene) -> None:
    endpoint, _ = await slowed(scene)
    await set_pace(scene, endpoint, FLOOR)
    for failures in (1, 2, 3, 4):
        await scene.age(61)
        (job,) = await scene.claim_all()
        assert await complain(scene, job) == ()
        assert (await scene.lane(endpoint)).failures == failures
    await scene.age(61)
    (job,) = await scene.claim_all()
    assert await complain(scene, job) == (K.CIRCUIT_OPENED,)


async def test_a_lane_with_retry_after_is_held_first_and_slow_afterwards(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send(40)
    (job,) = await scene.claim(1)
    until = job.claimed_at + timedelta(seconds=100)
    report = await scene.record(factory.retry(job, after=100, hold_until=until, slow_down=True))
    assert [event.kind for event in report.events] == [K.LANE_HELD, K.LANE_SLOWED]
    assert await scene.claim_all() == []
    assert [token["at"] for token in await scene.tokens(endpoint)] == [until]
    await scene.age(101)
    assert 1 <= len(await scene.claim(40)) <= START / 10


# ── quicker ──


async def test_successes_at_the_current_pace_raise_it(scene: Scene) -> None:
    endpoint, before = await slowed(scene, count=200)
    await scene.age(STEP + 0.1)
    await scene.record(*factory.all_delivered(before))
    await scene.age(0.1)
    paces = []
    for _ in range(3):
        await scene.record(*factory.all_delivered(await scene.claim_all()))
        paces.append((await scene.lane(endpoint)).pace)
        await scene.age(STEP + 0.1)
    assert paces == [2 * START, 4 * START, 8 * START]


async def test_successes_of_requests_before_the_slow_down_do_not_raise_the_pace(scene: Scene) -> None:
    endpoint, before = await slowed(scene, concurrency=50)  # so that each response updates the lane
    slowed_at = (await scene.lane(endpoint)).slowed_at
    await scene.age(STEP + 1)  # moves only stored times, not those of a worker's jobs
    earlier = [replace(job, claimed_at=job.claimed_at - timedelta(seconds=STEP + 1)) for job in before]
    await scene.record(*factory.all_delivered(earlier))
    lane = await scene.lane(endpoint)
    assert slowed_at is not None
    assert (lane.pace, lane.slowed_at) == (START, slowed_at - timedelta(seconds=STEP + 1))


async def test_long_after_the_last_slow_down_the_lane_has_no_pace_limit(scene: Scene) -> None:
    endpoint, before = await slowed(scene)
    await scene.age(QUIET.total_seconds())
    jobs = await scene.claim(50)
    report = await scene.record(*factory.all_delivered(jobs))
    assert [event.kind for event in report.events] == [K.LANE_AT_SPEED]
    lane = await scene.lane(endpoint)
    assert (lane.pace, lane.pace_at, lane.pace_top, lane.slowed_at, lane.in_flight) == (None, None, None, None, 0)
    await scene.age(0.1)  # the token is for the next start at the old pace
    rest = await scene.claim(100)
    assert len(rest) == 60 - 5 - len(jobs) + 1  # the delivery that got the slow-down response is due again as well
    assert not any(job.counted for job in rest)
    await scene.record(*factory.all_delivered([*before, *rest]))
    assert [event.kind for event in await scene.store.history.lane_events(endpoint.no)] == [
        K.LANE_AT_SPEED,
        K.LANE_SLOWED,
    ]


async def test_waiting_deliveries_are_sent_at_once_when_the_pace_limit_ends(scene: Scene) -> None:
    endpoint, _ = await slowed(scene)
    await set_pace(scene, endpoint, FLOOR)
    await scene.age(61)
    (job,) = await scene.claim_all()
    assert (await scene.lane(endpoint)).waiting_floor is not None
    await set_pace(scene, endpoint, FLOOR, quiet=QUIET.total_seconds())
    await scene.record(factory.delivered(job))
    assert len(await scene.claim_all()) == 54


async def test_a_reset_removes_the_pace_limit(scene: Scene) -> None:
    endpoint, _ = await slowed(scene)
    await set_pace(scene, endpoint, FLOOR)
    await scene.claim_all()
    event = await scene.store.catalogue.reset_circuit(endpoint.no, "they have moved")
    assert event is not None
    assert event.kind == K.CIRCUIT_RESET
    lane = await scene.lane(endpoint)
    assert (lane.pace, lane.pace_at, lane.pace_top, lane.slowed_at) == (None, None, None, None)
    assert len(await scene.claim(100)) >= 50


async def test_a_released_or_lost_job_does_not_change_the_pace(scene: Scene) -> None:
    endpoint, _ = await slowed(scene)
    await scene.age(STEP + 1)
    given_back = await scene.claim(50)
    await scene.age(1 / START)
    lost = await scene.claim(50)
    await scene.store.pipeline.release(given_back)
    await scene.age(61)
    await scene.store.upkeep.sweep_leases()
    lane = await scene.lane(endpoint)
    assert (lane.pace, lane.in_flight) == (START, 0)
    assert len(given_back) == len(lost) == 1


async def test_a_lane_without_a_slow_down_is_not_written(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    before = await scene.lane(endpoint)
    await scene.send(20)
    await scene.record(*factory.all_delivered(await scene.claim()))
    assert await scene.lane(endpoint) == before


# ── limits that change while in use ──


async def test_a_raised_throttle_applies_at_once(scene: Scene) -> None:
    endpoint = await scene.endpoint(throttle_rate=0.01)
    await scene.send(40)
    assert len(await scene.claim_all()) == 1
    await scene.store.catalogue.change_endpoint(endpoint.no, EndpointChange(throttle_rate=100.0))
    before = await scene.claim(40)
    assert len(before) <= burst(100.0)
    now = await scene.store.now()
    assert min(token["at"] for token in await scene.tokens(endpoint)) < now + timedelta(seconds=1)
    await scene.age(0.2)
    assert len(await scene.claim(40)) == int(burst(100.0))


async def test_a_lowered_throttle_applies_at_once(scene: Scene) -> None:
    endpoint = await scene.endpoint(throttle_rate=100.0)
    await scene.send(40)
    assert len(await scene.claim(40)) == int(burst(100.0))
    await scene.store.catalogue.change_endpoint(endpoint.no, EndpointChange(throttle_rate=0.01))
    await scene.age(1.0)
    assert len(await scene.claim_all()) == 1
    await scene.age(80.0)
    assert await scene.claim_all() == []
    await scene.age(20.0)
    assert len(await scene.claim_all()) == 1


async def test_a_throttle_that_is_set_while_running_applies_at_once(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send(40)
    assert len(await scene.claim(20)) == 20
    await scene.store.catalogue.change_endpoint(endpoint.no, EndpointChange(throttle_rate=0.01))
    assert len(await scene.claim_all()) == 1


async def test_a_lowered_concurrency_limit_applies_at_once(scene: Scene) -> None:
    endpoint = await scene.endpoint(concurrency=4)
    await scene.send(9)
    *most, last = await scene.claim_all()
    await scene.store.catalogue.change_endpoint(endpoint.no, EndpointChange(concurrency=1))
    await scene.record(*factory.all_delivered(most))
    assert await scene.claim_all() == []
    await scene.record(factory.delivered(last))
    assert len(await scene.claim_all()) == 1


@pytest.mark.parametrize("throttle", [10.0, None])
async def test_a_changed_throttle_does_not_change_the_pace(scene: Scene, throttle: float | None) -> None:
    endpoint, _ = await slowed(scene, throttle_rate=50.0)
    before = await scene.lane(endpoint)
    await scene.store.catalogue.change_endpoint(endpoint.no, EndpointChange(throttle_rate=throttle))
    after = await scene.lane(endpoint)
    assert (after.pace, after.pace_top, after.slowed_at) == (before.pace, 50.0, before.slowed_at)
    await scene.age(5.0)
    assert effective_rate(after, CircuitPolicy()) == (throttle or before.pace)
    assert len(await scene.claim(60)) == 1
