"""A process that works, sends heartbeats and checks alert rules, one step at a time, on a real store."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from hookline.engine.alerting.watch import Watch, WatchSettings
from hookline.engine.heartbeat import Heartbeat
from hookline.model.alerts import Alert
from hookline.model.deliveries import LeasedDelivery
from hookline.model.states import Health
from hookline.model.verdicts import Result
from hookline.observe.tally import Tally
from hookline.rules.alerts.conditions import Thresholds
from hookline.rules.alerts.wording import Channels
from hookline.rules.guard import Guard
from hookline.store import Page, Store
from tests.support import factory
from tests.support.scene import Scene

EVERY = 15.0
OFF: dict[str, Any] = dict.fromkeys(Thresholds.__struct_fields__, 0) | {"circuits": False, "endpoint_for": 900.0}

Outcome = Callable[[LeasedDelivery], Result]


def only(**thresholds: Any) -> Thresholds:
    """Return these thresholds. Every other rule is switched off."""
    return Thresholds(**(OFF | thresholds))


def fails(job: LeasedDelivery) -> Result:
    """Return a failed attempt that says nothing about the endpoint's health, so its circuit stays closed."""
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
        """Send `count` messages, claim them and record `outcome` for each. The tally counts the attempts."""
        await self.scene.send(count)
        return await self.work(outcome, **fields)

    async def work(self, outcome: Outcome, limit: int | None = None, **fields: Any) -> list[Result]:
        """Claim the deliveries that are due and record `outcome` for each."""
        jobs = await self.scene.claim_all() if limit is None else await self.scene.claim(limit)
        results = [_ended(outcome(job), **fields) for job in jobs]
        if results:
            await self.record(results)
        return results

    async def record(self, results: Sequence[Result]) -> None:
        self.tally.recorded(results, await self.store.pipeline.record(results), 0.001)

    async def beat(self) -> None:
        await self._heart.beat()

    async def check(self) -> None:
        """Move the clock to the next check, then check the rules once."""
        await self.scene.age(EVERY)
        await self.watch.check()

    async def check_for(self, seconds: float) -> None:
        """Check the rules as often as a process does in `seconds`."""
        for _ in range(round(seconds / EVERY)):
            await self.check()

    async def settle(self, seconds: float = 0.0) -> None:
        """Let `seconds` pass, and then the time after which an alert is resolved when its condition is over."""
        await self.scene.age(seconds)
        await self.check()
        await self.scene.age(120.0 - EVERY)
        await self.check()

    async def firing(self) -> list[Alert]:
        return await self.store.monitoring.alerts(Page(limit=100), firing=True)

    async def resolved(self) -> list[Alert]:
        return await self.store.monitoring.alerts(Page(limit=100), firing=False)

    async def names(self) -> list[str]:
        return sorted(alert.name for alert in await self.firing())


def _ended(result: Result, **fields: Any) -> Result:
    """Set the end of the attempt to the claim plus the duration of the request."""
    took = timedelta(microseconds=result.sent.timing.total)
    return replace(result, ended_at=result.job.claimed_at + took, **fields)
