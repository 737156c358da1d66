"""The heartbeat: every few seconds this process writes its counters to the database. See `model/pulses.py`."""

from __future__ import annotations

import asyncio
import random

import structlog

from hookline import clock
from hookline.errors import StoreUnavailable
from hookline.model.pulses import EVERY
from hookline.observe.pulser import Pulser
from hookline.observe.tally import Tally
from hookline.store import Store
from hookline.store.outage import pause
from hookline.store.patience import waiting_at_most

FIRST = 1.0  # seconds before the first heartbeat, and before the next try after a failed heartbeat
TIMEOUT = 10.0  # maximum seconds of one heartbeat

log = structlog.get_logger()


class Heartbeat:
    def __init__(self, store: Store, tally: Tally, chance: random.Random, *, every: float = EVERY) -> None:
        self._store = store
        self._pulser = Pulser(tally)
        self._every = every
        self._chance = chance
        self.process = f"{chance.getrandbits(48):012x}"

    async def run(self, stop: asyncio.Event) -> None:
        wait = min(FIRST, self._every)
        while not stop.is_set():
            await pause(wait, stop)
            await self.beat()
            wait = (self._every if self._store.writable else min(FIRST, self._every)) * self._chance.uniform(0.9, 1.0)

    async def beat(self) -> None:
        """Write one heartbeat. This never raises: deliveries must go on if the write fails."""
        pulser = self._pulser
        try:
            pulse = pulser.pulse(clock.wall())
            with waiting_at_most(TIMEOUT):
                await self._store.monitoring.add_pulse(self.process, pulse, pulser.attempt_counts)
            self._store.writable = True
        except StoreUnavailable:
            self._store.writable = False  # the readiness check reports this
            return  # the next heartbeat includes these counts; other parts of the process log the database's outage
        except Exception:
            log.exception("beat_failed")
        pulser.stored()
