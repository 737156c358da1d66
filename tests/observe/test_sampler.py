"""The sampler: how often it counts, how it handles an unavailable database, and which endpoints it names."""

from __future__ import annotations

import asyncio
import hashlib
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from hookline.clock import EPOCH
from hookline.errors import StoreUnavailable
from hookline.model.depths import Depths
from hookline.model.measures import EndpointLabels
from hookline.model.pulses import Pulse
from hookline.observe.sampler import MAX_NAMED, Sampler
from hookline.store import COUNTING
from tests.support.measured import measuring
from tests.support.scene import Scene


class Counted:
    """The monitoring part of a store, whose count takes a given time, or fails."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.asked: list[float] = []
        self.seconds = 0.0
        self.away = False

    async def depths(self, *, fresh: float) -> Depths:
        self.asked.append(fresh)
        if self.away:
            raise StoreUnavailable("away")
        return replace(await self._scene.store.monitoring.depths(), seconds=self.seconds)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scene.store.monitoring, name)

    @property
    def store(self) -> Any:
        return SimpleNamespace(monitoring=self, catalogue=self._scene.store.catalogue)


@pytest.mark.parametrize("engine", ["sqlite"])
async def test_a_slow_count_makes_the_sampler_count_less_often(scene: Scene) -> None:
    counted = Counted(scene)
    sampler = Sampler(counted.store, every=5.0)
    for seconds, rest in ((0.01, 5.0), (0.1, 5.0), (2.0, 2.0 * COUNTING)):
        counted.seconds = seconds
        await sampler.take()
        assert sampler._interval() == pytest.approx(rest)
        assert seconds / sampler._interval() <= 0.02
    assert counted.asked == [5.0, 5.0, 5.0]


@pytest.mark.parametrize("engine", ["sqlite"])
async def test_while_the_database_is_unavailable_the_last_sample_stays(scene: Scene) -> None:
    counted = Counted(scene)
    sampler = Sampler(counted.store)
    counted.away = True
    await sampler.take()
    assert sampler.last is None
    counted.away = False
    await sampler.take()
    first = sampler.last
    assert first is not None
    counted.away = True
    await sampler.take()
    after = sampler.last
    assert after is not None
    assert after.depths == first.depths
    assert after.read_at == first.read_at


async def test_the_sampler_runs_until_it_is_stopped(scene: Scene) -> None:
    counted = Counted(scene)  # a count without cost, because the sampler pauses for long after a slow one
    sampler, stop = Sampler(counted.store, every=0.01), asyncio.Event()  # the sampler uses no other part of the store
    running = asyncio.create_task(sampler.run(stop))
    await scene.endpoint()
    await scene.send(3)
    async with asyncio.timeout(60):
        while (found := sampler.last) is None or found.depths.due != 3:
            await asyncio.sleep(0.01)  # the sampler runs in another task, so there is no event to await
    stop.set()
    await running


# ── endpoints ──


async def beat(scene: Scene, endpoints: dict[int, list[int]]) -> None:
    await scene.store.monitoring.add_pulse("one", Pulse(at=EPOCH, endpoints=endpoints))


@pytest.mark.parametrize("labels", list(EndpointLabels))
async def test_endpoints_are_named_only_if_configured(scene: Scene, labels: EndpointLabels) -> None:
    sick, well = await scene.endpoint(), await scene.endpoint()
    await beat(scene, {sick.no: [1, 3]})
    await beat(scene, {sick.no: [0, 2], well.no: [9, 1]})
    hashed = {each.id: hashlib.sha256(each.id.encode()).hexdigest()[:12] for each in (sick, well)}
    sampler = Sampler(scene.store, endpoints=labels, every=0.0)
    async with measuring(scene, sampler=sampler) as measured:
        found = await measured.sampled()
    names = {each: hashed[each] if labels == EndpointLabels.HASHED else each for each in hashed}
    if labels == EndpointLabels.OFF:
        assert not any("endpoint_" in name for name in found.kinds)
        return
    assert found.by("hookline_endpoint_failures", "endpoint") == {names[sick.id]: 5, names[well.id]: 1}
    assert found.by("hookline_endpoint_attempts", "endpoint") == {names[sick.id]: 6, names[well.id]: 10}


@pytest.mark.parametrize("engine", ["sqlite"])
async def test_only_the_most_failing_endpoints_are_named_and_only_for_a_while(scene: Scene) -> None:
    endpoints = [await scene.endpoint() for _ in range(MAX_NAMED + 3)]
    await beat(scene, {each.no: [0, 1 + at] for at, each in enumerate(endpoints)} | {987_654: [0, 99]})
    sampler = Sampler(scene.store, endpoints=EndpointLabels.TOP, every=0.0)
    await sampler.take()
    found = sampler.last
    assert found is not None
    named = list(found.endpoints)
    assert named == [each.id for each in reversed(endpoints)][: MAX_NAMED - 1]  # the deleted endpoint takes one place
    await scene.age(400)
    await sampler.take()
    assert (after := sampler.last) is not None
    assert after.endpoints == {}
