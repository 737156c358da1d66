"""Bytes of large payloads in flight: a claim leases what fits, and leaves the rest in the lane."""

from __future__ import annotations

from msgspec.structs import replace

from hookline.model.deliveries import ByteBudget, ClaimBatch, SlotBudgets
from hookline.model.endpoints import Endpoint
from hookline.model.states import Circuit, DeliveryState
from hookline.rules.claim.budgets import LARGE
from hookline.rules.lane.admission import REFUSED_PAUSE
from tests.support import factory
from tests.support.scene import Scene

SIZE = 100_000
PAYLOAD = b'"' + b"x" * (SIZE - 2) + b'"'


async def claim(
    scene: Scene, free: int, held: int = 0, *, want: int = 50, part: float = 1.0, **more: object
) -> ClaimBatch:
    budget = ByteBudget(free=free, by_app={scene.app.no: held} if held else {})
    budgets = replace(SlotBudgets(lane_limit=100, app_part=part, bytes=budget), **more)
    return await scene.store.pipeline.claim(want, budgets)


async def with_large(scene: Scene, count: int, **fields: object) -> Endpoint:
    endpoint = await scene.endpoint(**fields)
    await scene.send(count, payload=PAYLOAD)
    return endpoint


async def test_a_claim_leases_the_large_payloads_that_fit(scene: Scene) -> None:
    endpoint = await with_large(scene, 5)
    batch = await claim(scene, 3 * SIZE - 10)
    assert [job.payload for job in batch.jobs] == [PAYLOAD] * 3
    assert (batch.refused, set(batch.heavy)) == ({endpoint.no: scene.app.no}, {endpoint.no})
    assert await scene.raw.count("delivery", "state < 2") == 2
    await scene.store.pipeline.record(factory.all_delivered(batch.jobs), wake={endpoint.no})
    rest = await claim(scene, 10 * SIZE)
    assert (len(rest.jobs), rest.refused, set(rest.heavy)) == (2, {}, set())


async def test_the_deliveries_that_stay_keep_their_order_and_their_attempts(scene: Scene) -> None:
    await with_large(scene, 4)
    before = await scene.raw.rows("SELECT id, due_at, attempts, sent, expires_at FROM delivery ORDER BY due_at, id")
    batch = await claim(scene, SIZE)
    left = await scene.raw.rows(
        "SELECT id, due_at, attempts, sent, expires_at FROM delivery WHERE state < 2 ORDER BY due_at, id"
    )
    assert [job.delivery_id for job in batch.jobs] == [before[0]["id"]]
    assert [dict(row) for row in left] == [dict(row) for row in before[1:]]
    assert await scene.raw.count("delivery", "state < 2 AND (claim IS NOT NULL OR lease_until IS NOT NULL)") == 0


async def test_a_payload_larger_than_the_room_is_leased_if_there_is_room_at_all(scene: Scene) -> None:
    """Otherwise it would wait until smaller payloads leave enough room, which may never happen."""
    await with_large(scene, 3)
    assert len((await claim(scene, 1)).jobs) == 1


async def test_a_lane_without_room_for_bytes_is_not_due_again_at_once(scene: Scene) -> None:
    """The lane has more deliveries than one claim may take from it."""
    endpoint = await with_large(scene, 20)
    free, held = 2 * SIZE, 6 * SIZE
    first = await claim(scene, free, held, part=0.75, lane_limit=8)
    assert (first.jobs, first.refused) == ([], {endpoint.no: scene.app.no})
    for _ in range(10):
        before = await scene.raw.now()
        batch = await claim(scene, free, held, part=0.75, lane_limit=8, heavy={endpoint.no})
        assert batch.jobs == []
        if batch.refused:
            [token] = await scene.tokens(endpoint)
            assert token["at"] >= before + REFUSED_PAUSE


async def test_no_large_payload_is_leased_while_all_bytes_are_used(scene: Scene) -> None:
    endpoint = await with_large(scene, 3)
    batch = await claim(scene, 0)
    assert (batch.jobs, batch.refused) == ([], {endpoint.no: scene.app.no})


