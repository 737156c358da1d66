"""Relay: outbox rows become messages, wherever the outbox is. A wake-up only shortens the wait; every outbox polls too."""

from __future__ import annotations

import asyncio
from typing import Protocol

import structlog

from hookline.clock import monotonic
from hookline.errors import SourceUnavailable, StoreUnavailable
from hookline.model import RelayReport
from hookline.observe.tally import Tally
from hookline.store.outage import Outage, pause
from hookline.store.protocols import Store

log = structlog.get_logger()

BATCH = 500
REST = 1.0  # the longest wait without a look; most outboxes look much sooner
SETTLE = 0.004  # after rows were moved: their delivery goes first, and one look finds what has come meanwhile
AFTER_FAULT = 1.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 30.0


class Outbox(Protocol):
    """Where rows wait to become messages: Hookline's own database, or a source, which is another one."""

    name: str  # for logs; never with a password
    sampled: bool  # whether the database's figures say how long its rows wait

    async def move(self, limit: int) -> RelayReport:
        """Up to `limit` rows become messages. Those that cannot are set aside.

        `StoreUnavailable` if Hookline's own database is away, `SourceUnavailable` if the outbox's is.
        """

    async def wait(self, timeout: float) -> None:
        """Until there may be rows, or the time is over; it may end sooner. A wait that is cancelled leaves nothing behind."""

    async def close(self) -> None: ...


class OwnOutbox:
    """The outbox of Hookline's own database."""

    name = "own"
    sampled = True

    def __init__(self, store: Store) -> None:
        self._store = store

    async def move(self, limit: int) -> RelayReport:
        return await self._store.relay(limit)

    async def wait(self, timeout: float) -> None:
        await self._store.wait_outbox(timeout)

    async def close(self) -> None:
        await self._store.leave_outbox()


class Relay:
    """Moves rows until it is told to stop. What is wrong with one outbox is no matter to the others."""

    def __init__(self, outbox: Outbox, outage: Outage, tally: Tally | None = None) -> None:
        self._tally = tally or Tally()
        self._outbox = outbox
        self._outage = outage
        self._failures = 0  # in a row, of a source
        self._emptied_at = monotonic()  # the last time that nothing more waited

    async def run(self, stop: asyncio.Event) -> None:
        stopped = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                await self._step(stop, stopped)
        finally:
            stopped.cancel()
            await self._outbox.close()

    async def _step(self, stop: asyncio.Event, stopped: asyncio.Task[bool]) -> None:
        try:
            moved = await self.once()
            if moved < BATCH:
                if moved:
                    await pause(SETTLE, stop)
                await self._rest(stopped)
        except StoreUnavailable as error:
            self._note(emptied=False)
            await self._outage.failed("relay", error, stop)
        except SourceUnavailable as error:
            self._note(emptied=False)
            await self._away(error, stop)
        except Exception:
            self._note(emptied=False)
            log.exception("relay_failed", outbox=self._outbox.name)
            await pause(AFTER_FAULT, stop)

    def _note(self, *, emptied: bool) -> None:
        """How long rows wait in an application's database, only its relay can tell: no longer than since it was last empty."""
        if self._outbox.sampled:
            return
        if emptied:
            self._emptied_at = monotonic()
            self._tally.caught_up(self._outbox.name)
        else:
            self._tally.fell_behind(self._outbox.name, self._emptied_at)

    async def once(self) -> int:
        """One batch; how many rows left the outbox's queue."""
        report = await self._outbox.move(BATCH)
        self._note(emptied=report.gone < BATCH and not report.more)
        self._tally.moved(report)
        self._outage.passed()
        self._back()
        if report.relayed or report.repeated:
            log.debug("outbox_relayed", outbox=self._outbox.name, relayed=report.relayed, repeated=report.repeated)
        if report.set_aside:
            log.error("outbox_rows_set_aside", outbox=self._outbox.name, count=report.set_aside, reasons=report.reasons)
        return report.gone

    async def _rest(self, stopped: asyncio.Task[bool]) -> None:
        waiting = asyncio.create_task(self._outbox.wait(REST))
        try:
            await asyncio.wait((waiting, stopped), return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                waiting.result()
        finally:
            if waiting.cancel():
                await asyncio.wait((waiting,))

    # ── a source that goes away ──

    async def _away(self, error: SourceUnavailable, stop: asyncio.Event) -> None:
        """Said once per outage. Each source has its own pauses: it is not the database that everything else needs."""
        self._failures += 1
        if self._failures == 1:
            log.error("outbox_away", outbox=self._outbox.name, error=str(error))
        await pause(min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(self._failures - 1, 16)), stop)

    def _back(self) -> None:
        if self._failures:
            log.info("outbox_back", outbox=self._outbox.name, failed_calls=self._failures)
            self._failures = 0
