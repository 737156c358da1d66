"""Deliveries that are leased to a worker in the transaction that accepts their message."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import asdict

from hookline.model.deliveries import LeasedDelivery, Offer
from hookline.model.endpoints import Endpoint, Ordering
from hookline.model.messages import IngestStatus, NewMessage
from hookline.model.policy import CircuitPolicy, PolicyOverride
from hookline.model.states import DeliveryState
from hookline.rules.claim.budgets import LARGE
from hookline.rules.lane.admission import admit
from tests.support import factory
from tests.support.scene import Scene

LEASED, PENDING = DeliveryState.DELIVERING, DeliveryState.PENDING


def an_offer(*endpoints: Endpoint) -> Offer:
    return Offer(reserved={endpoint.no: 8 for endpoint in endpoints})


async def accept(scene: Scene, messages: Sequence[NewMessage], *offered: Endpoint) -> list[LeasedDelivery]:
    """Accept messages with an offer for these endpoints. Return the deliveries that the worker got."""
    offer = an_offer(*offered)
    await scene.store.pipeline.ingest(messages, offer)
    return offer.jobs


def a_message(scene: Scene, **fields: Any) -> NewMessage:
    return factory.new_message(scene.app.no, **fields)


async def test_the_worker_gets_the_same_job_as_from_a_claim(scene: Scene) -> None:
    endpoint = await scene.endpoint(policy=PolicyOverride(max_attempts=7))
    given = {
        "event_type": "order.paid",
        "payload": b'{"a": 1}',
        "trace": "00-aa-bb-01",
        "policy": PolicyOverride(base=3.0),
    }
    [leased] = await accept(scene, [a_message(scene, **given)], endpoint)
    await scene.store.pipeline.ingest([a_message(scene, **given)])
    [claimed] = await scene.claim()
    ours = {"delivery_id", "claim", "message_id", "accepted_at", "expires_at", "claimed_at", "lease_until", "due_at"}
    assert {k: v for k, v in asdict(leased).items() if k not in ours} == {
        k: v for k, v in asdict(claimed).items() if k not in ours
    }
    for job in (leased, claimed):
        assert (job.due_at, job.claimed_at >= job.accepted_at) == (job.accepted_at, True)
    assert leased.lease_until - leased.claimed_at == claimed.lease_until - claimed.claimed_at
    assert leased.expires_at - leased.accepted_at == claimed.expires_at - claimed.accepted_at


async def test_a_leased_delivery_is_durable_fenced_and_has_no_wake_token(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    [job] = await accept(scene, [a_message(scene)], endpoint)
    assert await scene.tokens(endpoint) == []
    assert await scene.state(job.message_id) == LEASED
    assert await scene.claim() == []
    stale = await scene.record(factory.delivered(factory.with_claim(job, job.claim + 1)))
    assert (stale.recorded, stale.stale) == (0, 1)
    assert (await scene.record(factory.delivered(job))).recorded == 1
    assert await scene.state(job.message_id) == DeliveryState.DELIVERED


async def test_each_message_goes_to_each_offered_endpoint_once(scene: Scene) -> None:
    first, second, other = [await scene.endpoint() for _ in range(3)]
    messages = factory.new_messages(scene.app.no, 3)
    jobs = await accept(scene, messages, first, second)
    assert sorted((job.message_id, job.endpoint_no) for job in jobs) == sorted(
        (message.id, endpoint.no) for message in messages for endpoint in (first, second)
    )
    assert len({job.delivery_id for job in jobs}) == 6
    assert {job.endpoint_no for job in await scene.claim()} == {other.no}


async def test_a_released_delivery_is_claimed_again(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    [job] = await accept(scene, [a_message(scene)], endpoint)
    assert await scene.store.pipeline.release([job]) == 1
    [again] = await scene.claim()
    assert (again.delivery_id, again.attempts, again.sent) == (job.delivery_id, 0, 0)


async def test_the_lease_of_a_worker_that_was_killed_expires(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    [job] = await accept(scene, [a_message(scene)], endpoint)
    await scene.age(10_000)
    assert (await scene.store.upkeep.sweep_leases()).leases == 1
    [again] = await scene.claim()
    assert again.delivery_id == job.delivery_id
    assert (await scene.record(factory.delivered(job))).recorded == 0


async def test_a_failed_attempt_is_retried_as_after_a_claim(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    [job] = await accept(scene, [a_message(scene)], endpoint)
    await scene.record(factory.retry(job, after=0.001))
    assert (await scene.lane(endpoint)).failures == 1
    await scene.age(1)
    [again] = await scene.claim()
    assert (again.delivery_id, again.attempts, again.sent) == (job.delivery_id, 1, 1)


# ── what is not handed over ──


async def test_a_message_that_is_not_new_is_not_handed_over(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    message = a_message(scene, idempotency_key=b"k" * 32, idempotency_body=b"b")
    again = a_message(scene, idempotency_key=b"k" * 32, idempotency_body=b"b")
    assert len(await accept(scene, [message], endpoint)) == 1
    assert await accept(scene, [again], endpoint) == []
    assert await accept(scene, [factory.new_message(scene.app.no + 100)], endpoint) == []


async def test_messages_with_the_same_key_in_one_batch_are_handed_over_at_most_once(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    twins = [a_message(scene, idempotency_key=b"k" * 32, idempotency_body=b"b") for _ in range(2)]
    offer = an_offer(endpoint)
    answers = await scene.store.pipeline.ingest(twins, offer)
    assert [answer.status for answer in answers] == [IngestStatus.ACCEPTED, IngestStatus.REPLAYED]
    jobs = [*offer.jobs, *await scene.claim()]
    assert [job.message_id for job in jobs] == [twins[0].id]


async def test_only_deliveries_that_are_due_without_an_order_are_handed_over(scene: Scene) -> None:
    later = (await scene.raw.now()) + timedelta(hours=1)
    keyed, fifo, plain = [
        await scene.endpoint(ordering=ordering) for ordering in (Ordering.KEY, Ordering.FIFO, Ordering.NONE)
    ]
    jobs = await accept(scene, [a_message(scene, ordering_key="a")], keyed, fifo, plain)
    assert {job.endpoint_no for job in jobs} == {plain.no}
    assert await accept(scene, [a_message(scene, deliver_at=later)], keyed, fifo, plain) == []
    assert {job.endpoint_no for job in await scene.claim()} == {keyed.no, fifo.no}


async def test_large_and_earlier_messages_beside_a_small_one_are_not_handed_over(scene: Scene) -> None:
    """The worker has reserved a slot for the small message only."""
    endpoint = await scene.endpoint()
    small, large = a_message(scene), a_message(scene, payload=b"x" * (LARGE + 1))
    dated = a_message(scene, deliver_at=await scene.raw.now() - timedelta(hours=1))
    largest = a_message(scene, payload=b"x" * LARGE)
    jobs = await accept(scene, [dated, large, small, largest], endpoint)
    assert {job.message_id for job in jobs} == {small.id, largest.id}
    assert {job.message_id for job in await scene.claim()} == {dated.id, large.id}


async def test_a_delivery_whose_time_budget_was_used_up_in_the_outbox_is_not_handed_over(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    old = a_message(scene, age=3600.0, policy=PolicyOverride(max_age=60.0))
    assert await accept(scene, [old], endpoint) == []
    assert await scene.state(old.id) == PENDING


async def test_a_lane_with_waiting_deliveries_gets_no_hand_over(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send()
    assert await accept(scene, [a_message(scene)], endpoint) == []
    assert len(await scene.claim()) == 2
    assert len(await accept(scene, [a_message(scene)], endpoint)) == 1


SOON, PAST = "future", "past"
LANES: list[dict[str, Any]] = [
    {},
    {"status": 1},
    {"circuit": 1},
    {"circuit": 2},
    {"circuit": 3, "window": 2},
    {"failures": 1},
    {"failures": 9},
    {"failing_since": PAST},
    {"window": 4},
    {"throttle_rate": 10.0},
    {"concurrency": 3},
    {"pace": 5.0},
    {"app_rate": 7.0},
    {"held_until": SOON},
    {"held_until": PAST},
    {"revision": 5, "epoch": 3},
]


@pytest.mark.parametrize("columns", LANES, ids=str)
async def test_a_lane_with_a_limit_or_a_failure_gets_no_hand_over(scene: Scene, columns: dict[str, Any]) -> None:
    """What is handed over could be claimed: a claim decides by `admit`."""
    endpoint = await scene.endpoint()
    now = await scene.raw.now()
    at = {SOON: now + timedelta(hours=1), PAST: now - timedelta(hours=1)}
    for name, value in columns.items():
        given = at.get(value, value)
        await scene.raw.execute(f'UPDATE lane SET "{name}" = $1 WHERE endpoint_no = $2', given, endpoint.no)
    lane = await scene.lane(endpoint)
    jobs = await accept(scene, [a_message(scene)], endpoint)
    admission = admit(lane, now=now, want=1, room=8, policy=CircuitPolicy())
    free = bool(admission.quota) and not admission.counted and lane.app_rate is None
    assert len(jobs) == (free and not lane.failures and lane.failing_since is None)
    assert all((job.revision, job.epoch) == (lane.revision, lane.epoch) for job in jobs)