async def test_an_application_gets_a_part_of_the_bytes(scene: Scene) -> None:
    """It may hold three times as many bytes as stay free."""
    await with_large(scene, 10)
    assert len((await claim(scene, 8 * SIZE, part=0.75)).jobs) == 6


async def test_small_payloads_need_no_bytes(scene: Scene) -> None:
    await scene.endpoint(event_types=("small",))
    await scene.endpoint(event_types=("large",))
    await scene.send(3, payload=PAYLOAD, event_type="large")
    await scene.send(7, payload=b'"' + b"y" * (LARGE - 2) + b'"', event_type="small")
    jobs = (await claim(scene, 0)).jobs
    assert [len(job.payload) for job in jobs] == [LARGE] * 7


async def test_a_lane_that_waits_for_bytes_is_not_looked_at_again_at_once(scene: Scene) -> None:
    endpoint = await with_large(scene, 30)
    first = await claim(scene, 2 * SIZE, want=10)
    again = await claim(scene, 0, 2 * SIZE, heavy=first.heavy)
    tokens = await scene.tokens(endpoint)
    assert (len(first.jobs), again.jobs, len(tokens)) == (2, [], 1)
    assert tokens[0]["at"] > first.now


async def test_silent_lanes_have_bytes_of_their_own(scene: Scene) -> None:
    answering, silent = await scene.endpoint(event_types=("a",)), await scene.endpoint(event_types=("s",))
    for kind in ("a", "s"):
        await scene.send(4, payload=PAYLOAD, event_type=kind)
    budgets = SlotBudgets(
        lane_limit=100,
        windows={answering.no: 50},
        first_window=50,
        silent_free=50,
        bytes=ByteBudget(free=3 * SIZE),
        silent_bytes=ByteBudget(free=2 * SIZE),
    )
    batch = await scene.store.pipeline.claim(50, budgets)
    assert sorted(job.endpoint_no for job in batch.jobs) == [answering.no] * 3 + [silent.no] * 2


async def test_a_limited_lane_counts_only_what_was_leased(scene: Scene) -> None:
    endpoint = await with_large(scene, 5, concurrency=4)
    batch = await claim(scene, 2 * SIZE)
    assert (len(batch.jobs), (await scene.lane(endpoint)).in_flight) == (2, 2)
    await scene.record(*factory.all_delivered(batch.jobs))
    assert (await scene.lane(endpoint)).in_flight == 0
    await scene.age(60)
    assert len((await claim(scene, 10 * SIZE)).jobs) == 3


async def test_a_probe_that_does_not_fit_leaves_the_circuit_open(scene: Scene) -> None:
    endpoint = await with_large(scene, 5)
    await scene.store.catalogue.open_circuit(endpoint.no, cause="a test")
    await scene.age(3600)
    assert (await claim(scene, 0)).jobs == []
    assert (await scene.lane(endpoint)).circuit == Circuit.OPEN
    await scene.age(60)
    (probe,) = (await claim(scene, SIZE)).jobs
    assert (probe.probe, probe.payload) == (True, PAYLOAD)


async def test_deliveries_of_one_key_wait_in_order_for_bytes(scene: Scene) -> None:
    await scene.endpoint()
    sent = await scene.send(3, payload=PAYLOAD, ordering_key="k")
    assert (await claim(scene, 0)).jobs == []
    await scene.age(60)
    seen = []
    while jobs := (await claim(scene, SIZE)).jobs:
        seen += [job.message_id for job in jobs]
        await scene.record(*factory.all_delivered(jobs))
    assert seen == sent


async def test_an_expunged_large_payload_is_a_dead_letter(scene: Scene) -> None:
    await scene.endpoint()
    (message,) = await scene.send(payload=PAYLOAD)
    await scene.raw.execute("UPDATE message SET payload = NULL")
    assert (await claim(scene, 10 * SIZE)).jobs == []
    (delivery,) = await scene.store.history.deliveries(message)
    assert delivery.state == DeliveryState.DEAD
