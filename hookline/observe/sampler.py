"""Samples the database in the background, so that `/metrics` needs no database query.

The sampler waits a few seconds between samples, or longer if counting is slow: counting takes at most 2 % of the time.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from hashlib import sha256

import structlog

from hookline.clock import monotonic
from hookline.errors import HooklineError
from hookline.model.depths import Depths
from hookline.model.measures import EndpointLabels
from hookline.model.pulses import most_failing, together
from hookline.observe.prometheus import Sample
from hookline.store import COUNTING, Store
from hookline.store.outage import pause

EVERY = 5.0  # minimum seconds between two samples
LATELY = timedelta(minutes=5)  # the endpoint metrics cover the attempts since this long ago
MAX_NAMED = 20  # maximum number of endpoints in the endpoint metrics
HASH = 12  # digits of a hashed endpoint id

log = structlog.get_logger()


class Sampler:
    """Keeps the last sample of the database. Each process that serves metrics has one."""

    def __init__(self, store: Store, *, endpoints: EndpointLabels = EndpointLabels.OFF, every: float = EVERY) -> None:
        self._store = store
        self._endpoints = endpoints
        self._every = every
        self.last: Sample | None = None
        self._failed = False

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            await self.take()
            await pause(self._interval(), stop)

    async def take(self) -> None:
        """Take a sample. After an error the previous sample is kept, and its age keeps growing."""
        try:
            depths = await self._store.monitoring.depths(fresh=self._every)
            self.last = Sample(depths=depths, read_at=monotonic(), endpoints=await self._failing(depths))
            self._failed = False
        except HooklineError as error:
            if not self._failed:
                log.warning("sample_failed", error=str(error))
            self._failed = True
        except Exception:
            log.exception("sample_failed")

    def _interval(self) -> float:
        return self._every if self.last is None else max(self._every, self.last.depths.seconds * COUNTING)

    async def _failing(self, depths: Depths) -> dict[str, list[int]]:
        if self._endpoints == EndpointLabels.OFF:
            return {}
        total = together(await self._store.monitoring.pulses(depths.at - LATELY), depths.at)
        worst = most_failing(total.endpoints, MAX_NAMED, healthy=True)
        names = {each.no: each.id for each in await self._store.catalogue.endpoints_for(worst)}
        return {self._name(names[no]): counts for no, counts in worst.items() if no in names}

    def _name(self, endpoint_id: str) -> str:
        if self._endpoints == EndpointLabels.TOP:
            return endpoint_id
        return sha256(endpoint_id.encode()).hexdigest()[:HASH]
