"""Claim and release: due deliveries, each leased by one worker, and lanes in turn."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from hookline.model.deliveries import SlotBudgets
from hookline.model.states import DeliveryState
from hookline.store import Store
from tests.support import factory
from tests.support.scene import Scene

NOBODY = 987_654_321


async def test_a_claim_without_due_deliveries_is_empty(store: Store) -> None:
    batch = await store.pipeline.claim(10, SlotBudgets(lane_limit=5))
    assert (batch.jobs, batch.next_at) == ([], None)


@pytest.mark.store_options(lease=77.0)
async def test_a_job_has_all_that_is_needed_to_send_it(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    (answer,) = await scene.ingest([factory.new_message(scene.app.no, event_type="order.lost", payload=b'{"a": 1 }')])
    batch = await scene.store.pipeline.claim(5, SlotBudgets(lane_limit=5))
    (job,) = batch.jobs
    delivery = await scene.delivery(answer.message_id)
    assert (job.delivery_id, job.message_id, job.app_no) == (delivery.id, answer.message_id, scene.app.no)
    assert (job.endpoint_no, job.revision, job.event_type) == (endpoint.no, endpoint.revision, "order.lost")
    assert job.payload == b'{"a": 1 }'
    assert (job.attempts, job.sent, job.trigger, job.last_delay) == (0, 0, 0, 0.0)
    assert (job.accepted_at, job.expires_at) == (delivery.accepted_at, delivery.expires_at)
    assert job.due_at == delivery.accepted_at
    assert job.lease_until - job.claimed_at == timedelta(seconds=77)
    assert job.claimed_at == batch.now
    assert (job.counted, job.probe, job.epoch) == (False, False, 0)
    assert delivery.state == DeliveryState.DELIVERING


async def test_a_claim_leases_no_more_than_it_wants(scene: Scene) -> None:
    await scene.endpoint()
    await scene.send(7)
    assert [len(await scene.claim(3)) for _ in range(4)] == [3, 3, 1, 0]


async def test_a_claim_that_wants_nothing_takes_nothing(scene: Scene) -> None:
    await scene.endpoint()
    await scene.send(2)
    assert await scene.claim(0) == []
    assert len(await scene.claim(5)) == 2


async def test_the_oldest_delivery_of_a_lane_is_claimed_first(scene: Scene) -> None:
    await scene.endpoint()
    sent = [(await scene.send())[0] for _ in range(6)]
    taken = [job.message_id for _ in range(3) for job in await scene.claim(2)]
    assert taken == sent


async def test_a_delivery_that_is_not_due_is_not_claimed(scene: Scene) -> None:
    await scene.endpoint()
    later = await scene.store.now() + timedelta(seconds=300)
    (message,) = await scene.send(deliver_at=later)
    batch = await scene.store.pipeline.claim(5, SlotBudgets(lane_limit=5))
    assert (batch.jobs, batch.next_at) == ([], later)
    await scene.age(301)
    assert [job.message_id for job in await scene.claim()] == [message]


async def test_the_next_due_time_is_the_earliest_of_all_lanes(scene: Scene) -> None:
    await scene.endpoint(event_types=("a",))
    await scene.endpoint(event_types=("b",))
    now = await scene.store.now()
    await scene.send(event_type="a", deliver_at=now + timedelta(seconds=500))
    await scene.send(event_type="b", deliver_at=now + timedelta(seconds=400))
    assert (await scene.store.pipeline.claim(5, SlotBudgets(lane_limit=5))).next_at == now + timedelta(seconds=400)


async def test_each_delivery_goes_to_one_worker(scene: Scene, second: Store) -> None:
    for _ in range(3):
        await scene.endpoint()
    await scene.send(40)
    workers = [scene.store, second] * 8
    batches = await asyncio.gather(*(worker.pipeline.claim(10, SlotBudgets(lane_limit=100)) for worker in workers))
    rest = await scene.claim_all(10)
    taken = [job.delivery_id for batch in batches for job in batch.jobs] + [job.delivery_id for job in rest]
    assert len(taken) == len(set(taken)) == 120


async def test_each_claim_has_a_unique_number(scene: Scene, second: Store) -> None:
    await scene.endpoint()
    await scene.send(3)
    jobs = [*await scene.claim(1), *await scene.claim(1, by=second), *await scene.claim(1)]
    assert len({job.claim for job in jobs}) == 3


async def test_lanes_take_turns(scene: Scene) -> None:
    """Ten lanes have a backlog each. One claim serves all of them, not only the first."""
    endpoints = [await scene.endpoint() for _ in range(10)]
    await scene.send(20)
    jobs = await scene.claim(50)
    by_lane = [sum(job.endpoint_no == endpoint.no for job in jobs) for endpoint in endpoints]
    assert sum(by_lane) == 50
    assert min(by_lane) >= 1


async def test_more_lanes_than_one_claim_wants_are_all_served_in_a_few_claims(scene: Scene) -> None:
    endpoints = {(await scene.endpoint()).no for _ in range(12)}
    await scene.send(10)
    served: set[int] = set()
    for _ in range(6):
        served |= {job.endpoint_no for job in await scene.claim(4)}
    assert served == endpoints


async def test_a_fresh_lane_does_not_wait_behind_a_large_backlog(scene: Scene) -> None:
    """A new token at the old due time would put the backlog first in every claim."""
    await scene.endpoint(event_types=("bulk",))
    await scene.send(300, event_type="bulk")
    await scene.age(600)
    for _ in range(5):
        await scene.claim(10)
    await scene.endpoint(event_types=("fresh",))
    (message,) = await scene.send(event_type="fresh")
    taken = [job.message_id for _ in range(2) for job in await scene.claim(10)]
    assert message in taken


async def test_a_lane_with_a_full_share_gets_no_more_and_still_wakes_later(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send(10)
    assert len(await scene.claim(10, share=4)) == 4
    assert await scene.claim(10, held={endpoint.no: 4}, share=4) == []
    assert len(await scene.tokens(endpoint)) == 1
    await scene.age(1)
    assert len(await scene.claim(10, held={endpoint.no: 1}, share=4)) == 3
    await scene.age(1)
    assert len(await scene.claim(10, held={}, share=4)) == 3


async def test_a_lane_with_a_full_share_leaves_the_slots_to_others(scene: Scene) -> None:
    crowded = await scene.endpoint(event_types=("a",))
    other = await scene.endpoint(event_types=("b",))
    await scene.send(30, event_type="a")
    await scene.send(5, event_type="b")
    jobs = await scene.claim(20, held={crowded.no: 8}, share=8)
    assert {job.endpoint_no for job in jobs} == {other.no}
    assert len(jobs) == 5


async def test_a_lane_with_a_full_share_is_reported_as_refused(scene: Scene) -> None:
    full, roomy = await scene.endpoint(event_types=("a",)), await scene.endpoint(event_types=("b",))
    await scene.send(3, event_type="a")
    await scene.send(2, event_type="b")
    batch = await scene.store.pipeline.claim(20, SlotBudgets(lane_limit=8, held_by_lane={full.no: 8, roomy.no: 7}))
    assert ([job.endpoint_no for job in batch.jobs], full.no in batch.refused) == ([roomy.no], True)
    alone = await scene.store.pipeline.claim(20, SlotBudgets(lane_limit=8, held_by_lane={full.no: 8, roomy.no: 8}))
    assert alone.jobs == []


@pytest.mark.parametrize("named", [True, False])
async def test_a_refused_lane_is_claimable_after_the_record_frees_its_slots(scene: Scene, named: bool) -> None:
    """The lane's own token is for a later time, when another worker may have free slots. The record wakes the lane
    earlier for this worker."""
    endpoint, other = await scene.endpoint(event_types=("a",)), await scene.endpoint(event_types=("b",))
    await scene.send(5, event_type="a")
    first = await scene.store.pipeline.claim(10, SlotBudgets(lane_limit=2))
    full = await scene.store.pipeline.claim(10, SlotBudgets(lane_limit=2, held_by_lane={endpoint.no: 2}))
    # an engine that reads twice in one claim refuses the lane already in the first claim
    crowded = {*first.refused, *full.refused}
    assert (len(first.jobs), full.jobs, crowded) == (2, [], {endpoint.no})
    later = await scene.store.now() + timedelta(hours=1)
    # a long delay, so that the token does not become due on a slow machine
    await scene.raw.execute("UPDATE wake SET at = $1", later)
    report = await scene.store.pipeline.record(factory.all_delivered(first.jobs), wake=crowded if named else ())
    assert report.recorded == 2
    assert len(await scene.claim(10, share=2)) == (2 if named else 0)
    assert await scene.tokens(other) == []
    scene.broken_on_purpose = True  # the test moved the token into the future


async def test_all_tokens_of_a_lane_are_consumed_and_one_new_token_remains(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    now = await scene.store.now()
    for minutes in range(20, 0, -1):
        await scene.send(deliver_at=now + timedelta(minutes=minutes))
    await scene.send()
    assert len(await scene.tokens(endpoint)) == 21
    assert len(await scene.claim()) == 1
    (token,) = await scene.tokens(endpoint)
    assert token["at"] == token["floor"] == now + timedelta(minutes=1)


async def test_the_number_of_tokens_stays_small_while_messages_come_and_go(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    later = await scene.store.now() + timedelta(hours=1)
    await scene.send(deliver_at=later)
    most = 0
    for _ in range(25):
        await scene.send(2)
        await scene.record(*factory.all_delivered(await scene.claim(10)))
        most = max(most, len(await scene.tokens(endpoint)))
    assert most <= 2


async def test_the_new_token_of_a_lane_with_remaining_deliveries_has_the_current_time(scene: Scene) -> None:
    """The token of the remaining deliveries goes to the end of the queue. Its floor stays at the oldest delivery."""
    endpoint = await scene.endpoint()
    await scene.send(5)
    await scene.age(900)
    (job, *_) = await scene.claim(2)
    (token,) = await scene.tokens(endpoint)
    oldest = await scene.raw.value("SELECT min(due_at) AS due_at FROM delivery WHERE state < 2")
    assert token["at"] >= job.claimed_at
    assert token["floor"] <= oldest


async def test_tokens_without_a_lane_do_not_stop_the_claim(scene: Scene) -> None:
    await scene.endpoint()
    await scene.send()
    await scene.age(100)
    long_ago = await scene.store.now() - timedelta(seconds=1000)
    await scene.raw.many(
        "INSERT INTO wake (endpoint_no, at, floor) VALUES ($1, $2, $3)",
        [(NOBODY + n, long_ago + timedelta(seconds=n), long_ago) for n in range(500)],
    )
    taken = 0
    for _ in range(20):
        taken += len(await scene.claim(10))
    assert taken == 1
    await scene.store.upkeep.sweep_deleted()
    assert await scene.raw.count("wake", "endpoint_no >= $1", NOBODY) == 0


async def test_concurrent_claims_and_ingest_lose_nothing(scene: Scene, second: Store) -> None:
    """A claim must not compute the next token from rows that another worker has locked. Otherwise the lane would not
    wake."""
    endpoints = 3
    for _ in range(endpoints):
        await scene.endpoint()

    async def produce(handle: Store) -> int:
        for _ in range(10):
            await handle.pipeline.ingest(factory.new_messages(scene.app.no, 3))
        return 30 * endpoints

    async def consume(handle: Store) -> int:
        done = 0
        for _ in range(25):
            batch = await handle.pipeline.claim(7, SlotBudgets(lane_limit=100))
            done += (await handle.pipeline.record(factory.all_delivered(batch.jobs))).recorded if batch.jobs else 0
        return done

    work = [produce(scene.store), produce(second), *(consume(handle) for handle in (scene.store, second, scene.store))]
    made_a, made_b, *done = await asyncio.gather(*work)
    assert await scene.store.upkeep.find_stuck_lanes(repair=False) == []
    while jobs := await scene.claim(50):
        done.append((await scene.record(*factory.all_delivered(jobs))).recorded)
    assert sum(done) == made_a + made_b
    assert await scene.raw.count("delivery") == 0


async def test_a_lane_whose_rows_another_worker_has_locked_still_wakes(scene: Scene, second: Store) -> None:
    await scene.endpoint()
    await scene.send(4)
    held = await scene.claim(2, by=second)
    assert len(await scene.claim(10)) == 2
    await second.pipeline.release(held)
    assert len(await scene.claim(10)) == 2


# ── release ──


async def test_a_released_job_is_pending_again_without_using_an_attempt(scene: Scene) -> None:
    await scene.endpoint()
    (message,) = await scene.send()
    jobs = await scene.claim()
    assert await scene.store.pipeline.release(jobs) == 1
    delivery = await scene.delivery(message)
    assert (delivery.state, delivery.attempts, delivery.sent) == (DeliveryState.PENDING, 0, 0)
    (again,) = await scene.claim()
    assert again.delivery_id == jobs[0].delivery_id
    assert again.claim != jobs[0].claim


async def test_releasing_no_jobs_does_nothing(store: Store) -> None:
    assert await store.pipeline.release([]) == 0


async def test_a_release_after_a_lost_lease_changes_nothing(scene: Scene, second: Store) -> None:
    await scene.endpoint()
    (message,) = await scene.send()
    stale = await scene.claim()
    await scene.age(61)
    assert (await second.upkeep.sweep_leases()).leases == 1
    (fresh,) = await scene.claim(by=second)
    assert await scene.store.pipeline.release(stale) == 0
    assert await scene.state(message) == DeliveryState.DELIVERING
    assert (await second.pipeline.record([factory.delivered(fresh)])).recorded == 1


async def test_a_release_after_the_outcome_changes_nothing(scene: Scene) -> None:
    await scene.endpoint()
    (message,) = await scene.send()
    jobs = await scene.claim()
    await scene.record(factory.delivered(jobs[0]))
    assert await scene.store.pipeline.release(jobs) == 0
    assert await scene.state(message) == DeliveryState.DELIVERED


async def test_releases_of_many_lanes_do_not_deadlock(scene: Scene, second: Store) -> None:
    for _ in range(6):
        await scene.endpoint(concurrency=50)
    await scene.send(8)
    mine, other = await scene.claim(24), await scene.claim(24, by=second)
    released = await asyncio.gather(scene.store.pipeline.release(mine), second.pipeline.release(other[::-1]))
    assert sum(released) == 48
    assert await scene.raw.value("SELECT sum(in_flight) AS n FROM lane") == 0
