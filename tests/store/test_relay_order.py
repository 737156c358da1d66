"""Ordering keys through an outbox: messages of one key reach each endpoint in the order of their transactions."""

from __future__ import annotations

import asyncio
import json
import random
from collections import defaultdict
from collections.abc import Sequence

import pytest

from hookline.model.deliveries import LeasedDelivery
from hookline.model.endpoints import Endpoint
from hookline.model.outbox import OutboxPlace, OutboxRow
from hookline.store import Store
from tests.store.test_relay import publish
from tests.support import factory
from tests.support.scene import Scene

KEYS = ("a", "b", "c")
SEED = 20_261_116

Sequences = dict[tuple[int, str | None], list[int]]  # the numbers that were sent, by endpoint and key


async def publish_turns(scene: Scene, turns: Sequence[tuple[str | None, int]]) -> None:
    """Publish each row in its own transaction."""
    for key, turn in turns:
        await publish(scene.raw, scene.app.id, ordering_key=key, payload=_payload(key, turn))


async def relay_all(store: Store, limit: int) -> None:
    """Relay until the outbox is empty. Under load, a relay may read only new rows for a while, and none with a key."""
    async with asyncio.timeout(60):
        while (await store.repair.outbox()).waiting:
            await store.pipeline.relay(limit)


def interleaved(count: int) -> list[tuple[str | None, int]]:
    """Return the numbers of each key in order, mixed with rows without a key."""
    chance, left = random.Random(SEED), dict.fromkeys((*KEYS, None), 0)
    turns: list[tuple[str | None, int]] = []
    while open_keys := [key for key, turn in left.items() if turn < count]:
        key = chance.choice(open_keys)
        turns.append((key, left[key]))
        left[key] += 1
    return turns


def copies(scene: Scene, turns: Sequence[tuple[str | None, int]]) -> list[OutboxRow]:
    """Return the same rows as copies from another database."""
    return [
        OutboxRow(
            id=number,
            app=scene.app.id,
            event_type="order.paid",
            payload=_payload(key, turn),
            event_id=f"evt-{key}-{turn}",
            ordering_key=key,
        )
        for number, (key, turn) in enumerate(turns, 1)
    ]


def _payload(key: str | None, turn: int) -> bytes:
    return json.dumps({"key": key, "turn": turn}).encode()


async def sent_in_turn(scene: Scene) -> Sequences:
    """Claim and deliver until nothing is left. Assert that no two deliveries of one key are active at once."""
    sent: Sequences = defaultdict(list)
    while jobs := await scene.claim():
        keyed = [(job.endpoint_no, job.ordering_key) for job in jobs if job.ordering_key is not None]
        assert len(set(keyed)) == len(keyed)
        for job in jobs:
            sent[job.endpoint_no, job.ordering_key].append(_turn(job))
        await scene.record(*factory.all_delivered(jobs))
    return sent


def _turn(job: LeasedDelivery) -> int:
    turn: int = json.loads(job.payload)["turn"]
    return turn


def check(sent: Sequences, endpoints: Sequence[Endpoint], count: int) -> None:
    for endpoint in endpoints:
        for key in KEYS:
            assert sent[endpoint.no, key] == list(range(count))
        assert sorted(sent[endpoint.no, None]) == list(range(count))


# ── the outbox of this database ──


@pytest.mark.parametrize("limit", [1, 3, 1000])
async def test_each_key_keeps_its_order_for_any_batch_size(scene: Scene, limit: int) -> None:
    endpoints = [await scene.endpoint() for _ in range(2)]
    await publish_turns(scene, interleaved(5))
    await relay_all(scene.store, limit)
    check(await sent_in_turn(scene), endpoints, 5)


async def test_a_long_backlog_keeps_its_order(scene: Scene) -> None:
    """The backlog is larger than any batch of the relay, and grows meanwhile."""
    endpoints = [await scene.endpoint()]
    turns = interleaved(40)
    await publish_turns(scene, turns[:120])
    await scene.store.pipeline.relay(60)
    await publish_turns(scene, turns[120:])
    await relay_all(scene.store, 60)
    check(await sent_in_turn(scene), endpoints, 40)


