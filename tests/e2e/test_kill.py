"""Thousands of messages through real worker processes that are killed at random, to an endpoint that fails in every
way.

The test checks the guarantee. Every acknowledged message is delivered or dead. Each attempt has the same id and bytes.
The receiver gets a second copy of an accepted message only if a worker was killed in between.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

from hookline.model.catalogue import Application
from hookline.model.endpoints import Endpoint, Secret
from hookline.model.states import DeliveryState, ErrorKind
from hookline.security.vault import Vault
from hookline.signing import new_secret, verify
from hookline.store import Store, StoreOptions, open_store
from tests.support import factory
from tests.support.counts import count
from tests.support.processes import Process, environment
from tests.support.receiver import Behaviour, Received, Receiver

MESSAGES = 2_000
KILLS = 6
SEED = 20_240_229


class History:
    """The answers of the receiver, in order. `/steady` always succeeds; `/failing` fails in every way and recovers."""

    def __init__(self) -> None:
        # (message, path) -> signing times of the requests answered 200, in whole seconds of the worker's clock
        self.accepted: dict[tuple[str, str], list[int]] = defaultdict(list)
        self.copies: dict[str, set[bytes]] = defaultdict(set)  # message -> request bodies
        self.arrived: dict[str, int] = defaultdict(int)
        self._chance = random.Random(SEED)
        self._well_at = time.monotonic() + 12

    def answer(self, received: Received) -> Behaviour:
        message = received.headers["webhook-id"]
        self.copies[message].add(received.body)
        self.arrived[received.path] += 1
        behaviour = Behaviour() if received.path == "/steady" else self._failing()
        if behaviour.status == 200 and not (behaviour.hang or behaviour.reset or behaviour.close):
            self.accepted[message, received.path].append(int(received.headers["webhook-timestamp"]))
        return behaviour

    def _failing(self) -> Behaviour:
        if time.monotonic() > self._well_at:
            return Behaviour()
        return self._chance.choices(
            [
                Behaviour(status=503),
                Behaviour(hang=True),
                Behaviour(reset="after"),
                Behaviour(close=True),
                Behaviour(status=404),
                Behaviour(),
            ],
            [30, 5, 15, 15, 2, 33],
        )[0]


@pytest.mark.timeout(240)
async def test_every_acknowledged_message_is_delivered_or_dead_although_workers_are_killed(
    engine: str, database_url: str, tmp_path: Path
) -> None:
    # A fast machine gets more failures from the failing endpoint in twelve seconds than would pause it.
    env = environment(database_url, HOOKLINE_PAUSE_DEAD_PER_DAY="1000000")
    store = await open_store(database_url, vault=Vault([env["HOOKLINE_SECRET_KEY"]]), options=StoreOptions())
    await store.migrate()
    history = History()
    with Receiver() as receiver:
        receiver.behave(history.answer)
        app, endpoints = await _endpoints(store, receiver.url)
        fleet = Fleet(env, tmp_path, size=1 if engine == "sqlite" else 2)
        try:
            publishing = asyncio.create_task(_publish(store, app))
            await fleet.suffer(KILLS)
            acknowledged = await publishing
            await _until_nothing_is_open(store, fleet)
        finally:
            fleet.end()
    await _check(store, history, acknowledged, endpoints, fleet.kills)
    await store.close()


class Fleet:
    """Starts workers and kills them."""

    def __init__(self, env: dict[str, str], directory: Path, size: int) -> None:
        self._env = env
        self._log = directory / "workers.log"
        self._chance = random.Random(SEED + 1)
        self.kills: list[tuple[float, float]] = []  # wall-clock time before and after each kill
        self._workers = [self._start() for _ in range(size)]

    def _start(self) -> Process:
        return Process(["worker"], self._env, self._log)

    async def suffer(self, kills: int) -> None:
        for _ in range(kills):
            # The kill must come at a random time, so there is nothing to wait for.
            await asyncio.sleep(self._chance.uniform(0.8, 2.0))
            victim = self._chance.randrange(len(self._workers))
            assert self._workers[victim].running, self.output()
            before = time.time()
            self._workers[victim].kill()
            self.kills.append((before, time.time()))
            self._workers[victim] = self._start()

    def output(self) -> str:
        return self._log.read_text(errors="replace")

    def end(self) -> None:
        for worker in self._workers:
            if worker.running:
                worker.kill()


async def _endpoints(store: Store, url: str) -> tuple[Application, dict[str, Endpoint]]:
    organization = await store.catalogue.save_organization(factory.organization())
    app = await store.catalogue.create_application(organization.id, factory.new_application())
    endpoints = {
        path: await store.catalogue.create_endpoint(
            app.no, factory.new_endpoint(url=url + path, secrets=(Secret(key=new_secret()),))
        )
        for path in ("/steady", "/failing")
    }
    return app, endpoints


async def _publish(store: Store, app: Application) -> dict[str, bytes]:
    """Publish a few messages at a time, so that kills fall in between. Return the acknowledged ids and their bodies."""
    acknowledged: dict[str, bytes] = {}
    for _ in range(MESSAGES // 10):
        batch = factory.new_messages(app.no, 10)
        for message, answer in zip(batch, await store.pipeline.ingest(batch), strict=True):
            assert answer.deliveries == 2
            acknowledged[answer.message_id] = message.payload
        await asyncio.sleep(0.02)  # spread the messages over the kills
    return acknowledged


async def _until_nothing_is_open(store: Store, fleet: Fleet) -> None:
    until = time.monotonic() + 150
    while time.monotonic() < until:
        counts = await count(store)
        if not counts.open:
            return
        await asyncio.sleep(0.2)  # other processes do the work: there is no event to await here
    pytest.fail(f"{counts}; asleep for good: {await store.upkeep.find_stuck_lanes(repair=False)}\n{fleet.output()}")


async def _check(
    store: Store,
    history: History,
    acknowledged: dict[str, bytes],
    endpoints: dict[str, Endpoint],
    kills: list[tuple[float, float]],
) -> None:
    assert await store.upkeep.find_stuck_lanes(repair=False) == []
    delivered = dead = 0
    for message_id, payload in acknowledged.items():
        found = await store.history.deliveries(message_id)
        assert {delivery.endpoint_no for delivery in found} == {endpoint.no for endpoint in endpoints.values()}
        assert {delivery.state for delivery in found} <= {DeliveryState.DELIVERED, DeliveryState.DEAD}
        assert history.copies[message_id] == {payload}
        for delivery in found:
            path = next(path for path, endpoint in endpoints.items() if endpoint.no == delivery.endpoint_no)
            accepted = history.accepted[message_id, path]
            if delivery.state == DeliveryState.DELIVERED:
                delivered += 1
                assert accepted, f"{message_id} is delivered to {path}, which never accepted it"
            else:
                dead += 1
                assert delivery.reason is not None
            if _copies_without_a_kill(accepted, kills):
                # On a machine that stalls, the answer may come after the deadline: accepted by the receiver, a timeout
                # for the sender.
                tried = [each for each in await store.history.attempts(message_id) if each.delivery_id == delivery.id]
                assert any(each.error == ErrorKind.TIMEOUT for each in tried), (
                    f"{message_id} was accepted twice without a kill between: {tried}"
                )
    assert delivered + dead == 2 * len(acknowledged) == 2 * MESSAGES
    assert delivered > dead


def _copies_without_a_kill(signed: list[int], kills: list[tuple[float, float]]) -> bool:
    """Return whether two copies were signed without a kill of a worker in between."""
    return not all(
        any(first <= after and before < second + 1 for before, after in kills)
        for first, second in pairwise(sorted(signed))
    )


async def test_a_receiver_can_verify_requests_of_a_worker_process(
    engine: str, database_url: str, tmp_path: Path
) -> None:
    # A slow answer of a busy receiver must not cause a second request.
    env = environment(database_url, HOOKLINE_REQUEST_TIMEOUT="30s", HOOKLINE_LEASE="60s")
    store = await open_store(database_url, vault=Vault([env["HOOKLINE_SECRET_KEY"]]), options=StoreOptions())
    await store.migrate()
    worker = Process(["worker"], env, tmp_path / "worker.log")
    try:
        with Receiver() as receiver:
            app, endpoints = await _endpoints(store, receiver.url)
            message = factory.new_message(app.no, event_type="order.paid")
            await store.pipeline.ingest([message])
            arrived = await receiver.arrived(2)
        for received in arrived:
            endpoint = endpoints[received.path]
            verify(endpoint.scheme, endpoint.secrets, received.headers, received.body, await store.now())
            assert received.headers["webhook-id"] == message.id
            assert received.headers["webhook-attempt"] == "1"
            assert received.headers["webhook-event-type"] == "order.paid"
            assert received.body == message.payload
        assert worker.stop() == 0, worker.output()
    finally:
        if worker.running:
            worker.kill()
        await store.close()
