"""The worker on a real store, sending over real sockets."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

import pytest
from msgspec.structs import replace

from hookline import clock
from hookline.engine.recorder import Recorder
from hookline.engine.sweep import Sweeper, SweepSettings
from hookline.engine.worker import InFlight
from hookline.errors import StoreUnavailable
from hookline.model.attempts import Sent
from hookline.model.deliveries import LeasedDelivery
from hookline.model.endpoints import Endpoint, EndpointChange
from hookline.model.lanes import LaneEventKind
from hookline.model.policy import CircuitPolicy, PolicyOverride
from hookline.model.states import Circuit, DeliveryState, EndpointStatus, ErrorKind, Reason
from hookline.model.verdicts import Judgement
from hookline.rules.judge import judge
from hookline.rules.lane.window import START
from hookline.rules.request import Target
from hookline.security.vault import Vault, new_key
from hookline.store import Store, StoreOptions, open_store
from hookline.store.outage import Outage
from tests.support import factory
from tests.support.ports import refusing
from tests.support.postgres import private_server
from tests.support.receiver import Behaviour, Received, Receiver
from tests.support.scene import Scene
from tests.support.working import PATIENCE, make_worker, reaches, settled, working


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


async def test_a_message_is_delivered_and_its_attempt_kept(scene: Scene, receiver: Receiver) -> None:
    receiver.behave(Behaviour(status=202, body=b"thank\x00you", headers={"X-Request-Id": "r-17"}))
    endpoint = await scene.endpoint(url=receiver.url + "/hook", headers={"x-tenant": "blue"})
    async with working(scene.store):
        [message_id] = await scene.send(event_type="order.paid")
        [delivery] = await settled(scene.store, message_id)
    assert (delivery.state, delivery.attempts, delivery.sent) == (DeliveryState.DELIVERED, 1, 1)
    [received] = receiver.requests
    assert (received.method, received.path, received.headers["x-tenant"]) == ("POST", "/hook", "blue")
    assert received.headers["content-type"] == "application/json"
    [attempt] = await scene.store.history.attempts(message_id)
    assert (attempt.endpoint_id, attempt.number, attempt.outcome) == (endpoint.id, 1, "delivered")
    assert (attempt.status_code, attempt.response_body) == (202, b"thank\x00you")
    assert attempt.response_headers["x-request-id"] == "r-17"
    assert attempt.address.startswith("127.0.0.1")
    assert attempt.timing.total > 0


async def test_a_failure_is_retried_with_the_same_id_and_bytes(scene: Scene, receiver: Receiver) -> None:
    def fail_twice(received: Received) -> Behaviour:
        return Behaviour(status=503 if received.headers["webhook-attempt"] in "12" else 200)

    receiver.behave(fail_twice)
    await scene.endpoint(url=receiver.url)
    async with working(scene.store):
        [message_id] = await scene.send()
        [delivery] = await settled(scene.store, message_id)
    assert (delivery.state, delivery.attempts) == (DeliveryState.DELIVERED, 3)
    assert {received.headers["webhook-id"] for received in receiver.requests} == {message_id}
    assert len({received.body for received in receiver.requests}) == 1
    assert len({received.headers["webhook-created-at"] for received in receiver.requests}) == 1
    attempts = await scene.store.history.attempts(message_id)
    assert [(a.number, a.status_code, a.outcome) for a in attempts] == [
        (1, 503, "retry"),
        (2, 503, "retry"),
        (3, 200, "delivered"),
    ]


async def test_a_permanent_failure_is_dead_at_once(scene: Scene, receiver: Receiver) -> None:
    receiver.behave(Behaviour(status=404, body=b"no such hook"))
    await scene.endpoint(url=receiver.url)
    async with working(scene.store):
        [message_id] = await scene.send()
        [delivery] = await settled(scene.store, message_id)
    assert (delivery.state, delivery.reason, delivery.sent) == (DeliveryState.DEAD, Reason.PERMANENT_FAILURE, 1)
    assert "404" in (delivery.detail or "")


async def test_an_endpoint_that_is_gone_is_disabled(scene: Scene, receiver: Receiver) -> None:
    receiver.behave(Behaviour(status=410))
    endpoint = await scene.endpoint(url=receiver.url)
    async with working(scene.store):
        [message_id] = await scene.send()
        [delivery] = await settled(scene.store, message_id)
    assert (delivery.state, delivery.reason) == (DeliveryState.DEAD, Reason.ENDPOINT_GONE)
    found = await scene.store.catalogue.endpoint(scene.app.no, endpoint.id)
    assert found is not None
    assert found.status == EndpointStatus.DISABLED


async def test_an_address_that_the_guard_refuses_is_dead(scene: Scene, receiver: Receiver) -> None:
    await scene.endpoint(url="http://10.255.255.1:9/")
    async with working(scene.store):
        [message_id] = await scene.send()
        [delivery] = await settled(scene.store, message_id)
    assert (delivery.state, delivery.reason) == (DeliveryState.DEAD, Reason.BLOCKED_ADDRESS)
    assert receiver.requests == []


async def test_a_delivery_dies_when_its_attempts_run_out(scene: Scene, receiver: Receiver) -> None:
    receiver.behave(Behaviour(status=429))
    await scene.endpoint(url=receiver.url, policy=factory.full_policy())
    policy = PolicyOverride(schedule=(0.01,), max_attempts=3)
    async with working(scene.store):
        [message_id] = await scene.send(policy=policy)
        [delivery] = await settled(scene.store, message_id)
    assert (delivery.reason, delivery.attempts) == (Reason.ATTEMPTS_EXHAUSTED, 3)


async def test_every_message_reaches_every_endpoint(scene: Scene, receiver: Receiver) -> None:
    for number in range(7):
        await scene.endpoint(url=f"{receiver.url}/{number}")
    async with working(scene.store):
        messages = await scene.send(60)
        await receiver.arrived(60 * 7)
        for message_id in messages:
            assert {d.state for d in await settled(scene.store, message_id)} == {DeliveryState.DELIVERED}
    seen = {(received.headers["webhook-id"], received.path) for received in receiver.requests}
    assert len(seen) == len(receiver.requests) == 420


async def test_a_lane_at_its_limit_continues_as_soon_as_a_request_ends(scene: Scene, receiver: Receiver) -> None:
    await scene.endpoint(url=receiver.url)
    async with working(scene.store, share=4):
        messages = await scene.send(100)
        await receiver.arrived(100)
        for message_id in messages:
            await settled(scene.store, message_id)


@pytest.mark.parametrize("slots", [1, 4])
async def test_a_worker_whose_last_slots_a_small_claim_takes_continues_when_one_is_free(
    scene: Scene, receiver: Receiver, slots: int
) -> None:
    """The wait for new work would not end when a request ends, only after `poll` seconds."""
    await scene.endpoint(url=receiver.url)
    receiver.behave(Behaviour(delay=0.01))
    await scene.send(8 * slots)
    async with working(scene.store, slots=slots, share=slots, app_share=1.0, poll=10 * PATIENCE):
        await receiver.arrived(8 * slots)


async def test_a_few_free_slots_are_used_although_outcomes_keep_coming(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most slots hang. One of the others is freed again and again, and each time the worker might wait for more."""
    monkeypatch.setattr("hookline.engine.worker.SETTLE", PATIENCE)  # longer than the time between two outcomes
    worker = make_worker(scene.store, slots=16)
    worker._sender.ready.set()
    worker._slots._answering.used = 15

    async def trickle() -> None:
        while True:
            worker._freed.set()
            await asyncio.sleep(0)  # the worker gets control

    trickling = asyncio.create_task(trickle())
    try:
        async with asyncio.timeout(PATIENCE / 2):
            while not await worker._ready_to_claim():
                pass
    finally:
        trickling.cancel()


