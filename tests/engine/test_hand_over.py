"""A worker sends the messages that its own process accepts, without a claim."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hookline.engine.ingest import GroupCommit
from hookline.engine.worker import Worker
from hookline.errors import StoreUnavailable
from hookline.model.endpoints import Endpoint, EndpointChange
from hookline.model.messages import NewMessage
from hookline.model.states import DeliveryState
from hookline.rules.claim.budgets import LARGE
from tests.support import factory
from tests.support.receiver import Behaviour, Receiver
from tests.support.scene import Scene
from tests.support.working import PATIENCE, make_worker, settled, working


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


@asynccontextmanager
async def serving(scene: Scene, **settings: Any) -> AsyncIterator[tuple[GroupCommit, Worker, list[str]]]:
    """Run a worker and a group commit as one process does. Also yield the messages that the worker got without a
    claim."""
    handed_over: list[str] = []
    async with working(scene.store, **settings) as worker:
        start = worker._send_leased

        def note(jobs: Any, *given: Any) -> None:
            handed_over.extend(job.message_id for job in jobs)
            start(jobs, *given)

        worker._send_leased = note  # type: ignore[method-assign]  # the real method still runs
        ingest = GroupCommit(scene.store, hand_over=worker.hand_over)
        yield ingest, worker, handed_over
        await ingest.close()


async def publish(ingest: GroupCommit, scene: Scene, **fields: Any) -> str:
    accepted = await ingest.submit(factory.new_message(scene.app.no, **fields))
    return accepted.message_id


async def known(ingest: GroupCommit, scene: Scene, worker: Worker, endpoint: Endpoint) -> None:
    """Let the endpoint answer once, so that the worker knows it."""
    await settled(scene.store, await publish(ingest, scene))
    await idle(worker)
    assert worker._slots.answers(endpoint.no)


async def idle(worker: Worker) -> None:
    async with asyncio.timeout(PATIENCE):
        while worker._slots.used or worker._recorder.waiting:
            await asyncio.sleep(0.005)  # results arrive from another process


async def test_a_message_to_an_endpoint_that_answers_is_sent_without_a_claim(scene: Scene, receiver: Receiver) -> None:
    endpoint = await scene.endpoint(url=receiver.url)
    async with serving(scene) as (ingest, worker, handed_over):
        await known(ingest, scene, worker, endpoint)
        assert handed_over == []
        message_id = await publish(ingest, scene, payload=b'{"n": 17}')
        assert handed_over == [message_id]
        [delivery] = await settled(scene.store, message_id)
    assert (delivery.state, delivery.attempts) == (DeliveryState.DELIVERED, 1)
    assert [request.body for request in receiver.requests][-1] == b'{"n": 17}'
    assert len(receiver.requests) == 2


async def test_concurrent_messages_are_each_sent_once(scene: Scene, receiver: Receiver) -> None:
    endpoint = await scene.endpoint(url=receiver.url)
    async with serving(scene) as (ingest, worker, handed_over):
        await known(ingest, scene, worker, endpoint)
        for _ in range(20):
            ids = await asyncio.gather(*(publish(ingest, scene) for _ in range(10)))
            for message_id in ids:
                await settled(scene.store, message_id)
        assert handed_over
        await idle(worker)
        assert worker._slots._held == {}
    assert len(receiver.requests) == 201
    assert len({request.headers["webhook-id"] for request in receiver.requests}) == 201


async def test_an_endpoint_that_stops_answering_gets_no_more_messages_than_its_window(
    scene: Scene, receiver: Receiver
) -> None:
    """Its requests fill its window. Further messages wait in the lane, and other endpoints are not delayed."""
    hanging = await scene.endpoint(url=receiver.url + "/hang", channels=["hang"])
    healthy = await scene.endpoint(url=receiver.url + "/ok", channels=["ok"])
    async with serving(scene, deadline=2.0) as (ingest, worker, _):
        for channel, endpoint in (("hang", hanging), ("ok", healthy)):
            await settled(scene.store, await publish(ingest, scene, channels=[channel]))
            assert worker._slots.answers(endpoint.no)
        receiver.behave(Behaviour(hang=True), "/hang")
        window = worker._slots._answering.windows[hanging.no]
        for _ in range(3 * window):
            await publish(ingest, scene, channels=["hang"])
        assert worker._slots._held[hanging.no] <= window
        await settled(scene.store, await publish(ingest, scene, channels=["ok"]))


async def test_claims_keep_a_quarter_of_the_slots(scene: Scene, receiver: Receiver) -> None:
    for number in range(20):
        await scene.endpoint(url=f"{receiver.url}/{number}")
    async with serving(scene, slots=16, app_share=1.0) as (ingest, worker, _):
        await settled(scene.store, await publish(ingest, scene))
        await idle(worker)
        with worker.hand_over([factory.new_message(scene.app.no)]) as offer:
            assert offer is not None
            assert 0 < len(offer.reserved) <= 12
            assert worker._slots.free >= 4
        await idle(worker)
        assert worker._slots.free == 16


async def test_a_transaction_that_fails_frees_the_reserved_slots(scene: Scene, receiver: Receiver) -> None:
    endpoint = await scene.endpoint(url=receiver.url)
    async with serving(scene) as (ingest, worker, handed_over):
        await known(ingest, scene, worker, endpoint)
        with pytest.raises(StoreUnavailable):
            with_offer(worker, factory.new_message(scene.app.no))
        assert worker._slots.used == 0
        assert handed_over == []


def with_offer(worker: Worker, message: NewMessage) -> None:
    with worker.hand_over([message]):
        assert worker._slots.used == 1
        raise StoreUnavailable("the answer to COMMIT is lost")


async def test_a_lane_that_was_refused_because_of_a_reservation_is_woken_when_it_ends(
    scene: Scene, receiver: Receiver
) -> None:
    endpoint = await scene.endpoint(url=receiver.url)
    async with serving(scene, share=1) as (ingest, worker, _):
        await known(ingest, scene, worker, endpoint)
        with worker.hand_over([factory.new_message(scene.app.no)]) as offer:
            assert offer is not None
            assert offer.reserved == {endpoint.no: 1}
            [message_id] = await scene.send()
            async with asyncio.timeout(PATIENCE):
                while not worker._slots.waiting:
                    await asyncio.sleep(0.005)  # the claim of the worker refuses the lane
                    if await scene.state(message_id) == DeliveryState.DELIVERED:  # by a claim that began before
                        [message_id] = await scene.send()
        await settled(scene.store, message_id)


async def test_a_delivery_to_an_endpoint_that_changed_goes_through_a_claim(scene: Scene, receiver: Receiver) -> None:
    endpoint = await scene.endpoint(url=receiver.url + "/old")
    async with serving(scene) as (ingest, worker, _):
        await known(ingest, scene, worker, endpoint)
        await scene.store.catalogue.change_endpoint(endpoint.no, EndpointChange(url=receiver.url + "/new"))
        await settled(scene.store, await publish(ingest, scene))
    assert [request.path for request in receiver.requests] == ["/old", "/new"]


async def test_a_worker_that_stops_makes_no_offers_and_releases_what_it_gets(scene: Scene, receiver: Receiver) -> None:
    endpoint = await scene.endpoint(url=receiver.url)
    message = factory.new_message(scene.app.no)
    worker, stop = make_worker(scene.store), asyncio.Event()
    task = asyncio.create_task(worker.run(stop))
    ingest = GroupCommit(scene.store, hand_over=worker.hand_over)
    await known(ingest, scene, worker, endpoint)
    with worker.hand_over([message]) as offer:
        await scene.store.pipeline.ingest([message], offer)
        stop.set()
        async with asyncio.timeout(PATIENCE):
            while not worker._stopping:
                await asyncio.sleep(0.005)  # the worker stops in a task of its own
    with worker.hand_over([message]) as offer:
        assert offer is None
    await task
    await ingest.close()
    assert await scene.state(message.id) == DeliveryState.PENDING
    [job] = await scene.claim()
    assert (job.message_id, job.sent) == (message.id, 0)


async def test_an_error_while_sending_does_not_look_like_an_error_of_the_transaction(
    scene: Scene, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transaction is committed. If it were repeated, the message would be stored twice."""
    endpoint = await scene.endpoint(url=receiver.url)
    errors: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context["exception"]))
    async with serving(scene, drain=0.5) as (ingest, worker, _):
        await known(ingest, scene, worker, endpoint)

        def fail(*_: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(worker._sender, "submit", fail)
        await publish(ingest, scene)
    assert [type(error) for error in errors] == [ZeroDivisionError]
    assert await scene.raw.count("message") == 2


async def test_a_worker_with_few_slots_leaves_them_to_claims(scene: Scene, receiver: Receiver) -> None:
    endpoint = await scene.endpoint(url=receiver.url)
    async with serving(scene, slots=3, share=3) as (ingest, worker, _):
        await known(ingest, scene, worker, endpoint)
        with worker.hand_over([factory.new_message(scene.app.no)]) as offer:
            assert offer is None


async def test_a_slow_transaction_ends_offers_for_a_while(scene: Scene, receiver: Receiver) -> None:
    endpoint = await scene.endpoint(url=receiver.url)
    message = factory.new_message(scene.app.no)
    async with serving(scene) as (ingest, worker, _):
        await known(ingest, scene, worker, endpoint)
        with worker.hand_over([message]) as offer:
            assert offer is not None
            offer.took = 30.0
        with worker.hand_over([message]) as offer:
            assert offer is None


async def test_a_large_payload_is_not_offered(scene: Scene, receiver: Receiver) -> None:
    endpoint = await scene.endpoint(url=receiver.url)
    async with serving(scene) as (ingest, worker, handed_over):
        await known(ingest, scene, worker, endpoint)
        with worker.hand_over([factory.new_message(scene.app.no, payload=b"x" * (LARGE + 1))]) as offer:
            assert offer is None
        assert handed_over == []
