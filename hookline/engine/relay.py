"""Relay: turns outbox rows into messages, from Hookline's own database and from applications' databases.

Every outbox is polled. A notification only shortens the wait.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

import structlog

from hookline.clock import monotonic
from hookline.errors import SourceUnavailable, StoreUnavailable
from hookline.model.outbox import RelayReport
from hookline.observe.tally import Tally
from hookline.store import Store
from hookline.store.outage import Outage, first_of, pause
from hookline.store.stages import HandOver, no_hand_over

log = structlog.get_logger()

BATCH = 500
MAX_WAIT = 1.0  # maximum seconds between two polls of an outbox; most outboxes are polled much more often
# Seconds to wait after rows were moved. In this time workers deliver the new messages, and more rows can arrive.
SETTLE = 0.004
AFTER_ERROR = 1.0  # seconds to wait after an unexpected error
_FIRST_PAUSE, _MAX_PAUSE = 0.25, 30.0  # seconds between tries while a source is unavailable; the pause doubles


class Outbox(Protocol):
    """An outbox whose rows become messages: the outbox of Hookline's own database, or that of another database (a
    source)."""

    name: str  # for logs; it never contains a password
    sampled: bool  # whether the sampler measures how long rows wait; otherwise the relay does

    async def move(self, limit: int) -> RelayReport:
        """Turn up to `limit` rows into messages. Set aside the rows that cannot become messages.

        Raises `StoreUnavailable` if Hookline's own database is not reachable, and `SourceUnavailable` if the source is
        not.
        """

    async def wait(self, timeout: float) -> None:
        """Wait until there may be rows, at most `timeout` seconds. It may return early, and it can be cancelled
        safely."""

    async def close(self) -> None: ...


class OwnOutbox:
    """The outbox of Hookline's own database."""

    name = "own"
    sampled = True

    def __init__(self, store: Store, hand_over: HandOver = no_hand_over) -> None:
        self._store = store
        self._hand_over = hand_over

    async def move(self, limit: int) -> RelayReport:
        return await self._store.pipeline.relay(limit, self._hand_over)

    async def wait(self, timeout: float) -> None:
        await self._store.pipeline.wait_outbox(timeout)

    async def close(self) -> None:
        await self._store.pipeline.leave_outbox()


class Relay:
    """Moves rows of one outbox until `stop` is set. Each outbox has its own relay, so one that fails does not stop the
    others."""

    def __init__(self, outbox: Outbox, outage: Outage, tally: Tally | None = None) -> None:
        self._tally = tally or Tally()
        self._outbox = outbox
        self._outage = outage
        self._failures = 0  # number of consecutive failed calls of the source
        self._emptied_at = monotonic()  # the last time that the outbox was empty

    async def run(self, stop: asyncio.Event) -> None:
        try:
            while not stop.is_set():
                await self._step(stop)
        finally:
            await self._outbox.close()

    async def _step(self, stop: asyncio.Event) -> None:
        try:
            moved = await self.once()
            if moved < BATCH:
                if moved:
                    await pause(SETTLE, stop)
                await first_of(self._outbox.wait(MAX_WAIT), stop.wait())
        except StoreUnavailable as error:
            self._note_lag(emptied=False)
            await self._outage.failed("relay", error, stop)
        except SourceUnavailable as error:
            self._note_lag(emptied=False)
            await self._source_failed(error, stop)
        except Exception:
            self._note_lag(emptied=False)
            log.exception("relay_failed", outbox=self._outbox.name)
            await pause(AFTER_ERROR, stop)

    def _note_lag(self, *, emptied: bool) -> None:
        """Tell the tally whether rows of this source may be waiting. None of them is older than the last time at which
        the outbox was empty.

        The sampler reads only Hookline's own database, so it cannot measure how long rows of a source wait.
        """
        if self._outbox.sampled:
            return
        if emptied:
            self._emptied_at = monotonic()
            self._tally.caught_up(self._outbox.name)
        else:
            self._tally.fell_behind(self._outbox.name, self._emptied_at)

    async def once(self) -> int:
        """Turn one batch of rows into messages. Return how many rows left the outbox, including rows set aside."""
        report = await self._outbox.move(BATCH)
        self._note_lag(emptied=report.gone < BATCH and not report.more)
        self._tally.moved(report)
        self._outage.passed()
        self._source_answered()
        if report.relayed or report.repeated:
            log.debug("outbox_relayed", outbox=self._outbox.name, relayed=report.relayed, repeated=report.repeated)
        if report.set_aside:
            log.error("outbox_rows_set_aside", outbox=self._outbox.name, count=report.set_aside, reasons=report.reasons)
        return report.gone

    # ── a source that is unavailable ──

    async def _source_failed(self, error: SourceUnavailable, stop: asyncio.Event) -> None:
        """Log the first failure of the source's outage, then wait. The wait doubles with each failure, up to
        `_MAX_PAUSE`. Relays of other sources do not wait, because they do not need this source."""
        self._failures += 1
        if self._failures == 1:
            log.error("outbox_away", outbox=self._outbox.name, error=str(error))
        await pause(min(_MAX_PAUSE, _FIRST_PAUSE * 2.0 ** min(self._failures - 1, 16)), stop)

    def _source_answered(self) -> None:
        if self._failures:
            log.info("outbox_back", outbox=self._outbox.name, failed_calls=self._failures)
            self._failures = 0
