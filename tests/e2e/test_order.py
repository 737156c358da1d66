"""Many keys through real worker processes that are killed at random, to endpoints that fail at random: each key keeps
its order.

A receiver may get a message again if an attempt failed or its worker was killed, but only before the next message of
its key. `HOOKLINE_TEST_ORDER_ROUNDS=200` sends ten thousand messages and kills fifty workers; the suite does a tenth of
that.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

from hookline.model.endpoints import Ordering
from hookline.security.vault import Vault
from hookline.store import Store, StoreOptions, open_store
from tests.e2e.test_kill import Fleet
from tests.support import factory
from tests.support.counts import count
from tests.support.processes import environment
from tests.support.receiver import Behaviour, Received, Receiver

KEYS = 50
ROUNDS = int(os.environ.get("HOOKLINE_TEST_ORDER_ROUNDS", "20"))
KILLS = ROUNDS // 4
PATIENCE = 10 * max(ROUNDS, 20)  # seconds until all messages must have arrived
SEED = 20_260_117


class Arrivals:
    """The requests by path and key, in order. A third of them fails."""

    def __init__(self) -> None:
        self.turns: dict[tuple[str, str], list[int]] = defaultdict(list)
        self.whole: dict[str, list[int]] = defaultdict(list)  # by path, for all keys
        self._chance = random.Random(SEED)

    def answer(self, received: Received) -> Behaviour:
        event = json.loads(received.body)
        self.turns[received.path, event["key"]].append(event["turn"])
        self.whole[received.path].append(event["number"])
        return self._chance.choices(
            [Behaviour(), Behaviour(status=503), Behaviour(reset="after"), Behaviour(close=True)], [70, 14, 8, 8]
        )[0]

    def summary(self) -> str:
        seen = [*self.turns.values()]
        again = sum(earlier == later for turns in seen for earlier, later in pairwise(turns))
        return f"{sum(map(len, seen)):,} requests, {again:,} of them right after the same message; none out of order"


@pytest.mark.timeout(PATIENCE + 80)
async def test_each_key_arrives_in_order_although_workers_are_killed(
    engine: str, database_url: str, tmp_path: Path
) -> None:
    # The deadline is longer than a busy receiver needs to read a request. A request read after its retry would be out
    # of order.
    env = environment(database_url, HOOKLINE_REQUEST_TIMEOUT="6s", HOOKLINE_LEASE="16s")
    store = await open_store(database_url, vault=Vault([env["HOOKLINE_SECRET_KEY"]]), options=StoreOptions())
    await store.migrate()
    arrivals = Arrivals()
    with Receiver() as receiver:
        receiver.behave(arrivals.answer)
        app_no = await _endpoints(store, receiver.url)
        fleet = Fleet(env, tmp_path, size=1 if engine == "sqlite" else 2)
        try:
            publishing = asyncio.create_task(_publish(store, app_no))
            await fleet.suffer(KILLS)
            await publishing
            await _until_nothing_is_open(store)
        finally:
            fleet.end()
    assert await store.upkeep.find_stuck_lanes(repair=False) == []
    assert (await count(store)).dead == 0
    await store.close()
    for path in ("/one", "/two"):
        for key in range(KEYS):
            _check(arrivals.turns[path, f"k{key}"], ROUNDS)
    _check(arrivals.whole["/fifo"], KEYS)
    assert "lanes_repaired" not in fleet.output()
    print(f"{engine}: {KEYS} keys, {KEYS * ROUNDS:,} messages, {len(fleet.kills)} kills, {arrivals.summary()}")


def _check(seen: list[int], count: int) -> None:
    assert seen == sorted(seen)
    assert set(seen) == set(range(count))


async def _endpoints(store: Store, url: str) -> int:
    """Create two endpoints that keep the order per key, and one that keeps the order of all its few messages."""
    organization = await store.catalogue.save_organization(factory.organization())
    app = await store.catalogue.create_application(organization.id, factory.new_application())
    for path in ("/one", "/two"):
        await store.catalogue.create_endpoint(app.no, factory.new_endpoint(url=url + path))
    fifo = factory.new_endpoint(url=url + "/fifo", ordering=Ordering.FIFO, event_types=("order.first",))
    await store.catalogue.create_endpoint(app.no, fifo)
    return app.no


async def _publish(store: Store, app_no: int) -> None:
    """Publish a message of every key in each round, a few keys at a time, so that kills fall in between."""
    for turn in range(ROUNDS):
        for first in range(0, KEYS, 10):
            await store.pipeline.ingest([_message(app_no, key, turn) for key in range(first, first + 10)])
            await asyncio.sleep(0.04)  # spread the messages over the kills


def _message(app_no: int, key: int, turn: int) -> factory.NewMessage:
    event = {"key": f"k{key}", "turn": turn, "number": turn * KEYS + key}
    return factory.new_message(
        app_no,
        ordering_key=f"k{key}",
        event_type="order.paid" if turn else "order.first",
        payload=json.dumps(event).encode(),
    )


async def _until_nothing_is_open(store: Store) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            counts = await count(store)
            if not counts.open:
                return
            await asyncio.sleep(0.2)  # other processes do the work, so there is no event to await
