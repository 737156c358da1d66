"""Evaluates the alert rules every few seconds, in one process at a time, and sends the alerts that changed.

There is no leader. When a check is due, the first process takes a lock and does the check. It writes the changed
alerts and the webhooks about them in one transaction. The state of all alerts is in the database, so any process can
do the next check.
"""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta

import structlog
from msgspec import Struct

from hookline.engine.alerting import channels as alert_channels
from hookline.engine.alerting.mail import Mailer, MailTransport
from hookline.errors import HooklineError, StoreUnavailable
from hookline.model.alerts import EarlierChecks, Notice, Severity
from hookline.observe.fleet_history import latest_pulses
from hookline.rules.alerts import conditions, wording
from hookline.rules.alerts.conditions import FleetState, Thresholds
from hookline.rules.alerts.transitions import judge
from hookline.rules.alerts.wording import Channels
from hookline.rules.guard import Guard
from hookline.store import Store
from hookline.store.outage import pause

log = structlog.get_logger()

EVERY = 15.0  # seconds from one check of the alert rules to the next, whichever process makes the checks
FRESH = 5.0  # maximum age in seconds of the cached `Depths` that a check reads
SPREAD = 1.0  # seconds; each process adds a random delay up to this, so that not all of them check at once
MAX_UNWELL = 1_000  # maximum number of endpoints that one check reads because their circuit is not closed
DAY = timedelta(days=1)
LOOKED_BACK = timedelta(hours=1)  # the longest time range that any alert rule reads


class WatchSettings(Struct, frozen=True, kw_only=True):
    thresholds: Thresholds = Thresholds()
    channels: Channels = Channels()
    guard: Guard
    ca_bundle: str | None = None
    every: float = EVERY
    fresh: float = FRESH


class Watch:
    """Runs the checks of one process."""

    def __init__(self, store: Store, settings: WatchSettings, chance: random.Random) -> None:
        self._store = store
        self._settings = settings
        self._chance = chance
        # False until `_settle` has set up the endpoints of the alert channels. Each check calls `_settle` until then.
        # If the guard refuses the URL of a channel, this becomes True as well, because the guard would refuse the URL
        # again. Endpoints that `_settle` did not reach before an error stay as they are until the process starts again.
        self._has_endpoints = False
        channels = settings.channels
        self._mailer: Mailer | None = None
        if channels.smtp_url and channels.emails:
            self._mailer = Mailer(MailTransport(channels.smtp_url, settings.ca_bundle).send)

    async def run(self, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as parts:
            if self._mailer is not None:
                parts.create_task(self._mailer.run(stop))
            parts.create_task(self._check_until(stop))

    async def _check_until(self, stop: asyncio.Event) -> None:
        await pause(self._chance.uniform(0.0, SPREAD), stop)
        while not stop.is_set():
            seconds = self._settings.every
            try:
                seconds = await self.check() + self._chance.uniform(0.0, SPREAD)
            except StoreUnavailable:
                pass  # other parts of the process log the outage of the database
            except Exception:
                log.exception("alerts_failed")
            await pause(seconds, stop)

    async def check(self) -> float:
        """Evaluate the rules if a check is due. Return the seconds until the next one is due."""
        if not self._has_endpoints:
            await self._settle()
        every = self._settings.every
        history = conditions.history_needed(self._settings.thresholds.backlog_growing)
        earlier = await self._store.monitoring.alert_checks(history)
        wait = until_due(earlier, every)
        if wait > 0:
            return wait
        notices = await self._judge(await self._read(earlier))
        for notice in notices or ():
            self._announce(notice)
        return every

    async def _settle(self) -> None:
        settings = self._settings
        try:
            refused = await alert_channels.settle(self._store, settings.guard, settings.channels)
        except StoreUnavailable:
            raise
        except HooklineError as error:
            log.error("alert_channel_refused", error=str(error))
        else:
            for channel, refusal in refused.items():
                log.error("alert_channel_refused", channel=channel, error=str(refusal))
        self._has_endpoints = True

    # ── read ──

    async def _read(self, earlier: EarlierChecks) -> FleetState:
        """Read the values that the alert rules need."""
        store, thresholds, now = self._store, self._settings.thresholds, earlier.now
        pulses = await latest_pulses(store.monitoring.pulses, now - LOOKED_BACK)
        failed = conditions.failed_lately(pulses, now, thresholds)
        usual = 0.0
        if thresholds.dead_letters_growing and conditions.deaths(pulses, now) > conditions.LEAST_DEATHS:
            usual = conditions.usual_deaths(await store.monitoring.pulses(now - DAY, minutes=True), now)
        return FleetState(
            now=now,
            depths=await store.monitoring.depths(fresh=self._settings.fresh),
            pulses=pulses,
            checks=earlier.checks,
            unhealthy=await store.monitoring.unhealthy_endpoints(failed, MAX_UNWELL),
            usual_deaths=usual,
        )

    # ── judge and announce ──

    async def _judge(self, sight: FleetState) -> list[Notice] | None:
        readings = conditions.readings(sight, self._settings.thresholds)
        return await self._store.monitoring.judge_alerts(
            sight.depths.due,
            every=self._settings.every,
            decide=lambda known: judge(readings, known),
            tell=lambda notice: wording.outgoing(notice, self._settings.channels),
        )

    def _announce(self, notice: Notice) -> None:
        fields = wording.log_fields(notice)
        if notice.resolved:
            log.info("alert_resolved", **fields)
        elif notice.alert.severity == Severity.CRITICAL:
            log.error("alert_firing", **fields)
        else:
            log.warning("alert_firing", **fields)
        if self._mailer is not None:
            self._mailer.post(wording.mail(notice, self._settings.channels))


def until_due(earlier: EarlierChecks, every: float) -> float:
    """Return the seconds until the next check is due. Return 0 if the last check has a time in the future: the clock
    was set back since then."""
    if not earlier.checks:
        return 0.0
    ago = (earlier.now - earlier.checks[-1].at).total_seconds()
    return every - ago if 0 <= ago < every else 0.0
