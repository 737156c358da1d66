"""Relay: outbox rows become messages. Polls always; a wake-up only shortens the wait."""

from __future__ import annotations

import asyncio

import structlog

from hookline.errors import StoreUnavailable
from hookline.flow.outage import Outage, pause
from hookline.store.base import Store

log = structlog.get_logger()

BATCH = 500


class Relay:
    def __init__(self, store: Store, outage: Outage, *, poll: float = 0.1) -> None:
        self._store = store
        self._outage = outage
        self._poll = poll

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            try:
                moved = await self.once()
            except StoreUnavailable as error:
                await self._outage.failed("relay", error, stop)
                continue
            except Exception:
                log.exception("relay_failed")
                moved = 0
            if moved < BATCH:
                await pause(self._poll, stop)

    async def once(self) -> int:
        """One batch; how many rows left the outbox's queue."""
        report = await self._store.relay(BATCH)
        self._outage.passed()
        if report.set_aside:
            log.error("outbox_rows_set_aside", count=report.set_aside, reasons=report.reasons)
        if report.relayed:
            self._store.wake()
        return report.relayed + report.repeated + report.set_aside