@pytest.mark.store_options(lease=600.0)
async def test_a_hanging_endpoint_leaves_room_for_the_others(scene: Scene, receiver: Receiver) -> None:
    receiver.behave(Behaviour(hang=True), path="/hangs")
    await scene.endpoint(url=receiver.url + "/hangs", event_types=("slow",))
    await scene.endpoint(url=receiver.url + "/healthy", event_types=("quick",))
    async with working(scene.store, share=16, drain=0.5, deadline=500.0):  # no hanging request frees a slot
        await scene.send(200, event_type="slow")
        await receiver.arrived(START)
        messages = await scene.send(20, event_type="quick")
        for message_id in messages:
            assert [d.state for d in await settled(scene.store, message_id)] == [DeliveryState.DELIVERED]
        assert sum(received.path == "/hangs" for received in receiver.requests) == START


async def test_a_new_message_wakes_a_sleeping_worker(scene: Scene, second: Store, receiver: Receiver) -> None:
    """The message comes through another store handle, as from another process. The poll interval is too long to matter."""
    await scene.endpoint(url=receiver.url)
    async with working(scene.store, poll=3600.0):
        await scene.send()
        await receiver.arrived(1)
        for expected in range(2, 6):
            await second.pipeline.ingest(factory.new_messages(scene.app.no, 1))
            await receiver.arrived(expected)


