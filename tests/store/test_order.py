"""Order by key: one delivery at a time, in the order of acceptance. No queued delivery is forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest

from hookline.model.dead import DeadFilter
from hookline.model.deliveries import LeasedDelivery
from hookline.model.endpoints import Endpoint, EndpointChange, OnDeath, Ordering
from hookline.model.policy import PolicyOverride
from hookline.model.states import DeliveryState, EndpointStatus, Reason
from hookline.store import Store
from tests.support import factory
from tests.support.counts import count
from tests.support.scene import Scene

S = DeliveryState
FIFO = Ordering.FIFO


async def send(scene: Scene, *keys: str | None) -> list[str]:
    """Send one message for each key, all in one transaction. Return their ids."""
    messages = [factory.new_message(scene.app.no, ordering_key=key) for key in keys]
    return [answer.message_id for answer in await scene.ingest(messages)]


async def states(scene: Scene, messages: Sequence[str]) -> list[DeliveryState]:
    return [await scene.state(message) for message in messages]


async def deliver_all(scene: Scene) -> list[str]:
    """Claim and deliver until nothing is left. Return the messages in the order in which they were sent."""
    sent: list[str] = []
    while jobs := await scene.claim():
        sent += [job.message_id for job in jobs]
        await scene.record(*factory.all_delivered(jobs))
    return sent


async def only(scene: Scene) -> LeasedDelivery:
    (job,) = await scene.claim_all()
    return job


@pytest.fixture
async def endpoint(scene: Scene) -> Endpoint:
    return await scene.endpoint()


# ── one at a time ──


async def test_deliveries_of_a_key_are_sent_one_at_a_time_in_the_order_of_acceptance(
    scene: Scene, endpoint: Endpoint
) -> None:
    first, second, third = await send(scene, "k", "k", "k")
    assert await states(scene, [first, second, third]) == [S.QUEUED] * 3
    for message in (first, second, third):
        job = await only(scene)
        assert (job.message_id, job.ordering_key) == (message, "k")
        await scene.record(factory.delivered(job))
    assert await scene.claim_all() == []


async def test_other_keys_and_messages_without_a_key_do_not_wait(scene: Scene, endpoint: Endpoint) -> None:
    messages = await send(scene, "a", "a", "b", None, "b", None)
    jobs = await scene.claim_all()
    assert {job.message_id for job in jobs} == {messages[0], messages[2], messages[3], messages[5]}
    await scene.record(*factory.all_delivered(jobs))
    assert {job.message_id for job in await scene.claim_all()} == {messages[1], messages[4]}


async def test_a_failed_delivery_delays_its_own_key_and_no_other(scene: Scene, endpoint: Endpoint) -> None:
    head, behind, other, after_other = await send(scene, "a", "a", "b", "b")
    jobs = {job.message_id: job for job in await scene.claim_all()}
    await scene.record(factory.retry(jobs[head], after=30), factory.delivered(jobs[other]))
    assert (await only(scene)).message_id == after_other
    assert await states(scene, [head, behind]) == [S.SCHEDULED, S.QUEUED]
    await scene.age(31)
    again = await only(scene)
    assert again.message_id == head
    await scene.record(factory.delivered(again))
    assert (await only(scene)).message_id == behind


async def test_the_order_is_that_of_the_database_not_of_the_ids(scene: Scene, endpoint: Endpoint) -> None:
    earlier = factory.new_message(scene.app.no, ordering_key="k")
    later = factory.new_message(scene.app.no, ordering_key="k")
    await scene.ingest([later])
    await scene.ingest([earlier])
    assert await deliver_all(scene) == [later.id, earlier.id]


async def test_keys_of_different_endpoints_are_different_queues(scene: Scene) -> None:
    for _ in range(2):
        await scene.endpoint()
    await send(scene, "k", "k")
    jobs = await scene.claim_all()
    assert len({job.endpoint_no for job in jobs}) == len(jobs) == 2


async def test_keys_are_stored_unchanged(scene: Scene, endpoint: Endpoint) -> None:
    keys = ['"', "\\", ",", "a b", "ä€😀", "\x01\t", "'", "[", "x" * 256, '","']
    messages = await send(scene, *keys, *keys)
    jobs = await scene.claim_all()
    assert {job.message_id: job.ordering_key for job in jobs} == dict(zip(messages, keys, strict=False))
    await scene.record(*factory.all_delivered(jobs))
    assert {job.ordering_key for job in await scene.claim_all()} == set(keys)


async def test_a_fifo_endpoint_is_one_queue(scene: Scene) -> None:
    await scene.endpoint(ordering=FIFO)
    messages = await send(scene, None, "a", "b", None)
    assert await deliver_all(scene) == messages


async def test_an_endpoint_can_ignore_keys(scene: Scene) -> None:
    await scene.endpoint(ordering=Ordering.NONE)
    await send(scene, "a", "a", "a")
    assert len(await scene.claim_all()) == 3


async def test_a_change_of_ordering_applies_to_later_messages(scene: Scene, endpoint: Endpoint) -> None:
    before = await send(scene, "a", "a")
    await scene.store.catalogue.change_endpoint(endpoint.no, EndpointChange(ordering=Ordering.NONE))
    after = await send(scene, "a", "a")
    assert {job.message_id for job in await scene.claim_all()} == {before[0], *after}


async def test_a_message_for_later_delays_its_key(scene: Scene, endpoint: Endpoint) -> None:
    soon = await scene.store.now() + timedelta(seconds=60)
    late = factory.new_message(scene.app.no, ordering_key="k", deliver_at=soon)
    await scene.ingest([late])
    (behind,) = await send(scene, "k")
    assert await scene.claim_all() == []
    await scene.age(61)
    assert await deliver_all(scene) == [late.id, behind]


async def test_released_and_lost_deliveries_stay_first_of_their_key(scene: Scene, endpoint: Endpoint) -> None:
    head, behind = await send(scene, "k", "k")
    await scene.store.pipeline.release([await only(scene)])
    assert (await only(scene)).message_id == head
    await scene.age(100)
    assert (await scene.store.upkeep.sweep_leases()).leases == 1
    again = await only(scene)
    assert again.message_id == head
    await scene.record(factory.delivered(again))
    assert (await only(scene)).message_id == behind


async def test_messages_from_the_outbox_are_ordered_too(scene: Scene, endpoint: Endpoint) -> None:
    for turn in range(3):
        await scene.raw.execute(
            "INSERT INTO outbox (app, event_type, payload, ordering_key, created_at) VALUES ($1, 'order.paid', $2, 'k', $3)",
            scene.app.id,
            b'{"turn":%d}' % turn,
            await scene.store.now(),
        )
    await scene.store.pipeline.relay(100)
    for turn in range(3):
        job = await only(scene)
        assert job.payload == b'{"turn":%d}' % turn
        await scene.record(factory.delivered(job))


# ── rules of the lane ──


async def test_a_probe_of_an_open_circuit_is_the_first_of_its_key(scene: Scene, endpoint: Endpoint) -> None:
    messages = await send(scene, *(f"k{turn}" for turn in range(5) for _ in range(2)))
    jobs = await scene.claim_all()
    await scene.record(*(factory.retry(job, after=0.001) for job in jobs[:-1]))
    await scene.age(1.5)
    await scene.record(factory.retry(jobs[-1], after=0.001))
    probe = await scene.probe(endpoint)
    assert probe.message_id in messages[::2]
    await scene.record(factory.delivered(probe))
    sent: list[str] = []
    for _ in range(40):
        await scene.age(2)
        sent += await deliver_all(scene)
    assert sorted([probe.message_id, *sent]) == sorted(messages)
    for head, behind in zip(messages[::2], messages[1::2], strict=True):
        assert head == probe.message_id or sent.index(head) < sent.index(behind)


async def test_concurrency_and_throttle_apply_to_ordered_deliveries(scene: Scene) -> None:
    await scene.endpoint(concurrency=2)
    messages = await send(scene, "a", "a", "b", "b", "c", "c")
    sent: list[str] = []
    while jobs := await scene.claim_all():
        assert len(jobs) <= 2
        sent += [job.message_id for job in jobs]
        await scene.record(*factory.all_delivered(jobs))
    assert sorted(sent) == sorted(messages)


# ── first deliveries of a key that end ──


async def test_the_next_delivery_is_sent_when_the_first_of_a_key_dies(scene: Scene, endpoint: Endpoint) -> None:
    _, behind = await send(scene, "k", "k")
    await scene.record(factory.dead(await only(scene)))
    assert (await only(scene)).message_id == behind


async def test_a_time_budget_runs_while_a_delivery_is_queued(scene: Scene, endpoint: Endpoint) -> None:
    messages = [
        factory.new_message(scene.app.no, ordering_key="k", policy=PolicyOverride(max_age=age))
        for age in (500.0, 100.0, 900.0)
    ]
    await scene.ingest(messages)
    job = await only(scene)
    await scene.age(150)
    assert (await scene.store.upkeep.sweep_expired()).expired == 1
    assert (await scene.delivery(messages[1].id)).reason == Reason.BUDGET_EXHAUSTED
    await scene.store.pipeline.release([job])
    assert await deliver_all(scene) == [messages[0].id, messages[2].id]


async def test_the_next_delivery_is_sent_when_the_first_of_a_key_expires(scene: Scene, endpoint: Endpoint) -> None:
    short = factory.new_message(scene.app.no, ordering_key="k", policy=PolicyOverride(max_age=100.0))
    await scene.ingest([short])
    (behind,) = await send(scene, "k")
    await scene.record(factory.retry(await only(scene), after=99))
    await scene.age(150)
    assert (await scene.store.upkeep.sweep_expired()).expired == 1
    assert (await only(scene)).message_id == behind


async def test_a_delivery_without_a_payload_does_not_block_its_key(scene: Scene, endpoint: Endpoint) -> None:
    first, second = await send(scene, "k", "k")
    message = await scene.store.history.message_by_id(first)
    assert message is not None
    assert await scene.store.history.expunge_message(message, force=True)
    # the first claim may find only the delivery that it declares dead
    jobs = await scene.claim_all() or await scene.claim_all()
    assert [job.message_id for job in jobs] == [second]
    assert (await scene.delivery(first)).reason == Reason.UNSENDABLE


async def test_queued_deliveries_of_a_deleted_endpoint_die(scene: Scene, endpoint: Endpoint) -> None:
    messages = await send(scene, "k", "k", "k", "j")
    jobs = await scene.claim_all()
    await scene.store.catalogue.delete_endpoint(endpoint.no)
    await scene.store.pipeline.release([job for job in jobs if job.message_id == messages[0]])
    assert (await scene.store.upkeep.sweep_deleted()).deleted == 3
    await scene.record(*(factory.delivered(job) for job in jobs if job.message_id == messages[3]))
    assert await states(scene, messages) == [S.DEAD] * 3 + [S.DELIVERED]
    assert await scene.raw.count("delivery") == 0


async def test_an_endpoint_with_only_queued_deliveries_can_be_deleted(scene: Scene, endpoint: Endpoint) -> None:
    messages = await send(scene, "k", "k")
    await scene.store.catalogue.delete_endpoint(endpoint.no)
    assert (await scene.store.upkeep.sweep_deleted()).deleted == 2
    assert await states(scene, messages) == [S.DEAD] * 2
    assert await scene.raw.count("lane") == 0


async def test_a_paused_endpoint_holds_its_queues_and_their_time_budgets(scene: Scene, endpoint: Endpoint) -> None:
    policy = PolicyOverride(max_age=1000.0)
    messages = [factory.new_message(scene.app.no, ordering_key="k", policy=policy) for _ in range(3)]
    await scene.ingest(messages)
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.PAUSED, "a pause")
    assert await scene.claim_all() == []
    await scene.age(2000)
    assert (await scene.store.upkeep.sweep_expired()).expired == 0
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.ACTIVE, "on")
    await scene.age(900)
    assert (await scene.store.upkeep.sweep_expired()).expired == 0
    assert await deliver_all(scene) == [message.id for message in messages]


async def test_an_enabled_endpoint_continues_its_queues_in_order(scene: Scene, endpoint: Endpoint) -> None:
    _, behind = await send(scene, "k", "k")
    job = await only(scene)
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.DISABLED, "off")
    await scene.record(factory.delivered(job))
    assert await scene.claim_all() == []
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.ACTIVE, "on")
    assert await deliver_all(scene) == [behind]


async def test_an_endpoint_that_answers_gone_keeps_its_queue(scene: Scene, endpoint: Endpoint) -> None:
    _, behind = await send(scene, "k", "k")
    await scene.record(factory.dead(await only(scene), Reason.ENDPOINT_GONE))
    assert await scene.claim_all() == []
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.ACTIVE, "back")
    assert await deliver_all(scene) == [behind]


# ── a dead delivery and those behind it ──


@pytest.fixture
async def blocking(scene: Scene) -> Endpoint:
    return await scene.endpoint(on_death=OnDeath.BLOCK)


async def test_a_dead_delivery_can_block_its_key_and_no_other(scene: Scene, blocking: Endpoint) -> None:
    messages = await send(scene, "k", "k", "j", "j")
    jobs = {job.message_id: job for job in await scene.claim_all()}
    await scene.record(factory.dead(jobs[messages[0]]), factory.delivered(jobs[messages[2]]))
    assert await deliver_all(scene) == [messages[3]]
    assert await scene.state(messages[1]) == S.QUEUED


async def test_resolving_a_dead_letter_unblocks_its_key(scene: Scene, blocking: Endpoint) -> None:
    _, second, third = await send(scene, "k", "k", "k")
    await scene.record(factory.dead(await only(scene)))
    assert await scene.claim_all() == []
    assert await scene.store.repair.resolve(DeadFilter(), "never mind") == 1
    assert await deliver_all(scene) == [second, third]


async def test_replaying_a_dead_letter_keeps_the_order(scene: Scene, blocking: Endpoint) -> None:
    messages = await send(scene, "k", "k", "k")
    await scene.record(factory.dead(await only(scene)))
    assert await scene.store.repair.replay(DeadFilter()) == 1
    assert await scene.state(messages[0]) == S.QUEUED
    assert await deliver_all(scene) == messages


async def test_changing_the_endpoint_to_not_block_unblocks_its_keys(scene: Scene, blocking: Endpoint) -> None:
    _, behind = await send(scene, "k", "k")
    await scene.record(factory.dead(await only(scene)))
    assert await scene.claim_all() == []
    await scene.store.catalogue.change_endpoint(blocking.no, EndpointChange(on_death=OnDeath.SKIP))
    assert await deliver_all(scene) == [behind]


async def test_a_dead_letter_that_retention_deletes_no_longer_blocks(scene: Scene, blocking: Endpoint) -> None:
    policy = PolicyOverride(max_age=90 * 86_400.0)
    messages = [factory.new_message(scene.app.no, ordering_key="k", policy=policy) for _ in range(2)]
    await scene.ingest(messages)
    await scene.record(factory.dead(await only(scene)))
    await scene.age(31 * 86_400)
    assert await scene.claim_all() == []
    assert (await scene.store.upkeep.retire()).dead_expired == 1
    assert await deliver_all(scene) == [messages[1].id]


async def test_a_delivery_that_expires_in_the_queue_blocks_those_behind_it(scene: Scene, blocking: Endpoint) -> None:
    messages = [
        factory.new_message(scene.app.no, ordering_key="k", policy=PolicyOverride(max_age=age))
        for age in (500.0, 100.0, 900.0)
    ]
    await scene.ingest(messages)
    job = await only(scene)
    await scene.age(150)
    await scene.store.upkeep.sweep_expired()
    await scene.store.pipeline.release([job])
    assert await deliver_all(scene) == [messages[0].id]
    assert await scene.state(messages[2].id) == S.QUEUED


async def test_a_dead_delivery_does_not_block_those_before_it(scene: Scene, blocking: Endpoint) -> None:
    messages = [
        factory.new_message(scene.app.no, ordering_key="k", policy=PolicyOverride(max_age=age))
        for age in (500.0, 100.0, 900.0)
    ]
    await scene.ingest(messages)
    first = await only(scene)
    await scene.age(150)
    await scene.store.upkeep.sweep_expired()
    await scene.record(factory.dead(first))
    assert await scene.store.repair.replay(DeadFilter(ids=(first.delivery_id,))) == 1
    assert await deliver_all(scene) == [messages[0].id]
    assert await scene.state(messages[2].id) == S.QUEUED


# ── replay and resend ──


async def test_a_replayed_delivery_is_sent_before_those_not_sent_yet(scene: Scene, endpoint: Endpoint) -> None:
    messages = await send(scene, "k", "k", "k", "k")
    await scene.record(factory.dead(await only(scene)))
    job = await only(scene)
    assert await scene.store.repair.replay(DeadFilter()) == 1
    assert await scene.claim_all() == []  # the active delivery ends first, because only one is active at a time
    await scene.record(factory.delivered(job))
    assert await deliver_all(scene) == [messages[0], messages[2], messages[3]]


async def test_a_resent_delivery_waits_for_the_active_one(scene: Scene, endpoint: Endpoint) -> None:
    messages = await send(scene, "k", "k", "k")
    await scene.record(factory.delivered(await only(scene)))
    job = await only(scene)
    assert await scene.store.repair.resend(endpoint.no, messages[0]) is not None
    assert await scene.claim_all() == []
    await scene.record(factory.delivered(job))
    assert await deliver_all(scene) == [messages[0], messages[2]]


async def test_missed_messages_are_sent_in_order(scene: Scene, endpoint: Endpoint) -> None:
    begin = await scene.store.now() - timedelta(minutes=1)
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.DISABLED, "off")
    missed = await send(scene, "k", "k")
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.ACTIVE, "on")
    later = await send(scene, "k")
    assert await scene.replay_missing(endpoint, begin, await scene.store.now() + timedelta(minutes=1)) == 2
    assert await deliver_all(scene) == [*missed, *later]


# ── races ──


async def test_concurrent_workers_promote_one_delivery_of_a_key(
    scene: Scene, second: Store, endpoint: Endpoint
) -> None:
    messages = await send(scene, *["k"] * 12)
    sent: list[str] = []
    while len(sent) < len(messages):
        found = await asyncio.gather(*(scene.claim(by=store) for store in (scene.store, second) * 3))
        jobs = [job for batch in found for job in batch]
        assert len(jobs) <= 1
        sent += [job.message_id for job in jobs]
        if jobs:
            reports = await asyncio.gather(
                *(store.pipeline.record([factory.delivered(jobs[0])]) for store in (scene.store, second))
            )
            assert sum(report.recorded for report in reports) == 1
    assert sent == messages


async def test_a_message_accepted_while_the_last_delivery_ends_is_not_forgotten(
    scene: Scene, second: Store, endpoint: Endpoint
) -> None:
    """Ingest, record and claim run concurrently, many times. The last of them must see the others."""
    sent: list[str] = []
    accepted = await send(scene, "k")
    for _ in range(60):
        jobs = await scene.claim_all()
        sent += [job.message_id for job in jobs]
        fresh = factory.new_message(scene.app.no, ordering_key="k")
        *_, early = await asyncio.gather(
            second.pipeline.ingest([fresh]),
            scene.store.pipeline.record(factory.all_delivered(jobs)),
            scene.claim(by=second),
        )
        accepted.append(fresh.id)
        sent += [job.message_id for job in early]
        await scene.record(*factory.all_delivered(early))
        assert await scene.store.upkeep.find_stuck_lanes(repair=False) == []
    sent += await deliver_all(scene)
    assert sent == accepted


# ── the audit ──


async def test_the_audit_finds_a_queue_without_a_token(scene: Scene, endpoint: Endpoint) -> None:
    head, behind = await send(scene, "k", "k")
    await only(scene)
    await scene.raw.execute("DELETE FROM delivery WHERE message_id = $1", head)  # no code of Hookline does this
    assert await scene.store.upkeep.find_stuck_lanes(repair=False) == [endpoint.no]
    assert await scene.claim_all() == []
    assert await scene.store.upkeep.find_stuck_lanes(repair=True) == [endpoint.no]
    assert await scene.store.upkeep.find_stuck_lanes(repair=False) == []
    assert await deliver_all(scene) == [behind]


async def test_the_database_refuses_a_second_active_delivery_of_a_key(scene: Scene, endpoint: Endpoint) -> None:
    await send(scene, "k", "k")
    await only(scene)
    with pytest.raises(Exception, match=r"(?i)unique"):
        await scene.raw.execute("UPDATE delivery SET state = 0 WHERE state = 6")


async def test_queued_deliveries_are_counted(scene: Scene, endpoint: Endpoint) -> None:
    await send(scene, "k", "k", "k", None)
    await scene.claim_all()
    counts = await count(scene.store)
    assert (counts.queued, counts.delivering, counts.pending) == (2, 2, 0)
    view = await scene.store.history.lane_view(endpoint.no)
    assert view is not None
    assert view.depth == 2
