"""Sweep: expired leases, exhausted time budgets, deleted endpoints, and endpoints that only fail."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from hookline.model.endpoints import EndpointChange
from hookline.model.lanes import LaneEventKind
from hookline.model.policy import PolicyOverride
from hookline.model.states import DeliveryState, EndpointStatus, Reason
from hookline.store import Store
from tests.support import factory
from tests.support.scene import Scene


async def test_a_sweep_of_an_idle_store_does_nothing(store: Store) -> None:
    assert (await store.upkeep.sweep_leases()).leases == 0
    assert (await store.upkeep.sweep_expired()).expired == 0
    assert (await store.upkeep.sweep_deleted()).deleted == 0
    report = await store.upkeep.sweep_failing(pause_dead=1, disable_after=1)
    assert (report.paused, report.disabled, report.events) == (0, 0, ())


# ── leases ──


@pytest.mark.store_options(lease=600.0)
async def test_a_lease_that_is_not_over_is_not_swept(scene: Scene) -> None:
    await scene.endpoint()
    (message,) = await scene.send()
    await scene.claim()
    await scene.age(500)
    assert (await scene.store.upkeep.sweep_leases()).leases == 0
    assert await scene.state(message) == DeliveryState.DELIVERING


async def test_a_delivery_with_an_expired_lease_is_pending_again_without_using_an_attempt(scene: Scene) -> None:
    await scene.endpoint()
    (message,) = await scene.send()
    (lost,) = await scene.claim()
    await scene.age(61)
    assert (await scene.store.upkeep.sweep_leases()).leases == 1
    delivery = await scene.delivery(message)
    assert (delivery.state, delivery.attempts) == (DeliveryState.PENDING, 0)
    (again,) = await scene.claim_all()
    assert (again.delivery_id, again.claim != lost.claim) == (lost.delivery_id, True)


async def test_a_delivery_with_an_expired_lease_goes_to_the_end_of_its_lane(scene: Scene) -> None:
    """A delivery that crashes its worker must not be the first one again each time."""
    await scene.endpoint()
    (poison,) = await scene.send()
    await scene.claim()
    (other,) = await scene.send()
    await scene.age(61)
    await scene.store.upkeep.sweep_leases()
    assert [job.message_id for job in await scene.claim(1)] == [other]
    assert [job.message_id for job in await scene.claim(1)] == [poison]


async def test_leases_are_swept_in_batches(scene: Scene) -> None:
    await scene.endpoint()
    await scene.send(7)
    await scene.claim()
    await scene.age(61)
    assert [(await scene.store.upkeep.sweep_leases(limit=3)).leases for _ in range(4)] == [3, 3, 1, 0]
    assert len(await scene.claim_all()) == 7


async def test_a_lease_made_while_the_clock_was_ahead_is_swept(scene: Scene) -> None:
    """No worker takes such a long lease. The clock was ahead when the lease was made, and was corrected since."""
    endpoint = await scene.endpoint(concurrency=5)
    ahead, behind = await scene.send(2)
    jobs = {job.message_id: job for job in await scene.claim()}
    now = await scene.store.now()
    for message, seconds in ((ahead, 400 * 86_400), (behind, 110)):
        until = now + timedelta(seconds=seconds)
        await scene.raw.execute("UPDATE delivery SET lease_until = $1 WHERE message_id = $2", until, message)
    assert (await scene.store.upkeep.sweep_leases()).leases == 1
    assert [await scene.state(message) for message in (ahead, behind)] == [
        DeliveryState.PENDING,
        DeliveryState.DELIVERING,
    ]
    assert (await scene.lane(endpoint)).in_flight == 1
    assert (await scene.record(factory.delivered(jobs[ahead]))).stale == 1
    assert [job.message_id for job in await scene.claim_all()] == [ahead]


async def test_leases_made_while_the_clock_was_ahead_are_swept_in_batches(scene: Scene) -> None:
    await scene.endpoint()
    await scene.send(7)
    jobs = await scene.claim()
    far = await scene.store.now() + timedelta(days=3)
    for job in jobs[:4]:
        await scene.raw.execute("UPDATE delivery SET lease_until = $1 WHERE id = $2", far, job.delivery_id)
    await scene.raw.execute("UPDATE delivery SET lease_until = $1 WHERE lease_until < $2", far - timedelta(days=4), far)
    assert [(await scene.store.upkeep.sweep_leases(limit=3)).leases for _ in range(4)] == [3, 3, 1, 0]


async def test_concurrent_sweeps_return_each_lease_once(scene: Scene, second: Store) -> None:
    endpoint = await scene.endpoint(concurrency=100)
    await scene.send(40)
    assert len(await scene.claim_all()) == 40
    await scene.age(61)
    reports = await asyncio.gather(*(handle.upkeep.sweep_leases() for handle in (scene.store, second) * 3))
    swept = sum(report.leases for report in reports) + (await scene.store.upkeep.sweep_leases()).leases
    assert swept == 40
    assert (await scene.lane(endpoint)).in_flight == 0
    assert len(await scene.claim_all()) == 40


# ── budgets ──


async def test_a_waiting_delivery_past_its_time_budget_dies(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    fresh, tried = await scene.send(2, policy=PolicyOverride(max_age=1000.0))
    jobs = {job.message_id: job for job in await scene.claim()}
    await scene.record(factory.retry(jobs[tried], after=5000))
    await scene.store.pipeline.release([jobs[fresh]])
    (kept,) = await scene.send()
    await scene.age(1001)
    assert (await scene.store.upkeep.sweep_expired()).expired == 2
    for message, attempts in ((fresh, 0), (tried, 1)):
        delivery = await scene.delivery(message)
        assert (delivery.state, delivery.reason) == (DeliveryState.DEAD, Reason.BUDGET_EXHAUSTED)
        letter = await scene.store.repair.dead_letter(delivery.id)
        assert letter is not None
        assert (letter.attempts, letter.endpoint_no, letter.message_id) == (attempts, endpoint.no, message)
    assert [job.message_id for job in await scene.claim_all()] == [kept]


async def test_a_leased_delivery_does_not_expire_while_its_worker_sends_it(scene: Scene) -> None:
    await scene.endpoint()
    (message,) = await scene.send(policy=PolicyOverride(max_age=30.0))
    (job,) = await scene.claim()
    await scene.age(40)
    assert (await scene.store.upkeep.sweep_expired()).expired == 0
    assert (await scene.record(factory.delivered(job))).recorded == 1
    assert await scene.state(message) == DeliveryState.DELIVERED


async def test_time_budgets_run_while_the_circuit_is_open(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.trip(endpoint)
    await scene.age(25 * 3600)
    assert (await scene.store.upkeep.sweep_expired()).expired == 5


async def test_expired_deliveries_are_swept_in_batches_and_once(scene: Scene, second: Store) -> None:
    await scene.endpoint()
    await scene.send(7, policy=PolicyOverride(max_age=10.0))
    await scene.age(11)
    assert [(await scene.store.upkeep.sweep_expired(limit=2)).expired for _ in range(2)] == [2, 2]
    reports = await asyncio.gather(scene.store.upkeep.sweep_expired(), second.upkeep.sweep_expired())
    left = (await scene.store.upkeep.sweep_expired()).expired
    assert sum(report.expired for report in reports) + left == 3
    assert await scene.raw.count("dead_letter") == 7


# ── deleted endpoints ──


async def test_open_deliveries_of_a_deleted_endpoint_die(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    messages = await scene.send(2)
    (flying,) = await scene.claim(1)
    await scene.store.catalogue.delete_endpoint(endpoint.no)
    assert (await scene.store.upkeep.sweep_deleted()).deleted == 1
    assert await scene.state(flying.message_id) == DeliveryState.DELIVERING
    await scene.age(61)
    await scene.store.upkeep.sweep_leases()
    assert (await scene.store.upkeep.sweep_deleted()).deleted == 1
    for message in messages:
        delivery = await scene.delivery(message)
        assert (delivery.state, delivery.reason) == (DeliveryState.DEAD, Reason.ENDPOINT_DELETED)
    assert await scene.claim_all() == []
    assert await scene.tokens(endpoint) == []


async def test_the_outcome_of_a_deleted_endpoint_is_still_recorded(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    good, bad = await scene.send(2)
    jobs = {job.message_id: job for job in await scene.claim()}
    await scene.store.catalogue.delete_endpoint(endpoint.no)
    await scene.record(factory.delivered(jobs[good]), factory.retry(jobs[bad], after=0))
    assert await scene.state(good) == DeliveryState.DELIVERED
    assert await scene.claim_all() == []
    assert (await scene.store.upkeep.sweep_deleted()).deleted == 1
    assert await scene.state(bad) == DeliveryState.DEAD


async def test_deliveries_of_a_deleted_application_die(scene: Scene) -> None:
    await scene.endpoint()
    await scene.endpoint()
    messages = await scene.send(3)
    await scene.store.catalogue.delete_application(scene.app.no)
    assert await scene.claim_all() == []
    assert [(await scene.store.upkeep.sweep_deleted(limit=4)).deleted for _ in range(3)] == [4, 2, 0]
    for message in messages:
        found = await scene.store.history.deliveries(message)
        assert {delivery.reason for delivery in found} == {Reason.ENDPOINT_DELETED}


async def test_the_sweep_of_a_deleted_lane_does_not_touch_other_lanes(scene: Scene) -> None:
    gone, kept = await scene.endpoint(), await scene.endpoint()
    await scene.send(3)
    await scene.store.catalogue.delete_endpoint(gone.no)
    assert (await scene.store.upkeep.sweep_deleted()).deleted == 3
    assert [job.endpoint_no for job in await scene.claim_all()] == [kept.no] * 3


async def test_a_delivery_that_dies_while_it_waits_has_the_same_detail_on_both_engines(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    (expired,) = await scene.send(policy=PolicyOverride(max_age=5.0))
    (left,) = await scene.send()
    await scene.age(6)
    await scene.store.upkeep.sweep_expired()
    await scene.store.catalogue.delete_endpoint(endpoint.no)
    await scene.store.upkeep.sweep_deleted()
    assert (await scene.delivery(expired)).detail == "the time budget ended while it waited"
    assert (await scene.delivery(left)).detail == "the endpoint was deleted"


# ── endpoints that only fail ──


async def test_an_endpoint_with_too_many_dead_letters_in_a_day_is_paused(scene: Scene) -> None:
    sick, other = await scene.endpoint(event_types=("a",)), await scene.endpoint(event_types=("b",))
    await scene.send(4, event_type="a")
    await scene.send(3, event_type="b")
    await scene.record(*(factory.dead(job) for job in await scene.claim_all()))
    report = await scene.store.upkeep.sweep_failing(pause_dead=3, disable_after=1e9)
    assert (report.paused, report.disabled) == (1, 0)
    assert [(event.endpoint_no, event.kind) for event in report.events] == [(sick.no, LaneEventKind.ENDPOINT_PAUSED)]
    assert (await scene.lane(sick)).status == EndpointStatus.PAUSED
    assert (await scene.lane(other)).status == EndpointStatus.ACTIVE
    (found,) = await scene.store.catalogue.endpoints_for([sick.no])
    assert (found.status, found.status_reason) == (EndpointStatus.PAUSED, "more than 3 dead letters in a day")
    again = await scene.store.upkeep.sweep_failing(pause_dead=3, disable_after=1e9)
    assert (again.paused, again.events) == (0, ())


async def test_dead_letters_of_yesterday_do_not_pause(scene: Scene) -> None:
    await scene.endpoint()
    await scene.send(5)
    await scene.record(*(factory.dead(job) for job in await scene.claim_all()))
    await scene.age(25 * 3600)
    assert (await scene.store.upkeep.sweep_failing(pause_dead=3, disable_after=1e9)).paused == 0


async def test_dead_letters_with_an_exhausted_time_budget_do_not_pause(scene: Scene) -> None:
    await scene.endpoint()
    await scene.send(5, policy=PolicyOverride(max_age=5.0))
    await scene.age(6)
    assert (await scene.store.upkeep.sweep_expired()).expired == 5
    assert (await scene.store.upkeep.sweep_failing(pause_dead=3, disable_after=1e9)).paused == 0


async def test_a_steady_failure_disables_the_endpoint(scene: Scene) -> None:
    steady = await scene.endpoint()
    await scene.trip(steady)
    await scene.age(1000)
    await scene.store.catalogue.change_endpoint(steady.no, EndpointChange(event_types=("never",)))
    young = await scene.endpoint()
    await scene.trip(young)
    since = (await scene.lane(steady)).failing_since
    report = await scene.store.upkeep.sweep_failing(pause_dead=100, disable_after=900)
    assert (report.paused, report.disabled) == (0, 1)
    assert [(event.endpoint_no, event.kind) for event in report.events] == [
        (steady.no, LaneEventKind.ENDPOINT_DISABLED)
    ]
    (found,) = await scene.store.catalogue.endpoints_for([steady.no])
    assert (found.status, found.revision > steady.revision) == (EndpointStatus.DISABLED, True)
    assert found.status_reason == f"failing since {since:%Y-%m-%d %H:%M:%S} UTC"
    assert (await scene.lane(young)).status == EndpointStatus.ACTIVE
    assert (await scene.store.upkeep.sweep_failing(pause_dead=100, disable_after=900)).disabled == 0


async def test_an_endpoint_that_meets_both_conditions_is_disabled(scene: Scene) -> None:
    sick = await scene.endpoint()
    await scene.send(4)
    await scene.record(*(factory.dead(job) for job in await scene.claim_all()))
    await scene.trip(sick)
    await scene.age(1000)
    report = await scene.store.upkeep.sweep_failing(pause_dead=3, disable_after=900)
    assert (report.paused, report.disabled) == (0, 1)
    assert (await scene.lane(sick)).status == EndpointStatus.DISABLED


async def test_one_failure_long_ago_is_not_a_steady_failure(scene: Scene) -> None:
    """The endpoint gets few messages and no attempt was made since. Its circuit is closed."""
    endpoint = await scene.endpoint()
    await scene.send()
    await scene.record(*(factory.retry(job) for job in await scene.claim_all()))
    await scene.age(1000)
    assert (await scene.lane(endpoint)).failing_since is not None
    assert (await scene.store.upkeep.sweep_failing(pause_dead=100, disable_after=900)).disabled == 0