async def test_a_changed_endpoint_is_used_by_the_next_attempt(scene: Scene, receiver: Receiver) -> None:
    endpoint = await scene.endpoint(url=receiver.url + "/old")
    async with working(scene.store):
        await scene.send()
        await receiver.arrived(1)
        await scene.store.catalogue.change_endpoint(endpoint.no, EndpointChange(url=receiver.url + "/new"))
        await scene.send()
        arrived = await receiver.arrived(2)
    assert [received.path for received in arrived] == ["/old", "/new"]


@pytest.mark.store_options(circuit=CircuitPolicy(cooldown=0.2, spread=0.05, recovery_step=0.05))
async def test_a_circuit_opens_spends_no_attempts_and_recovers(scene: Scene, receiver: Receiver) -> None:
    receiver.behave(Behaviour(status=500))
    endpoint = await scene.endpoint(url=receiver.url)
    async with working(scene.store):
        messages = await scene.send(40)
        async with asyncio.timeout(PATIENCE):
            while (await scene.lane(endpoint)).trips < 2:  # the circuit has opened, and a probe has failed
                await asyncio.sleep(0.01)
        spent = [(await scene.delivery(message_id)).attempts for message_id in messages]
        assert max(spent) < 12
        receiver.behave(Behaviour())
        for message_id in messages:
            assert [d.state for d in await settled(scene.store, message_id)] == [DeliveryState.DELIVERED]
    assert (await scene.lane(endpoint)).circuit in (Circuit.RECOVERING, Circuit.CLOSED)


@pytest.mark.store_options(circuit=CircuitPolicy(recovery_step=0.1, recovery_rate=100.0))
async def test_an_endpoint_that_refuses_is_slowed_and_gets_everything(scene: Scene, receiver: Receiver) -> None:
    """The endpoint takes three requests at once and refuses others. No circuit opens and no delivery dies."""
    busy = threading.Semaphore(3)

    def take(received: Received) -> Behaviour:
        if not busy.acquire(blocking=False):
            return Behaviour(status=429)
        threading.Timer(0.02, busy.release).start()
        return Behaviour(delay=0.02)

    receiver.behave(take)
    endpoint = await scene.endpoint(url=receiver.url)
    messages = await scene.send(150)
    async with working(scene.store):
        for message_id in messages:
            [delivery] = await settled(scene.store, message_id)
            assert delivery.state == DeliveryState.DELIVERED
    kinds = [event.kind for event in await scene.store.history.lane_events(endpoint.no, limit=50)]
    assert kinds[-1] == LaneEventKind.LANE_SLOWED
    assert set(kinds) <= {LaneEventKind.LANE_SLOWED, LaneEventKind.LANE_AT_SPEED}
    assert len(receiver.requests) > 150


async def test_a_delivery_whose_secret_cannot_be_decrypted_is_dead_and_blocks_no_other(
    scene: Scene, receiver: Receiver
) -> None:
    sealed = await scene.endpoint(url=receiver.url + "/sealed")
    healthy = await scene.endpoint(url=receiver.url + "/healthy")
    await scene.raw.execute("UPDATE endpoint SET secrets = $1 WHERE no = $2", b"not sealed by any key", sealed.no)
    async with working(scene.store):
        [message_id] = await scene.send()
        found = {d.endpoint_no: d for d in await settled(scene.store, message_id)}
    assert found[sealed.no].reason == Reason.UNSENDABLE
    assert found[healthy.no].state == DeliveryState.DELIVERED
    assert [received.path for received in receiver.requests] == ["/healthy"]


# ── shutdown ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_worker_finishes_requests_in_flight_before_it_ends(scene: Scene, receiver: Receiver) -> None:
    receiver.behave(Behaviour(delay=0.4))
    await scene.endpoint(url=receiver.url)
    async with working(scene.store, drain=60.0):
        [message_id] = await scene.send()
        await receiver.arrived(1)
    assert await scene.state(message_id) == DeliveryState.DELIVERED