async def test_concurrent_relays_keep_the_order(scene: Scene, second: Store) -> None:
    """The relays run while rows are published and deliveries are made."""
    endpoints = [await scene.endpoint() for _ in range(2)]
    turns = interleaved(25)
    published = asyncio.Event()

    async def publishing() -> None:
        await publish_turns(scene, turns)
        published.set()

    async def relaying(store: Store, limit: int) -> int:
        moved = 0
        while True:
            done = published.is_set()
            report = await store.pipeline.relay(limit)
            moved += report.relayed
            if done and not (await store.repair.outbox()).waiting:
                return moved

    moved = await asyncio.gather(publishing(), relaying(scene.store, 2), relaying(second, 7), relaying(second, 60))
    assert sum(moved[1:]) == len(turns)
    check(await sent_in_turn(scene), endpoints, 25)


async def test_a_retry_delays_only_its_own_key(scene: Scene) -> None:
    endpoint, other = await scene.endpoint(), await scene.endpoint()
    await publish_turns(scene, [("a", 0), ("b", 0)])
    assert (await scene.store.pipeline.relay(10)).relayed == 2
    jobs = await scene.claim()
    (head,) = [job for job in jobs if (job.endpoint_no, job.ordering_key) == (endpoint.no, "a")]
    await scene.record(factory.retry(head, after=3600.0), *(factory.delivered(job) for job in jobs if job != head))
    await publish_turns(scene, [("a", 1), ("b", 1), (None, 0)])
    assert (await scene.store.pipeline.relay(10)).relayed == 3
    assert await sent_in_turn(scene) == {
        (endpoint.no, "b"): [1],
        (endpoint.no, None): [0],
        (other.no, "a"): [1],
        (other.no, "b"): [1],
        (other.no, None): [0],
    }
    await scene.age(3600.0)
    assert (await sent_in_turn(scene))[endpoint.no, "a"] == [0, 1]


async def test_an_invalid_row_delays_no_other_row(scene: Scene) -> None:
    """The invalid row is set aside. After a retry it comes after those that were relayed meanwhile."""
    endpoint = await scene.endpoint()
    await publish(scene.raw, "nobody's", ordering_key="a", payload=_payload("a", 2))
    await publish_turns(scene, [("a", 0), ("a", 1)])
    report = await scene.store.pipeline.relay(10)
    assert (report.relayed, report.set_aside) == (2, 1)
    await scene.raw.execute("UPDATE outbox SET app = $1", scene.app.id)
    assert await scene.store.repair.retry_set_aside(None) == 1
    await publish_turns(scene, [("a", 3)])
    assert (await scene.store.pipeline.relay(10)).relayed == 2
    assert (await sent_in_turn(scene))[endpoint.no, "a"] == [0, 1, 2, 3]


# ── other databases ──


@pytest.mark.parametrize("step", [1, 3, 1000])
async def test_copies_keep_the_order_of_each_key(scene: Scene, step: int) -> None:
    endpoints = [await scene.endpoint() for _ in range(2)]
    rows = copies(scene, interleaved(5))
    for start in range(0, len(rows), step):
        assert await scene.store.pipeline.take(rows[start : start + step], source="shop") is not None
    check(await sent_in_turn(scene), endpoints, 5)


async def test_a_second_copy_does_not_change_the_order(scene: Scene) -> None:
    """A process died before the copied rows were deleted, and the first of them are being sent."""
    endpoints = [await scene.endpoint()]
    rows = copies(scene, interleaved(4))
    await scene.store.pipeline.take(rows[:9], source="shop")
    jobs = await scene.claim()
    report = await scene.store.pipeline.take(rows, source="shop")
    assert report is not None
    assert (report.relayed, report.repeated) == (len(rows) - 9, 9)
    await scene.record(*factory.all_delivered(jobs))
    sent = await sent_in_turn(scene)
    for job in jobs:
        sent[job.endpoint_no, job.ordering_key].insert(0, _turn(job))
    check(sent, endpoints, 4)


async def test_two_processes_that_copy_one_file_copy_each_row_once(scene: Scene, second: Store) -> None:
    """Both processes read the same rows from the same position. The rows are copied once, and in order."""
    endpoints = [await scene.endpoint()]
    rows = copies(scene, interleaved(6))
    after: OutboxPlace | None = None
    for start in range(0, len(rows), 5):
        part = rows[start : start + 5]
        place = OutboxPlace(row_id=part[-1].id, row_uid=f"uid-{part[-1].id}")
        reports = await asyncio.gather(
            *(store.pipeline.take(part, source="shop", place=place, after=after) for store in (scene.store, second))
        )
        assert [report.relayed for report in reports if report is not None] == [len(part)]
        after = place
    check(await sent_in_turn(scene), endpoints, 6)
