"""Watch: every few seconds one process of the fleet asks the rules, and tells what changed.

There is no leader to lose: whoever comes first when a look is due takes it, under a lock and in one transaction with what is
told. What fires and what is pending is in the database, so that the next one goes on where the last one ended.
"""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta

import structlog
from msgspec import Struct

from hookline.engine.alerting import channels as alert_channels
from hookline.engine.alerting.mail import Mailer, Post
from hookline.errors import HooklineError, StoreUnavailable
from hookline.model.alerts import Change, EarlierChecks, Notice, Remembered, Severity
from hookline.model.pulses import Pulse
from hookline.rules.alerts import conditions, wording
from hookline.rules.alerts.conditions import FleetState, Thresholds
from hookline.rules.alerts.transitions import judge
from hookline.rules.alerts.wording import Channels
from hookline.rules.guard import Guard
from hookline.store.outage import pause
from hookline.store.protocols import Store

log = structlog.get_logger()

EVERY = 15.0  # seconds between two looks of the whole fleet
FRESH = 5.0  # seconds that depths may be old
SPREAD = 1.0  # seconds over which the processes come, when a look is due
MAX_UNWELL = 1_000  # endpoints that one look knows of
DAY = timedelta(days=1)
LOOKED_BACK = timedelta(hours=1)  # the longest window of any rule


class WatchSettings(Struct, frozen=True, kw_only=True):
    thresholds: Thresholds = Thresholds()
    channels: Channels = Channels()
    guard: Guard
    ca_bundle: str | None = None
    every: float = EVERY
    fresh: float = FRESH


class Watch:
    """One per process."""

    def __init__(self, store: Store, settings: WatchSettings, chance: random.Random) -> None:
        self._store = store
        self._settings = settings
        self._chance = chance
        self._settled = False
        channels = settings.channels
        self._mailer = (
            Mailer(Post(channels.smtp_url, settings.ca_bundle).send) if channels.smtp_url and channels.emails else None
        )

    async def run(self, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as parts:
            if self._mailer is not None:
                parts.create_task(self._mailer.run(stop))
            parts.create_task(self._look_until(stop))

    async def _look_until(self, stop: asyncio.Event) -> None:
        await pause(self._chance.uniform(0.0, SPREAD), stop)
        while not stop.is_set():
            await pause(await self._safely(), stop)

    async def _safely(self) -> float:
        """Seconds to the next look. What needs the database more than this says that it is away."""
        try:
            seconds = await self.look()
        except StoreUnavailable:
            return self._settings.every
        except Exception:
            log.exception("alerts_failed")
            return self._settings.every
        return seconds + self._chance.uniform(0.0, SPREAD)

    async def look(self) -> float:
        """Ask the rules, if it is time; seconds until it is again."""
        if not self._settled:
            await self._settle()
        every = self._settings.every
        seen = await self._store.alert_looks(conditions.history_needed(self._settings.thresholds.backlog_growing))
        wait = until_due(seen, every)
        if wait > 0:
            return wait
        sight = await self._sight(seen)
        notices = await self._judge(sight)
        for notice in notices or ():
            self._tell(notice)
        return every

    async def _settle(self) -> None:
        settings = self._settings
        try:
            await alert_channels.settle(self._store, settings.guard, settings.channels)
        except StoreUnavailable:
            raise
        except HooklineError as error:
            log.error("alert_channel_refused", error=str(error))
        self._settled = True

    # ── see ──

    async def _sight(self, seen: EarlierChecks) -> FleetState:
        store, thresholds, now = self._store, self._settings.thresholds, seen.now
        pulses = await self._pulses(seen)
        failed = conditions.failed_lately(pulses, now, thresholds)
        usual = 0.0
        if thresholds.dead_letters_growing and conditions.deaths(pulses, now) > conditions.LEAST_DEATHS:
            usual = conditions.usual_deaths(await store.pulses(now - DAY, minutes=True), now)
        return FleetState(
            now=now,
            depths=await store.depths(fresh=self._settings.fresh),
            pulses=pulses,
            checks=seen.checks,
            unhealthy=await store.unwell(failed, MAX_UNWELL),
            usual_deaths=usual,
        )

    async def _pulses(self, seen: EarlierChecks) -> list[Pulse]:
        """By the minute as far as there are minutes: of a large fleet they are fewer by far."""
        since = seen.now - LOOKED_BACK
        minutes = await self._store.pulses(since, minutes=True)
        latest = await self._store.pulses(minutes[-1].at if minutes else since)
        return [*minutes, *latest]

    # ── judge, tell ──

    async def _judge(self, sight: FleetState) -> list[Notice] | None:
        readings = conditions.readings(sight, self._settings.thresholds)
        channels = self._settings.channels

        def decide(known: Remembered) -> list[Change]:
            return judge(readings, known)

        return await self._store.judge_alerts(
            sight.depths.due,
            every=self._settings.every,
            decide=decide,
            tell=lambda notice: wording.outgoing(notice, channels),
        )

    def _tell(self, notice: Notice) -> None:
        said = wording.log_fields(notice)
        if notice.resolved:
            log.info("alert_resolved", **said)
        elif notice.alert.severity == Severity.CRITICAL:
            log.error("alert_firing", **said)
        else:
            log.warning("alert_firing", **said)
        if self._mailer is not None:
            self._mailer.post(wording.mail(notice, self._settings.channels))


def until_due(seen: EarlierChecks, every: float) -> float:
    """Seconds. A last look that lies ahead was made by a clock that has been set back since: it does not count."""
    if not seen.checks:
        return 0.0
    ago = (seen.now - seen.checks[-1].at).total_seconds()
    return every - ago if 0 <= ago < every else 0.0
