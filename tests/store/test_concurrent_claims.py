"""Five hundred concurrent claims on an open circuit whose probe is due: exactly one probe is sent, whatever its
outcome."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from hookline.model.deliveries import LeasedDelivery, SlotBudgets
from hookline.model.policy import CircuitPolicy
from hookline.model.states import Circuit, DeliveryState
from hookline.store import Store, StoreOptions
from tests.conftest import OpenStoreWith
from tests.support import factory
from tests.support.scene import Scene

CLAIMERS = 500
STORES = 6
LEASE = 600.0


@pytest.fixture
async def claimers(scene: Scene, engine: str, options: StoreOptions, open_store_with: OpenStoreWith) -> list[Store]:
    """Open the stores of the workers. On PostgreSQL each has ten connections for claims. SQLite has one writer."""
    of_worker = replace(options, pool_size=17 if engine == "postgres" else 3, lease=LEASE)
    return [await open_store_with(of_worker) for _ in range(STORES)]


async def claims(claimers: Sequence[Store], count: int = CLAIMERS) -> list[LeasedDelivery]:
    """Run `count` concurrent claims, spread over all stores, and return their jobs."""
    turns = itertools.islice(itertools.cycle(claimers), count)
    batches = await asyncio.gather(*(store.pipeline.claim(50, SlotBudgets(lane_limit=50)) for store in turns))
    return [job for batch in batches for job in batch.jobs]


async def test_five_hundred_claimers_send_one_probe(scene: Scene, claimers: list[Store]) -> None:
    endpoint = await scene.endpoint()
    await scene.trip(endpoint)
    for _ in range(40):
        await scene.send(5)  # each send adds a token for the claimers
    await scene.age(5000)
    jobs = await claims(claimers)
    assert [(job.endpoint_no, job.probe, job.counted) for job in jobs] == [(endpoint.no, True, True)]
    lane = await scene.lane(endpoint)
    assert (lane.circuit, lane.in_flight) == (Circuit.HALF_OPEN, 1)
    assert await claims(claimers) == []


async def test_each_expired_lease_of_a_probe_leads_to_one_new_probe(scene: Scene, claimers: list[Store]) -> None:
    """Sweeps run beside the claims, as in every worker."""
    endpoint = await scene.endpoint()
    await scene.trip(endpoint, 8)
    await scene.age(5000)
    probes: list[LeasedDelivery] = []
    for _ in range(3):
        found, *_ = await asyncio.gather(claims(claimers), *(store.upkeep.sweep_leases() for store in claimers))
        probes += found
        await scene.age(LEASE / 2)
        assert await claims(claimers, 60) == []  # the probe in flight still holds the lane
        await scene.age(LEASE / 2 + 1)
    assert [job.probe for job in probes] == [True] * 3
    assert len({job.epoch for job in probes}) == 3
    lane = await scene.lane(endpoint)
    assert lane.circuit == Circuit.HALF_OPEN


@pytest.mark.store_options(circuit=CircuitPolicy(recovery_rate=1000.0))  # only the recovery window limits the claims
async def test_a_successful_probe_allows_no_more_than_the_recovery_window(scene: Scene, claimers: list[Store]) -> None:
    endpoint = await scene.endpoint()
    await scene.trip(endpoint)
    await scene.send(200)
    await scene.age(5000)
    (probe,) = await claims(claimers)
    await scene.record(factory.delivered(probe))
    jobs = await claims(claimers)
    lane = await scene.lane(endpoint)
    assert lane.circuit == Circuit.RECOVERING
    assert len(jobs) == lane.in_flight == lane.window == 2
    assert await scene.state(probe.message_id) == DeliveryState.DELIVERED


# The probe becomes due while the claims run, so some claims see it as due and others do not.
@pytest.mark.store_options(circuit=CircuitPolicy(cooldown=1.0))
async def test_one_probe_is_sent_when_it_becomes_due_during_the_claims(scene: Scene, claimers: list[Store]) -> None:
    endpoint = await scene.endpoint()
    await scene.trip(endpoint)
    due = (await scene.lane(endpoint)).probe_at
    assert due is not None
    probes: list[LeasedDelivery] = []
    while (now := await scene.store.now()) <= due or not probes:
        probes += await claims(claimers)
        assert (now - due).total_seconds() < 60
    assert [job.probe for job in probes + await claims(claimers)] == [True]