async def test_a_request_unfinished_at_shutdown_is_released_and_spends_no_attempt(
    scene: Scene, receiver: Receiver
) -> None:
    receiver.behave(Behaviour(hang=True))
    await scene.endpoint(url=receiver.url)
    async with working(scene.store, deadline=30.0, drain=0.5):
        [message_id] = await scene.send()
        await receiver.arrived(1)
    delivery = await scene.delivery(message_id)
    assert (delivery.state, delivery.attempts, delivery.sent) == (DeliveryState.SCHEDULED, 0, 1)
    [attempt] = await scene.store.history.attempts(
        message_id
    )  # the request may have arrived, and the result must show that
    assert (attempt.outcome, attempt.detail) == ("retry", "waiting for the response: shutting down")


async def test_a_request_that_cannot_be_signed_affects_no_other(
    scene: Scene, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Signing raises an internal error. The error is logged without the secret, and the slot is free again."""
    await scene.endpoint(url=receiver.url)
    bad, good = await scene.send(), await scene.send()
    real = Target.headers

    def headers(target: Target, job: LeasedDelivery, now: datetime, trace: str | None = None) -> list[str]:
        if job.message_id in bad:
            raise RuntimeError(target.endpoint.secrets[0].key)
        return real(target, job, now, trace)

    monkeypatch.setattr(Target, "headers", headers)
    async with working(scene.store) as worker:
        assert (await reaches(scene.store, good[0], DeliveryState.DELIVERED)).state == DeliveryState.DELIVERED
        dead = await reaches(scene.store, bad[0], DeliveryState.DEAD)
    assert dead.reason == Reason.UNSENDABLE
    assert "whsec" not in (dead.detail or "")
    assert worker._slots.used == 0


async def test_a_job_whose_lease_is_nearly_over_is_given_back(scene: Scene, receiver: Receiver) -> None:
    """The lease is 60 s, a request 30 s and recording 5 s. A stall of half a minute before the start is too long."""
    endpoint = await scene.endpoint(url=receiver.url)
    [message_id] = await scene.send()
    [job] = await scene.claim()
    worker = make_worker(scene.store)
    lease = worker._lease(job, 100.0)
    assert lease.send_before == pytest.approx(125.0)
    attempt = InFlight(job, Target(endpoint), lease)
    assert worker._request(attempt, clock.wall()).start_before == lease.send_before
    late = (attempt, Sent(started_at=clock.wall()))
    worker._slots.take([job])
    worker._judge_all([late])
    recording = asyncio.create_task(worker._recorder.run())
    worker._recorder.close()
    await recording
    delivery = await scene.delivery(message_id)
    assert (delivery.state, delivery.attempts, delivery.sent) == (DeliveryState.PENDING, 0, 0)


# ── outage ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_outage_of_the_database_loses_no_outcome(receiver: Receiver) -> None:
    """PostgreSQL stops while requests are in flight. Their outcomes wait in memory until it is back."""
    stopped = threading.Event()
    receiver.behave(Behaviour(answer_when=stopped))
    with private_server() as server:
        store = await open_store(server.url("postgres"), vault=Vault([new_key()]), options=StoreOptions(lease=600.0))
        await store.migrate()
        organization = await store.catalogue.save_organization(factory.organization())
        app = await store.catalogue.create_application(organization.id, factory.new_application())
        await store.catalogue.create_endpoint(app.no, factory.new_endpoint(url=receiver.url))
        async with working(store, deadline=500.0) as worker:
            messages = factory.new_messages(app.no, START)
            await store.pipeline.ingest(messages)
            await receiver.arrived(START)
            await asyncio.to_thread(server.stop)
            stopped.set()
            async with asyncio.timeout(PATIENCE):
                while worker._recorder.waiting < START:  # every request has its answer, and none can be recorded
                    await asyncio.sleep(0.01)
            await asyncio.to_thread(server.start)
            for message in messages:
                assert await _settled_through_outage(store, message.id) == DeliveryState.DELIVERED
        await store.close()
    assert len(receiver.requests) == START


async def _settled_through_outage(store: Store, message_id: str) -> DeliveryState:
    async with asyncio.timeout(2 * PATIENCE):
        while True:
            try:
                return (await reaches(store, message_id, DeliveryState.DELIVERED)).state
            except StoreUnavailable:
                await asyncio.sleep(0.05)


# ── a request that reached nobody ─────────────────────────────────────────────────────────────────────────────────


async def test_a_refused_connection_is_tried_once_more_within_the_attempt(scene: Scene) -> None:
    with refusing() as url:
        await scene.endpoint(url=url)
        async with working(scene.store):
            [message_id] = await scene.send(policy=PolicyOverride(max_attempts=1))
            [delivery] = await settled(scene.store, message_id)
    [attempt] = await scene.store.history.attempts(message_id)
    assert (delivery.reason, attempt.error) == (Reason.ATTEMPTS_EXHAUSTED, ErrorKind.REFUSED)


# ── sweep and recorder during an outage and an internal error ─────────────────────────────────────────────────────


async def test_after_an_outage_the_sweep_takes_no_lease_away_for_one_lease(scene: Scene) -> None:
    await scene.endpoint()
    [message_id] = await scene.send()
    await scene.claim()
    await scene.age(1_000)
    outage = Outage(random.Random(3))
    sweeper = Sweeper(scene.store, SweepSettings(lease=60.0), outage, random.Random(4))
    await outage.failed("test", StoreUnavailable("away"), _set())
    outage.passed()
    assert await sweeper._leases() is None
    assert await scene.state(message_id) == DeliveryState.DELIVERING
    untroubled = Sweeper(scene.store, SweepSettings(lease=60.0), Outage(random.Random(3)), random.Random(4))
    report = await untroubled._leases()
    assert report is not None
    assert report.leases == 1


async def test_a_result_that_cannot_be_written_blocks_no_other(scene: Scene) -> None:
    await scene.endpoint()
    messages = await scene.send(5)
    jobs = await scene.claim()
    recorder = Recorder(scene.store, factory.slots(), Outage(random.Random(5)), lambda: None, str)
    for place, job in enumerate(jobs):
        result = factory.delivered(job)
        recorder.add(replace(result, judgement="no judgement") if place == 2 else result)  # type: ignore[arg-type]
    recorder.close()
    await recorder.run()
    states = sorted([await scene.state(message_id) for message_id in messages])
    assert states == [DeliveryState.DELIVERING] + [DeliveryState.DELIVERED] * 4


async def test_an_outcome_that_cannot_be_judged_blocks_no_other(
    scene: Scene, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Judging raises an internal error. The other results of the frame are recorded, and the slot is free again."""
    await scene.endpoint(url=receiver.url)
    odd = await scene.send(event_type="odd.one")
    even = await scene.send(6)

    def judged(sent: Sent, job: LeasedDelivery, *args: Any, **more: Any) -> Judgement:
        if job.message_id in odd:
            raise ZeroDivisionError
        return judge(sent, job, *args, **more)

    monkeypatch.setattr("hookline.engine.worker.judge", judged)
    async with working(scene.store) as worker:
        for message_id in even:
            await reaches(scene.store, message_id, DeliveryState.DELIVERED)
        async with asyncio.timeout(PATIENCE):
            while worker._slots.used:  # the answer that cannot be judged may be the last to come
                await asyncio.sleep(0.01)  # there is no event for a free slot
    assert len(receiver.requests) == 7  # no request is sent twice, because the sender process goes on too
    assert await scene.state(odd[0]) == DeliveryState.DELIVERING  # the delivery stays leased until its lease runs out


def _set() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


async def test_a_delivery_does_not_wait_until_the_endpoints_of_others_are_loaded(
    scene: Scene, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_load, load = asyncio.Event(), scene.store.catalogue.endpoints_for

    async def load_later(numbers: Iterable[int]) -> list[Endpoint]:
        await may_load.wait()
        return await load(numbers)

    await scene.endpoint(url=f"{receiver.url}/known", channels=["known"])
    async with working(scene.store):
        await scene.send(channels=["known"])
        await receiver.arrived(1)
        monkeypatch.setattr(scene.store.catalogue, "endpoints_for", load_later)
        await scene.endpoint(url=f"{receiver.url}/new", channels=["new"])
        await scene.send(channels=["known", "new"])
        assert [received.path for received in await receiver.arrived(2)] == ["/known", "/known"]
        may_load.set()
        assert (await receiver.arrived(3))[2].path == "/new"
