"""Lanes: circuit, recovery, throttle, concurrency, holds and status. A lane with due deliveries always wakes."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from hookline.model.deliveries import SlotBudgets
from hookline.model.endpoints import EndpointChange
from hookline.model.lanes import LaneEventKind
from hookline.model.policy import CircuitPolicy, PolicyOverride, RetryPolicy
from hookline.model.states import Circuit, DeliveryState, EndpointStatus, Health, Reason
from hookline.store import Store
from tests.support import factory
from tests.support.scene import Scene

STEADY = CircuitPolicy(recovery_window=2, recovery_rate=1000.0, recovery_done=8)


# ── the circuit opens ──


async def test_a_burst_of_failures_does_not_open_the_circuit(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send(6)
    jobs = await scene.claim()
    report = await scene.record(*(factory.retry(job, after=0) for job in jobs[:5]))
    lane = await scene.lane(endpoint)
    assert (lane.circuit, lane.failures, report.events) == (Circuit.CLOSED, 5, ())
    await scene.age(1.1)
    report = await scene.record(factory.retry(jobs[5], after=0))
    lane = await scene.lane(endpoint)
    assert (lane.circuit, lane.failures, lane.trips, lane.epoch) == (Circuit.OPEN, 6, 1, 1)
    assert [event.kind for event in report.events] == [LaneEventKind.CIRCUIT_OPENED]
    assert [event.kind for event in await scene.store.history.lane_events(endpoint.no)] == [
        LaneEventKind.CIRCUIT_OPENED
    ]


async def test_a_success_between_failures_keeps_the_circuit_closed(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send(9)
    jobs = await scene.claim()
    await scene.record(*(factory.retry(job) for job in jobs[:4]))
    await scene.age(2)
    await scene.record(factory.delivered(jobs[4]), *(factory.retry(job) for job in jobs[5:9]))
    lane = await scene.lane(endpoint)
    assert (lane.circuit, lane.failures) == (Circuit.CLOSED, 4)


async def test_a_permanent_failure_resets_the_count_of_failures(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send(2)
    first, other = await scene.claim()
    await scene.record(factory.retry(first))
    await scene.record(factory.dead(other))
    lane = await scene.lane(endpoint)
    assert (lane.failures, lane.failing_since) == (0, None)


async def test_an_open_circuit_costs_one_token_and_no_attempt(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    messages = await scene.trip(endpoint)
    for _ in range(5):
        messages += await scene.send(10)
        assert await scene.claim() == []
    lane = await scene.lane(endpoint)
    (token,) = await scene.tokens(endpoint)
    assert token["at"] == lane.probe_at
    attempts = {(await scene.delivery(message)).attempts for message in messages[:5]}
    untouched = {(await scene.delivery(message)).sent for message in messages[5:]}
    assert (attempts, untouched) == ({1}, {0})


async def test_the_first_probe_is_about_a_minute_away(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.trip(endpoint)
    lane = await scene.lane(endpoint)
    assert lane.probe_at is not None
    assert lane.opened_at is not None
    assert 48 <= (lane.probe_at - lane.opened_at).total_seconds() <= 72
    await scene.age(73)
    assert len(await scene.claim()) == 1


async def test_a_failing_lane_does_not_delay_a_healthy_one(scene: Scene) -> None:
    sick = await scene.endpoint()
    await scene.trip(sick)
    await scene.send(50)
    await scene.claim()
    healthy = await scene.endpoint(event_types=("fresh",))
    await scene.send(3, event_type="fresh")
    assert [job.endpoint_no for job in await scene.claim(3)] == [healthy.no] * 3


# ── probes ──


async def test_one_probe_at_a_time_over_all_workers(scene: Scene, second: Store) -> None:
    endpoint = await scene.endpoint()
    await scene.trip(endpoint)
    for _ in range(20):
        await scene.send(2)  # one token for each claimer
    await scene.age(5000)
    batches = await asyncio.gather(
        *(handle.pipeline.claim(50, SlotBudgets(lane_limit=50)) for handle in (scene.store, second) * 6)
    )
    jobs = [job for batch in batches for job in batch.jobs]
    assert [(job.probe, job.counted) for job in jobs] == [(True, True)]
    lane = await scene.lane(endpoint)
    assert (lane.circuit, lane.in_flight) == (Circuit.HALF_OPEN, 1)
    assert await scene.claim_all() == []


async def test_a_failed_probe_uses_no_attempt_and_the_next_one_waits_longer(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    probe = await scene.half_open(endpoint)
    before = await scene.store.now()
    report = await scene.record(factory.retry(probe, after=1))
    after = await scene.store.now()
    delivery = await scene.delivery(probe.message_id)
    assert (delivery.attempts, delivery.sent) == (probe.attempts, probe.sent + 1)
    lane = await scene.lane(endpoint)
    assert (lane.circuit, lane.trips, lane.in_flight) == (Circuit.OPEN, 2, 0)
    assert [event.kind for event in report.events] == [LaneEventKind.CIRCUIT_PROBE_FAILED]
    assert lane.probe_at is not None
    assert before + timedelta(seconds=96) <= lane.probe_at <= after + timedelta(seconds=144)
    assert await scene.claim_all() == []


async def test_the_next_probe_carries_another_delivery(scene: Scene) -> None:
    """One poisoned message must not be used for every probe."""
    endpoint = await scene.endpoint()
    await scene.trip(endpoint)
    probed: list[str] = []
    for _ in range(5):
        probe = await scene.probe(endpoint)
        probed.append(probe.message_id)
        await scene.record(factory.retry(probe, after=0.001))
    assert len(set(probed)) == 5


async def test_a_probe_with_an_expired_lease_is_repeated_without_a_sweep(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    lost = await scene.half_open(endpoint)
    await scene.age(61)
    (successor,) = await scene.claim_all()
    assert successor.probe
    assert successor.delivery_id != lost.delivery_id
    assert successor.epoch > lost.epoch


async def test_the_late_outcome_of_a_probe_with_an_expired_lease_has_no_effect(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    lost = await scene.half_open(endpoint)
    await scene.age(61)
    (successor,) = await scene.claim_all()
    await scene.record(factory.delivered(lost))
    lane = await scene.lane(endpoint)
    assert (lane.circuit, lane.epoch) == (Circuit.HALF_OPEN, successor.epoch)
    assert await scene.state(lost.message_id) == DeliveryState.DELIVERED
    await scene.record(factory.retry(successor))
    assert (await scene.lane(endpoint)).circuit == Circuit.OPEN


async def test_the_only_delivery_of_an_expired_probe_is_probed_again_after_the_sweep(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    messages = await scene.trip(endpoint)
    for message in messages[1:]:
        await scene.raw.execute("DELETE FROM delivery WHERE message_id = $1", message)
    lost = await scene.probe(endpoint)
    await scene.age(61)
    assert await scene.claim_all() == []
    assert (await scene.store.upkeep.sweep_leases()).leases == 1
    (again,) = await scene.claim_all()
    assert (again.delivery_id, again.probe) == (lost.delivery_id, True)


async def test_after_a_released_probe_the_next_one_is_sent_at_once(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    probe = await scene.half_open(endpoint)
    assert await scene.store.pipeline.release([probe]) == 1
    lane = await scene.lane(endpoint)
    assert (lane.circuit, lane.in_flight) == (Circuit.OPEN, 0)
    (again,) = await scene.claim_all()
    assert again.probe


async def test_outcomes_of_requests_before_the_opening_do_not_change_the_health(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send(3)
    old = await scene.claim()
    await scene.trip(endpoint)
    before = await scene.lane(endpoint)
    await scene.record(factory.delivered(old[0]), factory.retry(old[1]), factory.dead(old[2]))
    after = await scene.lane(endpoint)
    assert (after.circuit, after.epoch, after.failures, after.probe_at) == (
        before.circuit,
        before.epoch,
        before.failures,
        before.probe_at,
    )


# ── recovery ──


@pytest.mark.store_options(circuit=STEADY)
async def test_a_successful_probe_opens_a_small_recovery_window(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.recover(endpoint)
    await scene.send(30)
    await scene.age(1)
    jobs = await scene.claim_all()
    lane = await scene.lane(endpoint)
    assert (lane.circuit, lane.window) == (Circuit.RECOVERING, 2)
    assert len(jobs) == lane.in_flight == 2
    assert {(job.counted, job.probe, job.epoch) for job in jobs} == {(True, False, lane.epoch)}


@pytest.mark.store_options(circuit=STEADY)
async def test_the_window_doubles_with_successes_until_the_circuit_is_closed(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.recover(endpoint)
    await scene.send(60)
    windows: list[int | None] = []
    for _ in range(3):
        await scene.age(STEADY.recovery_step + 0.5)
        windows.append((await scene.lane(endpoint)).window)
        await scene.record(*factory.all_delivered(await scene.claim_all()))
    assert windows == [2, 4, 8]
    lane = await scene.lane(endpoint)
    assert (lane.circuit, lane.window, lane.trips, lane.failures) == (Circuit.CLOSED, None, 0, 0)
    kinds = [event.kind for event in await scene.store.history.lane_events(endpoint.no)]
    assert kinds == [LaneEventKind.CIRCUIT_CLOSED, LaneEventKind.CIRCUIT_RECOVERING, LaneEventKind.CIRCUIT_OPENED]


@pytest.mark.store_options(circuit=CircuitPolicy(recovery_step=100.0))
async def test_the_window_does_not_grow_within_its_step(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.recover(endpoint)
    await scene.send(10)
    await scene.age(30.0)
    await scene.record(*factory.all_delivered(await scene.claim_all()))
    assert (await scene.lane(endpoint)).window == 2


async def test_failures_while_recovering_open_the_circuit_again(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.recover(endpoint)
    await scene.send(20)
    for _ in range(8):
        await scene.age(0.6)
        jobs = await scene.claim_all()
        await scene.record(*(factory.retry(job, after=0.1) for job in jobs))
        if (await scene.lane(endpoint)).circuit == Circuit.OPEN:
            break
    lane = await scene.lane(endpoint)
    assert (lane.circuit, lane.in_flight, lane.trips) == (Circuit.OPEN, 0, 2)


async def test_a_backlog_drains_through_recovery(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.recover(endpoint)
    await scene.send(200)
    delivered = 0
    for _ in range(200):
        jobs = await scene.claim(50)
        delivered += len(jobs)
        await scene.record(*factory.all_delivered(jobs))
        await scene.age(0.25)
    assert delivered == 204
    assert await scene.raw.count("delivery") == 0


# ── concurrency and throttle ──


async def test_no_more_requests_are_in_flight_than_the_concurrency_limit(scene: Scene, second: Store) -> None:
    endpoint = await scene.endpoint(concurrency=3)
    await scene.send(12)
    batches = await asyncio.gather(
        *(handle.pipeline.claim(10, SlotBudgets(lane_limit=100)) for handle in (scene.store, second) * 3)
    )
    jobs = [job for batch in batches for job in batch.jobs]
    assert len(jobs) == 3
    lane = await scene.lane(endpoint)
    assert (lane.in_flight, lane.waiting_floor is not None) == (3, True)
    assert await scene.claim() == []


async def test_a_record_that_frees_a_slot_wakes_the_lane(scene: Scene, second: Store) -> None:
    endpoint = await scene.endpoint(concurrency=3)
    await scene.send(12)
    jobs = await scene.claim_all()
    await scene.claim()
    assert await scene.tokens(endpoint) == []
    await second.pipeline.record([factory.delivered(jobs[0])])
    assert len(await scene.tokens(endpoint)) == 1
    assert len(await scene.claim_all()) == 1
    await second.pipeline.release([jobs[1]])
    assert len(await scene.claim_all()) == 1
    assert (await scene.lane(endpoint)).in_flight == 3


async def test_the_slot_of_an_expired_lease_is_freed_once(scene: Scene) -> None:
    endpoint = await scene.endpoint(concurrency=2)
    await scene.send(6)
    lost = await scene.claim_all()
    await scene.age(61)
    assert (await scene.store.upkeep.sweep_leases()).leases == 2
    assert (await scene.lane(endpoint)).in_flight == 0
    assert len(await scene.claim_all()) == 2
    await scene.record(*factory.all_delivered(lost))
    assert (await scene.lane(endpoint)).in_flight == 2


async def test_the_end_of_an_older_request_does_not_delay_the_recovery(scene: Scene) -> None:
    """A request that started before the circuit opened ends while the probe is in flight."""
    endpoint = await scene.endpoint(concurrency=2)
    await scene.send(4)
    older, _ = await scene.claim_all()
    await scene.store.catalogue.open_circuit(endpoint.no, "they deploy", until=await scene.store.now())
    (probe,) = await scene.claim_all()
    assert probe.probe
    await scene.record(factory.delivered(older))
    await scene.record(factory.delivered(probe))
    assert (await scene.lane(endpoint)).circuit == Circuit.RECOVERING
    assert len(await scene.claim_all()) == 1


async def test_a_lane_at_its_concurrency_limit_sends_its_whole_backlog(scene: Scene) -> None:
    endpoint = await scene.endpoint(concurrency=4)
    await scene.send(40)
    done = 0
    while jobs := await scene.claim(10):
        assert len(jobs) <= 4
        done += (await scene.record(*factory.all_delivered(jobs))).recorded
    assert done == 40
    lane = await scene.lane(endpoint)
    assert (lane.in_flight, lane.waiting_floor) == (0, None)


async def test_a_raised_concurrency_limit_wakes_the_lane(scene: Scene) -> None:
    endpoint = await scene.endpoint(concurrency=1)
    await scene.send(9)
    assert len(await scene.claim_all()) == 1
    await scene.store.catalogue.change_endpoint(endpoint.no, EndpointChange(concurrency=5))
    assert len(await scene.claim_all()) == 4
    await scene.store.catalogue.change_endpoint(endpoint.no, EndpointChange(concurrency=None))
    assert len(await scene.claim_all()) == 4


async def test_the_count_in_flight_is_right_after_a_limit_is_set_and_removed(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send(9)
    free = await scene.claim(3)
    await scene.store.catalogue.change_endpoint(endpoint.no, EndpointChange(concurrency=2))
    counted = await scene.claim_all()
    assert (len(counted), {job.counted for job in free}, {job.counted for job in counted}) == (2, {False}, {True})
    await scene.record(*factory.all_delivered(free))
    assert (await scene.lane(endpoint)).in_flight == 2
    await scene.store.catalogue.change_endpoint(endpoint.no, EndpointChange(concurrency=None))
    await scene.record(*factory.all_delivered(counted))
    assert (await scene.lane(endpoint)).in_flight == 0
    assert len(await scene.claim_all()) == 4


async def test_a_throttle_lets_a_sixteenth_of_its_rate_through_at_once(scene: Scene) -> None:
    endpoint = await scene.endpoint(throttle_rate=80.0)
    await scene.send(40)
    batch = await scene.store.pipeline.claim(40, SlotBudgets(lane_limit=100))
    assert len(batch.jobs) == 5
    lane = await scene.lane(endpoint)
    assert lane.tat is not None
    assert lane.tat >= batch.now + timedelta(seconds=0.06)
    (token,) = await scene.tokens(endpoint)
    assert token["at"] > batch.now


async def test_a_throttled_lane_starts_no_more_than_its_rate(scene: Scene) -> None:
    endpoint = await scene.endpoint(throttle_rate=20.0)
    await scene.send(60)
    begun = await scene.store.now()
    taken, passed = 0, 0.0
    for _ in range(20):
        taken += len(await scene.claim(10))
        await scene.age(0.05)
        passed += 0.05
    real = (await scene.store.now() - begun).total_seconds()
    assert 20 <= taken <= 20.0 * (passed + real) + 2
    assert len(await scene.tokens(endpoint)) == 1


async def test_a_removed_throttle_wakes_the_lane(scene: Scene) -> None:
    endpoint = await scene.endpoint(throttle_rate=0.01)
    await scene.send(5)
    assert len(await scene.claim_all()) == 1
    await scene.store.catalogue.change_endpoint(endpoint.no, EndpointChange(throttle_rate=None))
    assert len(await scene.claim_all()) == 4


# ── holds and status ──


async def test_retry_after_holds_the_whole_lane(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send(3)
    (job,) = await scene.claim(1)
    until = job.claimed_at + timedelta(seconds=100)
    report = await scene.record(factory.retry(job, after=100, hold_until=until))
    assert [event.kind for event in report.events] == [LaneEventKind.LANE_HELD]
    assert (await scene.lane(endpoint)).held_until == until
    await scene.send()
    assert await scene.claim_all() == []
    assert [token["at"] for token in await scene.tokens(endpoint)] == [until]
    await scene.age(101)
    assert len(await scene.claim_all()) == 4


async def test_an_endpoint_that_answers_gone_is_disabled(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    held, first = await scene.send(2)
    jobs = {job.message_id: job for job in await scene.claim()}
    report = await scene.record(factory.dead(jobs[first], Reason.ENDPOINT_GONE), factory.retry(jobs[held], after=0))
    assert [event.kind for event in report.events] == [LaneEventKind.ENDPOINT_DISABLED]
    after = await scene.store.catalogue.endpoint(scene.app.no, endpoint.id)
    assert after is not None
    assert (after.status, after.revision > endpoint.revision) == (EndpointStatus.DISABLED, True)
    assert after.status_reason
    lane = await scene.lane(endpoint)
    assert (lane.status, lane.revision) == (EndpointStatus.DISABLED, after.revision)
    assert await scene.claim_all() == []
    (answer,) = await scene.ingest([factory.new_message(scene.app.no)])
    assert answer.deliveries == 0
    letter = await scene.store.repair.dead_letter(jobs[first].delivery_id)
    assert letter is not None
    assert letter.reason == Reason.ENDPOINT_GONE


async def test_a_paused_lane_holds_and_resumes_with_a_new_budget(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.PAUSED, "maintenance")
    (message,) = await scene.send()
    assert await scene.claim_all() == []
    await scene.age(30 * 3600)
    assert (await scene.store.upkeep.sweep_expired()).expired == 0
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.ACTIVE, "back")
    delivery, now = await scene.delivery(message), await scene.store.now()
    assert delivery.expires_at is not None
    budget = (delivery.expires_at - now).total_seconds()
    assert RetryPolicy().max_age - 30 < budget <= RetryPolicy().max_age
    assert (await scene.store.upkeep.sweep_expired()).expired == 0
    (job,) = await scene.claim_all()
    assert job.message_id == message


async def test_deliveries_of_a_paused_lane_get_a_new_time_budget_when_it_is_disabled(scene: Scene) -> None:
    """The time budget did not run while the lane was paused. It runs from now on."""
    endpoint = await scene.endpoint()
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.PAUSED, "maintenance")
    (message,) = await scene.send(policy=PolicyOverride(max_age=500.0))
    await scene.age(3600)
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.DISABLED, "for good")
    delivery, now = await scene.delivery(message), await scene.store.now()
    assert delivery.expires_at is not None
    assert 470 < (delivery.expires_at - now).total_seconds() <= 500


async def test_a_resumed_delivery_keeps_the_length_of_its_own_budget(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    (message,) = await scene.send(policy=PolicyOverride(max_age=500.0))
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.PAUSED, "maintenance")
    await scene.age(400)
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.ACTIVE, "back")
    delivery, now = await scene.delivery(message), await scene.store.now()
    assert delivery.expires_at is not None
    assert 470 < (delivery.expires_at - now).total_seconds() <= 500


async def test_requests_in_flight_when_a_lane_is_paused_are_recorded(scene: Scene) -> None:
    endpoint = await scene.endpoint(concurrency=5)
    await scene.send(3)
    good, bad, given_back = await scene.claim()
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.PAUSED, "maintenance")
    await scene.record(factory.delivered(good), factory.retry(bad, after=0))
    await scene.store.pipeline.release([given_back])
    assert await scene.claim_all() == []
    assert (await scene.lane(endpoint)).in_flight == 0
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.ACTIVE, "back")
    assert {job.message_id for job in await scene.claim_all()} == {bad.message_id, given_back.message_id}


async def test_a_paused_lane_with_a_backlog_stops_no_claim(scene: Scene) -> None:
    paused = await scene.endpoint(event_types=("a",))
    await scene.store.catalogue.set_endpoint_status(paused.no, EndpointStatus.PAUSED, "maintenance")
    for _ in range(10):
        await scene.send(20, event_type="a")
    await scene.endpoint(event_types=("b",))
    await scene.send(2, event_type="b")
    assert len(await scene.claim_all()) == 2
    assert len(await scene.tokens(paused)) <= 1


async def test_a_disabled_lane_holds_while_the_budget_runs(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    early, late = await scene.send(2)
    await scene.raw.execute(
        "UPDATE delivery SET expires_at = $1 WHERE message_id = $2",
        await scene.store.now() + timedelta(seconds=50),
        early,
    )
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.DISABLED, "left us")
    assert await scene.claim_all() == []
    await scene.age(60)
    assert (await scene.store.upkeep.sweep_expired()).expired == 1
    assert await scene.state(early) == DeliveryState.DEAD
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.ACTIVE, "back")
    assert [job.message_id for job in await scene.claim_all()] == [late]


async def test_a_lane_with_an_open_circuit_still_wakes_after_pause_and_resume(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.trip(endpoint)
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.PAUSED, "maintenance")
    assert await scene.claim_all() == []
    await scene.age(5000)
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.ACTIVE, "back")
    assert await scene.store.upkeep.find_stuck_lanes(repair=False) == []
    jobs = await scene.claim_all()
    assert len(jobs) == 1


@pytest.mark.parametrize("held", [EndpointStatus.PAUSED, EndpointStatus.DISABLED])
async def test_an_endpoint_that_is_activated_again_is_probed_at_once(scene: Scene, held: EndpointStatus) -> None:
    """An operator who activates the endpoint says that it is healthy. A probe checks that."""
    endpoint = await scene.endpoint()
    await scene.trip(endpoint)
    await scene.store.catalogue.set_endpoint_status(endpoint.no, held, "maintenance")
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.ACTIVE, "back")
    lane = await scene.lane(endpoint)
    assert (lane.circuit, lane.failures, lane.failing_since) == (Circuit.OPEN, 0, None)
    (job,) = await scene.claim_all()
    assert job.probe
    await scene.record(factory.delivered(job))
    assert (await scene.lane(endpoint)).circuit == Circuit.RECOVERING


async def test_only_outcomes_about_health_change_the_health(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send(10)
    jobs = await scene.claim()
    await scene.record(*(factory.retry(job, health=Health.NONE) for job in jobs))
    assert (await scene.lane(endpoint)).failures == 0


# ── the audit ──


async def test_the_audit_finds_and_repairs_a_lane_that_lost_its_token(scene: Scene) -> None:
    scene.broken_on_purpose = True
    asleep, awake = await scene.endpoint(), await scene.endpoint()
    (message,) = await scene.send()
    await scene.raw.execute("DELETE FROM wake WHERE endpoint_no = $1", asleep.no)
    assert await scene.store.upkeep.find_stuck_lanes(repair=False) == [asleep.no]
    assert {job.endpoint_no for job in await scene.claim_all()} == {awake.no}
    assert await scene.store.upkeep.find_stuck_lanes(repair=True) == [asleep.no]
    assert await scene.store.upkeep.find_stuck_lanes(repair=False) == []
    assert [job.message_id for job in await scene.claim_all()] == [message]


async def test_the_audit_finds_a_token_that_comes_too_late(scene: Scene) -> None:
    scene.broken_on_purpose = True
    endpoint = await scene.endpoint()
    await scene.send()
    late = await scene.store.now() + timedelta(days=3)
    await scene.raw.execute("UPDATE wake SET at = $1", late)
    assert await scene.store.upkeep.find_stuck_lanes(repair=True) == [endpoint.no]
    assert len(await scene.claim_all()) == 1


async def test_the_audit_ignores_lanes_that_wait_for_a_reason(scene: Scene) -> None:
    paused = await scene.endpoint()
    full = await scene.endpoint(concurrency=1)
    await scene.send(3)
    await scene.store.catalogue.set_endpoint_status(paused.no, EndpointStatus.PAUSED, "maintenance")
    await scene.claim_all()
    await scene.claim_all()
    assert (await scene.lane(full)).waiting_floor is not None
    assert await scene.store.upkeep.find_stuck_lanes(repair=True) == []
