"""The time budget of an event from an outbox begins when the event is published, not when it is relayed."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hookline.model.deliveries import Delivery
from hookline.model.outbox import OutboxRow
from hookline.model.policy import PolicyOverride, RetryPolicy
from hookline.model.states import DeliveryState, Reason
from hookline.store.postgres import relay
from tests.store.test_relay import publish
from tests.support import factory
from tests.support.scene import Scene

FIVE_MINUTES = '{"max_age": 300.0}'


async def relayed(scene: Scene, age: float, *, policy: str | None = FIVE_MINUTES, **fields: object) -> Delivery:
    """Publish an event `age` seconds ago, relay it now, and return its delivery."""
    event_id = f"evt-{factory.number()}"
    created_at = await scene.raw.now() - timedelta(seconds=age)
    await publish(scene.raw, scene.app.id, event_id=event_id, policy=policy, created_at=created_at, **fields)
    assert (await scene.store.pipeline.relay(10)).relayed == 1
    message = await scene.store.history.message(scene.app.no, event_id)
    assert message is not None
    return await scene.delivery(message.id)


async def left(scene: Scene, delivery: Delivery) -> float:
    """Return how many seconds of the time budget are left."""
    assert delivery.expires_at is not None
    return (delivery.expires_at - await scene.raw.now()).total_seconds()


async def test_the_time_in_the_outbox_counts(scene: Scene) -> None:
    await scene.endpoint()
    assert 80 < await left(scene, await relayed(scene, 200)) <= 100


async def test_the_time_in_the_outbox_counts_in_a_large_batch(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "FEW", 1)  # PostgreSQL moves few rows in another way than many
    await scene.endpoint()
    assert 80 < await left(scene, await relayed(scene, 200)) <= 100


@pytest.mark.store_options(retry=RetryPolicy(max_age=1000.0))
async def test_it_counts_against_the_budget_of_the_deployment_too(scene: Scene) -> None:
    await scene.endpoint()
    assert 780 < await left(scene, await relayed(scene, 200, policy=None)) <= 800


async def test_a_row_from_the_future_counts_as_new(scene: Scene) -> None:
    await scene.endpoint()
    assert 280 < await left(scene, await relayed(scene, -5000)) <= 300


async def test_the_budget_of_a_scheduled_event_begins_at_its_time(scene: Scene) -> None:
    await scene.endpoint()
    deliver_at = await scene.store.now() + timedelta(seconds=50)
    assert (await relayed(scene, 200, deliver_at=deliver_at)).expires_at == deliver_at + timedelta(seconds=300)


async def test_an_event_that_is_too_old_becomes_a_dead_letter_and_is_not_sent(scene: Scene) -> None:
    await scene.endpoint()
    late = await relayed(scene, 301)
    assert late.state == DeliveryState.PENDING
    assert await scene.claim() == []
    found = await scene.delivery(late.message_id)
    assert (found.state, found.reason) == (DeliveryState.DEAD, Reason.BUDGET_EXHAUSTED)
    assert found.detail == "the time budget ended while it waited"


async def test_the_sweep_ends_an_event_that_is_too_old(scene: Scene) -> None:
    await scene.endpoint()
    late = await relayed(scene, 301)
    assert (await scene.store.upkeep.sweep_expired()).expired == 1
    assert (await scene.delivery(late.message_id)).reason == Reason.BUDGET_EXHAUSTED


async def test_a_claim_reports_the_deliveries_whose_budget_is_over_and_leases_the_others(scene: Scene) -> None:
    endpoint = await scene.endpoint(ordering="fifo")
    first, second = await scene.send(policy=PolicyOverride(max_age=5.0)), await scene.send()
    await scene.age(6)
    budgets = factory.slots().budgets()
    batch = await scene.store.pipeline.claim(10, budgets)
    (death,) = batch.deaths
    assert (death.message_id, death.endpoint_no, death.reason) == (first[0], endpoint.no, Reason.BUDGET_EXHAUSTED)
    jobs = batch.jobs or (await scene.store.pipeline.claim(10, budgets)).jobs
    assert [job.message_id for job in jobs] == second  # the next delivery of the queue


async def test_an_endpoint_with_a_limit_does_not_lose_slots_to_deliveries_whose_budget_is_over(scene: Scene) -> None:
    endpoint = await scene.endpoint(concurrency=2)
    await scene.send(5, policy=PolicyOverride(max_age=5.0))
    await scene.age(6)
    await scene.send(2)
    assert sum([len(await scene.claim()) for _ in range(6)]) == 2  # some claims only find deliveries that are too late
    assert (await scene.lane(endpoint)).in_flight == 2
    assert await scene.raw.count("dead_letter") == 5


async def test_a_row_that_is_retried_after_it_was_set_aside_has_a_new_budget(scene: Scene) -> None:
    await scene.endpoint()
    created_at = await scene.raw.now() - timedelta(hours=9)
    await publish(scene.raw, "nobody", event_id="evt-1", policy=FIVE_MINUTES, created_at=created_at)
    assert (await scene.store.pipeline.relay(10)).set_aside == 1
    await scene.raw.execute("UPDATE outbox SET app = $1", scene.app.id)
    assert await scene.store.repair.retry_set_aside(None) == 1
    assert (await scene.store.pipeline.relay(10)).relayed == 1
    assert len(await scene.claim()) == 1


async def test_a_copied_row_has_the_age_that_it_had_in_its_own_database(scene: Scene) -> None:
    """The clocks of the two databases may differ, so the row brings its age and not its time."""
    await scene.endpoint()
    policy = PolicyOverride(max_age=300.0)
    fields = {"app": scene.app.id, "payload": b"{}", "event_type": "order.paid", "policy": policy}
    rows = [
        OutboxRow(id=1, event_id="young", age=200.0, **fields),
        OutboxRow(id=2, event_id="old", age=301.0, **fields),
    ]
    report = await scene.store.pipeline.take(rows, source="shop")
    assert report is not None
    assert report.relayed == 2
    (job,) = await scene.claim()
    message = await scene.store.history.message(scene.app.no, "young")
    assert message is not None
    assert job.message_id == message.id
    assert 80 < (job.expires_at - await scene.raw.now()).total_seconds() <= 100
