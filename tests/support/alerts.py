"""A fleet of one process that works, beats and watches, step by step: what it counts is what it did to a real store."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from hookline.engine.alerting.watch import Watch, WatchSettings
from hookline.engine.heartbeat import Heartbeat
from hookline.model import LeasedDelivery, Result
from hookline.model.alerts import Alert
from hookline.model.states import Health
from hookline.observe.tally import Tally
from hookline.rules.alerts.conditions import Thresholds
from hookline.rules.alerts.wording import Channels
from hookline.rules.guard import Guard
from hookline.store import Store
from hookline.store.protocols import Page
from tests.support import factory
from tests.support.scene import Scene

EVERY = 15.0
OFF: dict[str, Any] = dict.fromkeys(Thresholds.__struct_fields__, 0) | {"circuits": False, "endpoint_for": 900.0}

Outcome = Callable[[LeasedDelivery], Result]


def only(**thresholds: Any) -> Thresholds:
    """All other rules are off."""
    return Thresholds(**(OFF | thresholds))


def fails(job: LeasedDelivery) -> Result:
    """Without a word on the endpoint's health: its circuit stays closed."""
    return factory.retry(job, after=0.0, health=Health.NONE)


class Fleet:
    def __init__(
        self,
        scene: Scene,
        thresholds: Thresholds | None = None,
        channels: Channels | None = None,
        *,
        store: Store | None = None,
        guard: Guard | None = None,
    ) -> None:
        self.scene = scene
        self.store = store or scene.store
        self.tally = Tally()
        self._heart = Heartbeat(self.store, self.tally, random.Random(factory.number()))
        settings = WatchSettings(
            thresholds=thresholds or Thresholds(),
            channels=channels or Channels(),
            guard=guard or Guard(),
            every=EVERY,
            fresh=0.0,
        )
        self.watch = Watch(self.store, settings, random.Random(1))

    async def attempt(self, count: int, outcome: Outcome, **fields: Any) -> list[Result]:
        """Messages that are claimed and come to that; counted as a worker counts them."""
        await self.scene.send(count)
        return await self.work(outcome, **fields)

    async def work(self, outcome: Outcome, most: int | None = None, **fields: Any) -> list[Result]:
        """What is due comes to that."""
        jobs = await self.scene.claim_all() if most is None else await self.scene.claim(most)
        results = [_ended(outcome(job), **fields) for job in jobs]
        if results:
            await self.record(results)
        return results

    async def record(self, results: Sequence[Result]) -> None:
        self.tally.recorded(results, await self.store.record(results), 0.001)

    async def beat(self) -> None:
        await self._heart.beat()

    async def check(self) -> None:
        """It is time for one."""
        await self.scene.age(EVERY)
        await self.watch.look()

    async def check_for(self, seconds: float) -> None:
        """As often as the rules are asked in that time."""
        for _ in range(round(seconds / EVERY)):
            await self.check()

    async def settle(self, seconds: float = 0.0) -> None:
        """After that time, and after the time that an alert must be over before it is resolved."""
        await self.scene.age(seconds)
        await self.check()
        await self.scene.age(120.0 - EVERY)
        await self.check()

    async def firing(self) -> list[Alert]:
        return await self.store.alerts(Page(limit=100), firing=True)

    async def resolved(self) -> list[Alert]:
        return await self.store.alerts(Page(limit=100), firing=False)

    async def names(self) -> list[str]:
        return sorted(alert.name for alert in await self.firing())


def _ended(result: Result, **fields: Any) -> Result:
    """The answer came when the request took its time after the claim."""
    took = timedelta(microseconds=result.sent.timing.total)
    return replace(result, ended_at=result.job.claimed_at + took, **fields)
