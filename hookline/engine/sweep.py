"""Sweep: periodic clean-up, such as expired leases and retention. Every worker runs it; a lock lets one at a time do
the work."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import structlog
from msgspec import Struct

from hookline.clock import monotonic
from hookline.engine import deaths
from hookline.errors import StoreUnavailable
from hookline.model.sweep import SweepReport
from hookline.observe.tally import Tally
from hookline.observe.traces import Traces
from hookline.rules.redaction import loggable
from hookline.store import Store
from hookline.store.outage import Outage, pause

log = structlog.get_logger()

BATCH = 1000


class SweepSettings(Struct, frozen=True, kw_only=True):
    lease: float = 60.0  # seconds of a lease: how long a worker may hold a delivery
    pause_dead: int = 100  # dead letters in a day that pause an endpoint
    disable_after: float = 5 * 86_400.0  # seconds of steady failure that disable an endpoint
    every: float = 1.0  # seconds between two searches for expired leases and time budgets


class Sweeper:
    def __init__(
        self,
        store: Store,
        settings: SweepSettings,
        outage: Outage,
        chance: random.Random,
        tally: Tally | None = None,
        traces: Traces | None = None,
    ) -> None:
        self._tally = tally or Tally()
        self._traces = traces
        self._store = store
        self._settings = settings
        self._outage = outage
        self._chance = chance
        every = settings.every
        self._chores: list[tuple[float, Callable[[], Awaitable[SweepReport | None]]]] = [
            (every, self._leases),
            (every, lambda: store.upkeep.sweep_expired(BATCH)),
            (every * 5, lambda: store.upkeep.sweep_clock(BATCH)),
            (every * 5, lambda: store.upkeep.sweep_deleted(BATCH)),
            (every * 60, self._failing),
            (every * 60, store.upkeep.retire),
            (every * 60, store.monitoring.roll_pulses),
            (every * 300, self._stuck_lanes),
        ]
        # The first run of each chore comes at a random point of its interval, so that many workers do not run it
        # together.
        self._due = [monotonic() + chance.uniform(0, interval) for interval, _ in self._chores]

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            try:
                await self.once()
            except StoreUnavailable as error:
                await self._outage.failed("sweep", error, stop)
            except Exception:
                log.exception("sweep_failed")
            await pause(max(0.01, min(self._due) - monotonic()), stop)

    async def once(self) -> None:
        """Run every periodic job (chore) that is due. A chore that handled a full batch is due again at once."""
        for index, (interval, chore) in enumerate(self._chores):
            if self._due[index] > monotonic():
                continue
            self._due[index] = monotonic() + interval * self._chance.uniform(0.9, 1.1)
            report = await chore()
            if report is None:
                continue
            self._outage.passed()
            self._tally.swept(report)
            await self._log(report)
            if max(report.leases, len(report.deaths), report.retired) >= BATCH or _moving(report):
                self._due[index] = monotonic()

    async def _leases(self) -> SweepReport | None:
        """Put deliveries with an expired lease back into their lanes. While the database was not reachable, workers
        could not record outcomes. So after an outage, they get the length of one lease to do so."""
        overdue = self._outage.lease_overdue(self._settings.lease)
        return None if overdue is None else await self._store.upkeep.sweep_leases(BATCH, overdue=overdue)

    async def _failing(self) -> SweepReport:
        upkeep, settings = self._store.upkeep, self._settings
        return await upkeep.sweep_failing(pause_dead=settings.pause_dead, disable_after=settings.disable_after)

    async def _stuck_lanes(self) -> SweepReport:
        return SweepReport(repaired=len(await self._store.upkeep.find_stuck_lanes(repair=True)))

    async def _log(self, report: SweepReport) -> None:
        numbers = {event.endpoint_no for event in report.events} | {death.endpoint_no for death in report.deaths}
        names = await deaths.endpoint_names(self._store, numbers)
        for event in report.events:
            log.warning(str(event.kind), endpoint=names.get(event.endpoint_no), cause=loggable(event.cause))
        deaths.report(report.deaths, names, self._traces)
        if report.set_back:
            log.warning("clock_set_back", seconds=round(report.set_back, 1))
        if report.leases:
            log.warning("leases_expired", count=report.leases)
        if report.dead_expired:
            log.warning("dead_letters_expired", count=report.dead_expired)
        if report.retired:
            log.info("history_retired", rows_or_partitions=report.retired)
        if report.repaired:
            log.error("lanes_repaired", count=report.repaired)


def _moving(report: SweepReport) -> bool:
    """Return whether stored times are still being moved after the database's clock was set back."""
    return report.set_back > 0 or report.moved > 0
