"""Keys and traces from the transactions of an application to its customer, with real processes and a receiver that
often fails.

The events of each key arrive in commit order, each with the trace in which it was published.
"""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
import threading
from collections import defaultdict
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hookline import outbox
from hookline.model.catalogue import NewApplication
from hookline.outbox.setup import create_table
from hookline.security.vault import Vault
from hookline.store import Store, StoreOptions, open_store
from tests.support import factory
from tests.support.counts import count
from tests.support.processes import environment, running
from tests.support.receiver import Behaviour, Received, Receiver

SHOPS, KEYS, TURNS = 3, 2, 20  # shops, keys of each shop, events of each key
SEED = 20_261_117


class Declined(Exception):
    pass


class Arrivals:
    """The requests by key, in order. A sixth of them fails."""

    def __init__(self) -> None:
        self.turns: dict[str, list[int]] = defaultdict(list)
        self.traces: set[tuple[str, int, str | None, str | None]] = set()
        self._chance = random.Random(SEED)
        self._left = SHOPS * KEYS * TURNS
        self._all = threading.Event()

    def wait(self) -> None:
        """Wait until every event was received and answered with success."""
        assert self._all.wait(120), f"{self._left} did not arrive"

    def answer(self, received: Received) -> Behaviour:
        event, headers = json.loads(received.body), received.headers
        self.turns[event["key"]].append(event["turn"])
        self.traces.add((event["key"], event["turn"], headers.get("traceparent"), headers.get("tracestate")))
        if self._chance.random() < 1 / 6:
            return Behaviour(status=503)
        self._left -= 1
        if self._left == 0:
            self._all.set()
        return Behaviour()


@pytest.mark.timeout(200)
async def test_each_key_arrives_in_the_order_committed(urls: tuple[str, str], tmp_path: Path) -> None:
    ours, theirs = urls
    apart = {} if ours == theirs else {"HOOKLINE_OUTBOX_URLS": theirs}
    # Longer than a busy receiver needs to read a request. A request read after its retry would be out of order.
    env = environment(ours, HOOKLINE_REQUEST_TIMEOUT="30s", HOOKLINE_LEASE="60s", **apart)
    store = await open_store(ours, vault=Vault([env["HOOKLINE_SECRET_KEY"]]), options=StoreOptions())
    await store.migrate()
    if apart:
        with connected(theirs) as shop:
            create_table(shop)
    arrivals = Arrivals()
    with Receiver() as receiver, ExitStack() as workers:
        receiver.behave(arrivals.answer)
        await _endpoint(store, receiver.url)
        for number in range(1 if ours.startswith("sqlite") else 2):
            workers.enter_context(running(["worker"], env, tmp_path / f"worker{number}.log"))
        await _sell(theirs, range(1))
        await receiver.arrived(1)  # later events are published while earlier ones are relayed and sent
        await _sell(theirs, range(1, TURNS))
        await asyncio.to_thread(arrivals.wait)
        await _until_nothing_is_open(store)
    assert (await count(store)).dead == 0
    assert await store.upkeep.find_stuck_lanes(repair=False) == []
    await store.close()
    keys = [f"k{shop}.{key}" for shop in range(SHOPS) for key in range(KEYS)]
    for key in keys:
        assert arrivals.turns[key] == sorted(arrivals.turns[key])
        assert set(arrivals.turns[key]) == set(range(TURNS))
    assert set(arrivals.turns) == set(keys)
    assert arrivals.traces == {(key, turn, trace_of(key, turn), "shop=1") for key in keys for turn in range(TURNS)}


async def _sell(url: str, turns: range) -> None:
    await asyncio.gather(*(asyncio.to_thread(sell, url, shop, turns) for shop in range(SHOPS)))


def sell(url: str, shop: int, turns: range) -> None:
    """Publish one event of each key per transaction. Some transactions are rolled back and started again."""
    chance = random.Random(SEED + shop)
    with connected(url) as conn:
        for turn in turns:
            for key in (f"k{shop}.{key}" for key in range(KEYS)):
                while not _sold(conn, key, turn, declined=chance.random() < 0.25):
                    pass


def _sold(conn: Any, key: str, turn: int, *, declined: bool) -> bool:
    with suppress(Declined), transaction(conn):
        outbox.publish(
            conn,
            "shop",
            "order.changed",
            {"key": key, "turn": turn},
            ordering_key=key,
            trace=f"{trace_of(key, turn)} shop=1",
        )
        if declined:
            raise Declined
        return True
    return False


def trace_of(key: str, turn: int) -> str:
    return f"00-{key.encode().hex():0>32}-{turn + 1:016x}-01"


class connected:  # noqa: N801
    """Open a connection with the driver of the application. Its writes are committed at the end."""

    def __init__(self, url: str) -> None:
        self.conn: Any = (
            sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30)
            if url.startswith("sqlite:///")
            else psycopg.connect(url)
        )

    def __enter__(self) -> Any:
        return self.conn

    def __exit__(self, *raised: object) -> None:
        self.conn.commit()
        self.conn.close()


def transaction(conn: Any) -> Any:
    """Commit, or roll back on an error. (A psycopg connection used as a context manager would also be closed.)"""
    return conn if isinstance(conn, sqlite3.Connection) else conn.transaction()


async def _endpoint(store: Store, url: str) -> None:
    organization = await store.catalogue.save_organization(factory.organization())
    app = await store.catalogue.create_application(organization.id, NewApplication(name="Shop", uid="shop"))
    await store.catalogue.create_endpoint(app.no, factory.new_endpoint(url=url))


async def _until_nothing_is_open(store: Store) -> None:
    async with asyncio.timeout(60):
        while True:
            counts = await count(store)
            if not counts.open:
                return
            await asyncio.sleep(0.05)  # another process records the outcomes, so there is no event to await
