"""Record: the outcome of an attempt is written once, by the worker that still holds the claim."""

from __future__ import annotations

import asyncio
import math
from datetime import timedelta

import pytest
from msgspec.structs import replace

from hookline.model.attempts import Sent
from hookline.model.states import DeliveryState, ErrorKind, Health, Reason
from hookline.store import Store
from tests.support import factory
from tests.support.scene import Scene


async def test_recording_no_outcomes_does_nothing(store: Store) -> None:
    report = await store.pipeline.record([])
    assert (report.recorded, report.stale, report.events, report.refused) == (0, 0, (), ())


async def test_a_delivered_delivery_is_done(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    (message,) = await scene.send(event_type="order.lost")
    (job,) = await scene.claim()
    report = await scene.record(factory.delivered(job))
    assert (report.recorded, report.stale, report.refused) == (1, 0, ())
    done = await scene.delivery(message)
    assert (done.id, done.state) == (job.delivery_id, DeliveryState.DELIVERED)
    assert (done.endpoint_no, done.endpoint_id, done.event_type) == (endpoint.no, endpoint.id, "order.lost")
    assert (done.attempts, done.sent, done.accepted_at) == (1, 1, job.accepted_at)
    assert done.finished_at is not None
    assert done.finished_at >= job.claimed_at
    assert await scene.raw.count("delivery") == 0


async def test_every_field_of_an_attempt_is_stored(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    (message,) = await scene.send(event_type="order.lost")
    (job,) = await scene.claim()
    result = factory.delivered(job)
    await scene.record(result)
    (attempt,) = await scene.store.history.attempts(message)
    sent = result.sent
    assert (attempt.id, attempt.delivery_id, attempt.message_id) == (result.attempt_id, job.delivery_id, message)
    assert (attempt.endpoint_no, attempt.endpoint_id, attempt.event_type) == (endpoint.no, endpoint.id, "order.lost")
    assert (attempt.number, attempt.trigger, attempt.outcome, attempt.probe) == (1, 0, "delivered", False)
    assert (attempt.started_at, attempt.status_code, attempt.error) == (sent.started_at, 200, None)
    assert (attempt.detail, attempt.address) == (sent.detail, sent.address)
    assert (attempt.response_headers, attempt.response_body, attempt.truncated) == (sent.headers, sent.body, True)
    assert attempt.timing == sent.timing


async def test_a_network_failure_is_stored_with_its_kind(scene: Scene) -> None:
    await scene.endpoint()
    (message,) = await scene.send()
    (job,) = await scene.claim()
    await scene.record(replace(factory.retry(job), sent=factory.failed(ErrorKind.TLS)))
    (attempt,) = await scene.store.history.attempts(message)
    assert (attempt.error, attempt.status_code, attempt.outcome) == (ErrorKind.TLS, None, "retry")
    assert (attempt.response_body, attempt.response_headers, attempt.truncated) == (b"", {}, False)


async def test_a_retry_is_scheduled_and_uses_an_attempt(scene: Scene) -> None:
    await scene.endpoint()
    (message,) = await scene.send()
    (job,) = await scene.claim()
    await scene.record(factory.retry(job, after=45.5))
    delivery = await scene.delivery(message)
    assert (delivery.state, delivery.attempts, delivery.sent) == (DeliveryState.SCHEDULED, 1, 1)
    assert delivery.due_at == job.claimed_at + timedelta(seconds=45.5)
    assert delivery.expires_at == job.expires_at
    assert await scene.claim() == []
    await scene.age(46)
    (again,) = await scene.claim()
    assert (again.attempts, again.sent, again.last_delay) == (1, 1, 45.5)


async def test_a_retry_that_uses_no_attempt_is_still_counted_as_sent(scene: Scene) -> None:
    await scene.endpoint()
    (message,) = await scene.send()
    (job,) = await scene.claim()
    await scene.record(factory.retry(job, after=0, spends=False, health=Health.NONE))
    delivery = await scene.delivery(message)
    assert (delivery.attempts, delivery.sent) == (0, 1)
    (again,) = await scene.claim()
    assert (again.attempts, again.sent) == (0, 1)


async def test_all_attempts_of_a_delivery_are_numbered_in_sequence(scene: Scene) -> None:
    await scene.endpoint()
    (message,) = await scene.send()
    for _ in range(3):
        (job,) = await scene.claim()
        await scene.record(factory.retry(job, after=5, health=Health.NONE))
        await scene.age(6)
    (job,) = await scene.claim()
    await scene.record(factory.delivered(job))
    attempts = await scene.store.history.attempts(message)
    assert [attempt.number for attempt in attempts] == [1, 2, 3, 4]
    assert [attempt.outcome for attempt in attempts] == ["retry", "retry", "retry", "delivered"]


async def test_a_dead_delivery_becomes_a_dead_letter(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    (message,) = await scene.send(event_type="order.lost")
    (job,) = await scene.claim()
    result = factory.dead(job, Reason.PERMANENT_FAILURE)
    await scene.record(result)
    letter = await scene.store.repair.dead_letter(job.delivery_id)
    assert letter is not None
    assert (letter.reason, letter.detail) == (Reason.PERMANENT_FAILURE, result.judgement.verdict.detail)  # type: ignore[union-attr]
    assert (letter.app_no, letter.app_id) == (scene.app.no, scene.app.id)
    assert (letter.endpoint_no, letter.endpoint_id, letter.endpoint_url) == (endpoint.no, endpoint.id, endpoint.url)
    assert (letter.message_id, letter.event_type) == (message, "order.lost")
    assert (letter.attempts, letter.sent, letter.last_status) == (1, 1, 422)
    assert letter.accepted_at == job.accepted_at
    assert letter.died_at >= job.claimed_at
    assert (letter.resolved_at, letter.note) == (None, None)
    delivery = await scene.delivery(message)
    assert (delivery.state, delivery.reason, delivery.detail) == (DeliveryState.DEAD, letter.reason, letter.detail)
    assert await scene.raw.count("delivery") == 0


async def test_a_batch_may_hold_every_kind_of_outcome(scene: Scene) -> None:
    await scene.endpoint()
    await scene.endpoint()
    messages = await scene.send(4)
    jobs = await scene.claim()
    makers = [factory.delivered, factory.retry, factory.dead, lambda job: factory.retry(job, health=Health.NONE)]
    chosen = dict(zip(messages, makers, strict=True))
    report = await scene.record(*(chosen[job.message_id](job) for job in jobs))
    assert report.recorded == 8
    states = [{delivery.state for delivery in await scene.store.history.deliveries(message)} for message in messages]
    assert states == [
        {DeliveryState.DELIVERED},
        {DeliveryState.SCHEDULED},
        {DeliveryState.DEAD},
        {DeliveryState.SCHEDULED},
    ]
    assert await scene.raw.count("attempt") == 8


async def test_retries_of_one_batch_leave_one_token_at_the_earliest(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send(4)
    jobs = await scene.claim()
    assert await scene.tokens(endpoint) == []
    waits = [70.0, 20.0, 90.0, 40.0]
    await scene.record(
        *(factory.retry(job, after=wait, health=Health.NONE) for job, wait in zip(jobs, waits, strict=True))
    )
    (token,) = await scene.tokens(endpoint)
    assert token["at"] == token["floor"] == jobs[0].claimed_at + timedelta(seconds=20)


# ── the fence ──


async def test_an_outcome_is_written_once(scene: Scene) -> None:
    await scene.endpoint()
    (message,) = await scene.send()
    (job,) = await scene.claim()
    await scene.record(factory.delivered(job))
    report = await scene.record(factory.dead(job))
    assert (report.recorded, report.stale) == (0, 1)
    assert await scene.state(message) == DeliveryState.DELIVERED
    assert len(await scene.store.history.attempts(message)) == 1
    assert await scene.raw.count("dead_letter") == 0


async def test_the_late_outcome_of_a_stalled_worker_changes_nothing(scene: Scene, second: Store) -> None:
    """Another worker got the lease meanwhile, so the late outcome of the stalled worker changes nothing."""
    endpoint = await scene.endpoint(concurrency=5)
    (message,) = await scene.send()
    (stalled,) = await scene.claim()
    await scene.age(61)
    await second.upkeep.sweep_leases()
    (taken,) = await scene.claim(by=second)
    lane = await scene.lane(endpoint)
    for late in (factory.delivered(stalled), factory.retry(stalled), factory.dead(stalled, Reason.ENDPOINT_GONE)):
        report = await scene.record(late)
        assert (report.recorded, report.stale, report.events) == (0, 1, ())
    assert await scene.state(message) == DeliveryState.DELIVERING
    assert await scene.lane(endpoint) == lane
    assert await scene.store.history.attempts(message) == []
    assert (await second.pipeline.record([factory.delivered(taken)])).recorded == 1


async def test_an_outcome_after_the_sweep_of_its_lease_changes_nothing(scene: Scene) -> None:
    await scene.endpoint()
    (message,) = await scene.send()
    (job,) = await scene.claim()
    await scene.age(61)
    await scene.store.upkeep.sweep_leases()
    assert (await scene.record(factory.delivered(job))).stale == 1
    assert await scene.state(message) == DeliveryState.PENDING


async def test_an_outcome_after_the_lease_but_before_its_sweep_is_recorded(scene: Scene) -> None:
    """The claim number is the fence, not the clock. No other worker has the delivery."""
    await scene.endpoint()
    (message,) = await scene.send()
    (job,) = await scene.claim()
    await scene.age(61)
    assert (await scene.record(factory.delivered(job))).recorded == 1
    assert await scene.state(message) == DeliveryState.DELIVERED


async def test_a_stale_outcome_does_not_prevent_the_current_one_of_its_delivery(scene: Scene) -> None:
    """The worker lost a lease, leased the same delivery again, and records both outcomes at once."""
    await scene.endpoint()
    [message_id] = await scene.send()
    [lost] = await scene.claim()
    await scene.age(3600)
    await scene.store.upkeep.sweep_leases()
    [held] = await scene.claim()
    assert held.claim != lost.claim
    late = factory.retry(lost)
    report = await scene.record(late, factory.delivered(held))
    assert (report.recorded, report.stale, report.lost) == (1, 1, (late.attempt_id,))
    assert await scene.state(message_id) == DeliveryState.DELIVERED


async def test_a_stale_outcome_does_not_affect_the_others_of_its_batch(scene: Scene) -> None:
    await scene.endpoint()
    await scene.send(3)
    jobs = await scene.claim()
    forged = factory.with_claim(jobs[1], jobs[1].claim + 12_345)
    report = await scene.record(factory.delivered(jobs[0]), factory.delivered(forged), factory.delivered(jobs[2]))
    assert (report.recorded, report.stale) == (2, 1)
    assert await scene.raw.count("delivery") == 1
    assert await scene.raw.count("attempt") == 2


async def test_jobs_of_several_claims_go_into_one_batch(scene: Scene) -> None:
    await scene.endpoint()
    await scene.send(4)
    jobs = [*await scene.claim(2), *await scene.claim(2)]
    assert (await scene.record(*factory.all_delivered(jobs))).recorded == 4


# ── bad data ──

HOSTILE: dict[str, Sent] = {
    "nul in the body": factory.answered(500, body=b"\x00" * 10),
    "nul in the detail": factory.answered(500, detail="before\x00after"),
    "nul in a header": factory.answered(500, headers={"x\x00": "\x00"}),
    "lone surrogate in the detail": factory.answered(500, detail="\ud800"),
    "lone surrogate in a header": factory.answered(500, headers={"x-note": "\udcff"}),
    "nul in the address": factory.answered(500, address="192.0.2.1\x00"),
    "not UTF-8 in the body": factory.answered(500, body=b"\xff\xfe\x80"),
}


@pytest.mark.parametrize("hostile", HOSTILE)
async def test_whatever_an_endpoint_sends_every_outcome_is_recorded(scene: Scene, hostile: str) -> None:
    await scene.endpoint()
    messages = await scene.send(5)
    jobs = {job.message_id: job for job in await scene.claim()}
    results = [factory.delivered(jobs[message]) for message in messages]
    results[2] = replace(results[2], sent=HOSTILE[hostile])
    report = await scene.record(*results)
    assert (report.recorded, report.stale, report.refused) == (5, 0, ())
    assert [await scene.state(message) for message in messages] == [DeliveryState.DELIVERED] * 5
    assert [len(await scene.store.history.attempts(message)) for message in messages] == [1] * 5


REFUSED = 1 << 63  # as a status code, too large for either database


async def test_a_delay_that_is_too_large_is_still_a_retry(scene: Scene) -> None:
    """PostgreSQL stores the delay in four bytes. It would refuse the original value each time."""
    await scene.endpoint()
    (message,) = await scene.send()
    (job,) = await scene.claim()
    result = factory.retry(job, after=20)
    verdict = replace(result.judgement.verdict, delay=1e300)
    report = await scene.record(replace(result, judgement=replace(result.judgement, verdict=verdict)))
    assert (report.recorded, report.refused) == (1, ())
    delivery = await scene.delivery(message)
    assert (delivery.state, delivery.attempts) == (DeliveryState.SCHEDULED, 1)
    assert delivery.due_at == job.claimed_at + timedelta(seconds=20)


async def test_a_delay_that_is_nan_is_still_a_retry(scene: Scene) -> None:
    await scene.endpoint()
    (message,) = await scene.send()
    (job,) = await scene.claim()
    result = factory.retry(job, after=20)
    verdict = replace(result.judgement.verdict, delay=math.nan)
    report = await scene.record(replace(result, judgement=replace(result.judgement, verdict=verdict)))
    assert (report.recorded, report.refused) == (1, ())
    assert await scene.state(message) == DeliveryState.SCHEDULED


async def test_an_outcome_that_the_database_always_refuses_ends_its_delivery(scene: Scene) -> None:
    """A delivery that stayed leased would be sent again after every lease, for ever, without counting an attempt."""
    await scene.endpoint()
    messages = await scene.send(8)
    jobs = {job.message_id: job for job in await scene.claim()}
    results = [factory.delivered(jobs[message]) for message in messages]
    results[5] = replace(results[5], sent=replace(results[5].sent, status=REFUSED))
    refused = results[5].job
    report = await scene.record(*results)
    assert (report.recorded, report.stale, report.refused) == (7, 0, (refused.delivery_id,))
    letter = await scene.store.repair.dead_letter(refused.delivery_id)
    assert letter is not None
    assert (letter.reason, letter.attempts, letter.sent) == (Reason.UNSENDABLE, 1, 1)
    assert (letter.message_id, letter.last_status, bool(letter.detail)) == (messages[5], None, True)
    assert await scene.raw.count("delivery") == 0
    (attempt,) = await scene.store.history.attempts(messages[5])
    assert (attempt.outcome, attempt.number, attempt.status_code) == ("dead", 1, None)


async def test_a_refused_outcome_with_a_stale_claim_does_not_end_the_delivery(scene: Scene, second: Store) -> None:
    await scene.endpoint()
    (message,) = await scene.send()
    (stalled,) = await scene.claim()
    await scene.age(61)
    await second.upkeep.sweep_leases()
    (taken,) = await scene.claim(by=second)
    late = factory.delivered(stalled)
    report = await scene.record(replace(late, sent=replace(late.sent, status=REFUSED)))
    assert (report.recorded, report.stale, report.refused) == (0, 1, ())
    assert await scene.state(message) == DeliveryState.DELIVERING
    assert (await second.pipeline.record([factory.delivered(taken)])).recorded == 1


async def test_a_refused_outcome_frees_its_slot_and_wakes_the_requested_lanes(scene: Scene) -> None:
    endpoint = await scene.endpoint(concurrency=1)
    await scene.send(2)
    (job,) = await scene.claim_all()
    result = factory.delivered(job)
    await scene.store.pipeline.record([replace(result, sent=replace(result.sent, status=REFUSED))], wake=[endpoint.no])
    assert (await scene.lane(endpoint)).in_flight == 0
    assert len(await scene.claim_all()) == 1


async def test_a_delivery_that_cannot_be_ended_does_not_affect_others(scene: Scene) -> None:
    """A dead letter with the delivery's id already exists, which no code of Hookline does. Every write for the delivery
    is refused."""
    await scene.endpoint()
    await scene.send(5)
    jobs = await scene.claim()
    await scene.raw.execute(
        "INSERT INTO dead_letter (id, app_no, endpoint_no, message_seq, message_at, message_id, event_type, attempts, sent,"
        " reason, detail, died_at) SELECT id, app_no, endpoint_no, message_seq, message_at, message_id, event_type, 1, 1,"
        " 'unsendable', 'a copy', due_at FROM delivery WHERE id = $1",
        jobs[3].delivery_id,
    )
    results = factory.all_delivered(jobs)
    results[3] = factory.dead(jobs[3])
    report = await scene.record(*results)
    assert (report.recorded, report.stale, report.refused) == (4, 0, (jobs[3].delivery_id,))
    assert await scene.raw.count("delivery") == 1


# ── concurrent records ──


async def test_recorders_of_the_same_lanes_do_not_deadlock(scene: Scene, second: Store) -> None:
    for _ in range(6):
        await scene.endpoint(concurrency=100)
    await scene.send(40)
    batches = [(handle, await scene.claim(60, by=handle)) for handle in (scene.store, second, scene.store, second)]
    reports = await asyncio.gather(
        *(
            handle.pipeline.record([factory.retry(job, after=60) for job in (jobs if turn % 2 else jobs[::-1])])
            for turn, (handle, jobs) in enumerate(batches)
        )
    )
    assert sum(report.recorded for report in reports) == sum(len(jobs) for _, jobs in batches) == 240
    assert await scene.raw.value("SELECT sum(in_flight) AS n FROM lane") == 0


async def test_a_healthy_unlimited_lane_is_not_written(scene: Scene) -> None:
    await scene.endpoint()
    await scene.send(5)
    version = "xmin::text AS v" if scene.store.engine == "postgres" else "*"
    before = await scene.raw.row(f"SELECT {version} FROM lane")
    await scene.record(*factory.all_delivered(await scene.claim()))
    assert await scene.raw.row(f"SELECT {version} FROM lane") == before


@pytest.mark.parametrize(
    "sign", ["failures = 3", "failing_since = (SELECT created_at FROM endpoint WHERE no = endpoint_no)"]
)
async def test_a_batch_of_successes_resets_the_failures_of_the_lane(scene: Scene, sign: str) -> None:
    """All jobs were claimed while the lane was healthy. Nothing in the batch itself shows that the lane must be
    written."""
    endpoint = await scene.endpoint()
    await scene.send(3)
    jobs = await scene.claim()
    await scene.raw.execute(f"UPDATE lane SET {sign}")
    report = await scene.record(*factory.all_delivered(jobs))
    assert report.recorded == 3
    lane = await scene.lane(endpoint)
    assert (lane.failures, lane.failing_since) == (0, None)
