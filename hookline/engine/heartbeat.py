"""Beat: every few seconds this process tells the database what it did. See `model/pulses.py`."""

from __future__ import annotations

import asyncio
import random

import structlog

from hookline import clock
from hookline.errors import StoreUnavailable
from hookline.model.activity import AttemptCounts, add, endpoint_work
from hookline.model.pulses import EVERY, Pulse, together
from hookline.observe.pulser import Pulser
from hookline.observe.tally import Tally
from hookline.store.outage import pause
from hookline.store.protocols import Store

FIRST = 1.0  # seconds; until then nobody knows that this process is there

log = structlog.get_logger()


class Heartbeat:
    """One per process."""

    def __init__(self, store: Store, tally: Tally, chance: random.Random, *, every: float = EVERY) -> None:
        self._store = store
        self._pulser = Pulser(tally)
        self._every = every
        self._chance = chance
        self._untold: Pulse | None = None  # the database was away
        self._did: AttemptCounts = {}  # by endpoint, and not told yet
        self.process = f"{chance.getrandbits(48):012x}"

    async def run(self, stop: asyncio.Event) -> None:
        wait = min(FIRST, self._every)
        while not stop.is_set():
            await pause(wait, stop)
            await self.beat()
            wait = self._every * self._chance.uniform(0.9, 1.0)

    async def beat(self) -> None:
        """Never raises: what cannot be told is no reason to stop delivering."""
        try:
            pulse = self._pulse()
            self._untold = pulse
            add(self._did, self._pulser.attempt_counts)
            await self._store.add_pulse(self.process, pulse, endpoint_work(self._did))
        except StoreUnavailable:
            return  # it is told with the next one; the parts that need the database say that it is away
        except Exception:
            log.exception("beat_failed")
        self._untold = None
        self._did = {}

    def _pulse(self) -> Pulse:
        """What happened since the last one that was told."""
        pulse = self._pulser.beat(clock.wall())
        if self._untold is None:
            return pulse
        total = together((self._untold, pulse), pulse.at)
        total.in_flight, total.slots, total.processes = pulse.in_flight, pulse.slots, 1
        total.outbox_lag = pulse.outbox_lag
        return total
