"""Replay: dead letters, missed messages and requested resends go back into their lanes."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from hookline.model.dead import DeadFilter
from hookline.model.endpoints import EndpointChange
from hookline.model.policy import PolicyOverride, RetryPolicy
from hookline.model.states import DeliveryState, EndpointStatus, Reason
from hookline.store import Store
from tests.support import factory
from tests.support.scene import Scene


async def test_a_replayed_delivery_starts_again_and_keeps_its_history(scene: Scene) -> None:
    await scene.endpoint()
    (message,) = await scene.send()
    (job,) = await scene.claim()
    await scene.record(factory.retry(job, after=0))
    (job,) = await scene.claim_all()
    await scene.record(factory.dead(job))
    await scene.age(40 * 3600)
    assert await scene.store.repair.replay(DeadFilter(ids=(job.delivery_id,))) == 1
    delivery, now = await scene.delivery(message), await scene.store.now()
    assert (delivery.id, delivery.state) == (job.delivery_id, DeliveryState.PENDING)
    assert (delivery.attempts, delivery.sent) == (0, 2)
    assert delivery.expires_at is not None
    assert RetryPolicy().max_age - 30 < (delivery.expires_at - now).total_seconds() <= RetryPolicy().max_age
    assert await scene.store.repair.dead_letter(job.delivery_id) is None
    (again,) = await scene.claim_all()
    assert (again.message_id, again.payload, again.attempts) == (message, job.payload, 0)
    await scene.record(factory.delivered(again))
    attempts = await scene.store.history.attempts(message)
    assert [(attempt.number, attempt.outcome) for attempt in attempts] == [(1, "retry"), (2, "dead"), (3, "delivered")]


async def test_a_replay_does_not_change_the_policy(scene: Scene) -> None:
    await scene.endpoint()
    policy = PolicyOverride(max_age=700.0, base=9.0)
    (message,) = await scene.send(policy=policy)
    (job,) = await scene.claim()
    await scene.record(factory.dead(job))
    await scene.store.repair.replay(DeadFilter())
    delivery, now = await scene.delivery(message), await scene.store.now()
    assert delivery.expires_at is not None
    assert 670 < (delivery.expires_at - now).total_seconds() <= 700
    (again,) = await scene.claim_all()
    assert again.policy == policy


async def test_a_resolved_dead_letter_is_replayed_only_on_request(scene: Scene) -> None:
    await scene.endpoint()
    (message,) = await scene.send()
    (job,) = await scene.claim()
    await scene.record(factory.dead(job))
    await scene.store.repair.resolve(DeadFilter(), "done by hand")
    assert await scene.store.repair.replay(DeadFilter()) == 0
    assert await scene.store.repair.replay(DeadFilter(resolved=True)) == 1
    assert await scene.state(message) == DeliveryState.PENDING


async def test_many_dead_letters_are_replayed_oldest_first_in_batches(scene: Scene) -> None:
    await scene.endpoint()
    messages = []
    for _ in range(5):
        messages += await scene.send()
        await scene.record(*(factory.dead(job) for job in await scene.claim_all()))
    assert await scene.store.repair.replay(DeadFilter(), limit=2) == 2
    assert [await scene.state(message) for message in messages[:3]] == [
        DeliveryState.PENDING,
        DeliveryState.PENDING,
        DeliveryState.DEAD,
    ]
    assert [await scene.store.repair.replay(DeadFilter(), limit=2) for _ in range(3)] == [2, 1, 0]
    assert len(await scene.claim_all()) == 5


async def test_a_replay_uses_its_filter(scene: Scene) -> None:
    left, right = await scene.endpoint(), await scene.endpoint()
    await scene.send(3)
    await scene.record(*(factory.dead(job) for job in await scene.claim_all()))
    assert await scene.store.repair.replay(DeadFilter(endpoint_no=left.no)) == 3
    assert {job.endpoint_no for job in await scene.claim_all()} == {left.no}
    assert (await scene.store.repair.dead_stats(DeadFilter(endpoint_no=right.no))).dead == 3


async def test_dead_letters_of_deleted_endpoints_are_not_replayed(scene: Scene) -> None:
    gone = await scene.endpoint(event_types=("a",))
    await scene.endpoint(event_types=("b",))
    await scene.send(2, event_type="a")
    await scene.send(1, event_type="b")
    await scene.record(*(factory.dead(job) for job in await scene.claim_all()))
    await scene.store.catalogue.delete_endpoint(gone.no)
    assert [await scene.store.repair.replay(DeadFilter(), limit=2) for _ in range(2)] == [1, 0]
    assert (await scene.store.repair.dead_stats(DeadFilter())).dead == 2


async def test_dead_letters_of_disabled_endpoints_are_not_replayed(scene: Scene) -> None:
    """Nothing would be sent to a disabled endpoint, but the new time budget would run."""
    disabled = await scene.endpoint(event_types=("a",))
    await scene.endpoint(event_types=("b",))
    await scene.send(2, event_type="a")
    await scene.send(1, event_type="b")
    await scene.record(*(factory.dead(job) for job in await scene.claim_all()))
    await scene.store.catalogue.set_endpoint_status(disabled.no, EndpointStatus.DISABLED, "left us")
    assert [await scene.store.repair.replay(DeadFilter(), limit=2) for _ in range(2)] == [1, 0]
    assert (await scene.store.repair.dead_stats(DeadFilter())).dead == 2
    await scene.store.catalogue.set_endpoint_status(disabled.no, EndpointStatus.ACTIVE, "back")
    assert await scene.store.repair.replay(DeadFilter()) == 2
    assert len(await scene.claim_all()) == 3


async def test_concurrent_replays_replay_each_dead_letter_once(scene: Scene, second: Store) -> None:
    await scene.endpoint()
    await scene.send(20)
    await scene.record(*(factory.dead(job) for job in await scene.claim_all()))
    counts = await asyncio.gather(
        *(handle.repair.replay(DeadFilter(), limit=8) for handle in (scene.store, second) * 3)
    )
    assert sum(counts) + await scene.store.repair.replay(DeadFilter()) == 20
    jobs = await scene.claim_all()
    assert len({job.delivery_id for job in jobs}) == len(jobs) == 20


async def test_a_replay_into_a_paused_lane_waits(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send()
    await scene.record(*(factory.dead(job) for job in await scene.claim_all()))
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.PAUSED, "maintenance")
    assert await scene.store.repair.replay(DeadFilter()) == 1
    assert await scene.claim_all() == []
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.ACTIVE, "back")
    assert len(await scene.claim_all()) == 1


# ── missed messages ──


async def test_deliveries_of_missed_messages_are_created_once(scene: Scene) -> None:
    endpoint = await scene.endpoint(event_types=("a",))
    had = await scene.send(2, event_type="a")
    since = await scene.store.now() - timedelta(hours=1)
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.DISABLED, "left us")
    missed = await scene.send(3, event_type="a")
    await scene.send(2, event_type="b")
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.ACTIVE, "back")
    until = await scene.store.now() + timedelta(seconds=1)
    assert [await scene.replay_missing(endpoint, since, until, step=2) for _ in range(2)] == [3, 0]
    assert sorted(job.message_id for job in await scene.claim_all()) == sorted(had + missed)


async def test_a_message_that_was_delivered_or_died_is_not_missed(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send(3)
    since = await scene.store.now() - timedelta(hours=1)
    jobs = await scene.claim_all()
    await scene.record(factory.delivered(jobs[0]), factory.dead(jobs[1]), factory.retry(jobs[2]))
    until = await scene.store.now() + timedelta(seconds=1)
    assert await scene.replay_missing(endpoint, since, until) == 0


async def test_only_missed_messages_of_the_time_window_are_sent(scene: Scene) -> None:
    await scene.send()
    await scene.age(100)
    (inside,) = await scene.send()
    await scene.age(100)
    await scene.send()
    endpoint = await scene.endpoint()
    now = await scene.store.now()
    since, until = now - timedelta(seconds=150), now - timedelta(seconds=50)
    assert await scene.replay_missing(endpoint, since, until) == 1
    assert [job.message_id for job in await scene.claim_all()] == [inside]


async def test_a_missed_message_is_not_sent_before_its_time(scene: Scene) -> None:
    now = await scene.store.now()
    later = now + timedelta(hours=5)
    (message,) = await scene.send(deliver_at=later)
    endpoint = await scene.endpoint()
    assert await scene.replay_missing(endpoint, now - timedelta(hours=1), now + timedelta(minutes=1)) == 1
    delivery = await scene.delivery(message)
    assert delivery.due_at == later
    assert delivery.expires_at is not None
    assert delivery.expires_at > later
    assert await scene.claim_all() == []


async def test_the_current_filter_of_the_endpoint_decides_what_was_missed(scene: Scene) -> None:
    endpoint = await scene.endpoint(event_types=("a",), channels=None)
    since = await scene.store.now() - timedelta(hours=1)
    (wanted,) = await scene.send(event_type="b", channels=("eu",))
    await scene.send(event_type="b", channels=("us",))
    await scene.send(event_type="b")
    await scene.store.catalogue.change_endpoint(endpoint.no, EndpointChange(event_types=("b",), channels=("eu",)))
    until = await scene.store.now() + timedelta(seconds=1)
    assert await scene.replay_missing(endpoint, since, until) == 1
    assert [job.message_id for job in await scene.claim_all()] == [wanted]


async def test_messages_of_another_application_are_not_missed(scene: Scene) -> None:
    sibling = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())
    await scene.ingest([factory.new_message(sibling.no)])
    endpoint = await scene.endpoint()
    now = await scene.store.now()
    assert await scene.replay_missing(endpoint, now - timedelta(hours=1), now + timedelta(seconds=1)) == 0


# ── resend ──


@pytest.mark.parametrize("before", ["nothing", "open", "delivered", "dead"])
async def test_a_message_can_be_resent_in_any_state(scene: Scene, before: str) -> None:
    endpoint = await scene.endpoint(event_types=None if before != "nothing" else ("never",))
    (message,) = await scene.send()
    if before in ("delivered", "dead"):
        (job,) = await scene.claim_all()
        await scene.record(
            factory.delivered(job) if before == "delivered" else factory.dead(job, Reason.PERMANENT_FAILURE)
        )
    delivery_id = await scene.store.repair.resend(endpoint.no, message)
    assert delivery_id is not None
    jobs = {job.delivery_id: job for job in await scene.claim_all()}
    manual = jobs[delivery_id]
    assert (manual.message_id, manual.endpoint_no, manual.trigger) == (message, endpoint.no, 1)
    await scene.record(factory.delivered(manual))
    assert delivery_id in {
        d.id for d in await scene.store.history.deliveries(message) if d.state == DeliveryState.DELIVERED
    }
    assert (await scene.store.history.attempts(message))[-1].trigger == 1


async def test_an_unknown_message_or_one_without_a_payload_cannot_be_resent(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    assert await scene.store.repair.resend(endpoint.no, "msg_unknown") is None
    (message,) = await scene.send()
    await scene.claim_all()
    await scene.raw.execute("UPDATE message SET payload = NULL")
    assert await scene.store.repair.resend(endpoint.no, message) is None


async def test_a_message_of_another_application_cannot_be_resent(scene: Scene) -> None:
    sibling = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())
    endpoint = await scene.endpoint()
    (answer,) = await scene.ingest([factory.new_message(sibling.no)])
    assert await scene.store.repair.resend(endpoint.no, answer.message_id) is None
    assert await scene.claim_all() == []
