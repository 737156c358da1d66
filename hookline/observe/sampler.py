"""The sampler: figures of the database, read beside everything else, so that reading `/metrics` asks the database nothing.

At most every few seconds, and seldom enough that the counting never takes more than a fiftieth of the time (`Store.depths`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from hashlib import sha256

import structlog

from hookline import clock
from hookline.errors import HooklineError
from hookline.model import Depths
from hookline.model.labels import EndpointLabels
from hookline.model.pulses import Pulse, together
from hookline.observe.prometheus import FailingEndpoint, Sample
from hookline.store.outage import pause
from hookline.store.protocols import COUNTING, Store

EVERY = 5.0  # seconds
LATELY = timedelta(minutes=5)  # for how long an endpoint's failures are remembered here
MAX_NAMED = 20  # endpoints
HASH = 12  # digits

log = structlog.get_logger()


class Sampler:
    """One for each process that shows metrics."""

    def __init__(self, store: Store, *, endpoints: EndpointLabels = EndpointLabels.OFF, every: float = EVERY) -> None:
        self._store = store
        self._endpoints = endpoints
        self._every = every
        self._kept: tuple[float, Depths, tuple[FailingEndpoint, ...]] | None = None
        self._failed = False

    def last(self) -> Sample | None:
        if self._kept is None:
            return None
        at, depths, endpoints = self._kept
        return Sample(depths=depths, age=clock.monotonic() - at, endpoints=endpoints)

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            await self.take()
            await pause(self._rest(), stop)

    async def take(self) -> None:
        """Whatever goes wrong, the last one stays, and its age says so."""
        try:
            depths = await self._store.depths(fresh=self._every)
            self._kept = (clock.monotonic(), depths, await self._sickest(depths))
            self._failed = False
        except HooklineError as error:
            if not self._failed:
                log.warning("sample_failed", error=str(error))
            self._failed = True
        except Exception:
            log.exception("sample_failed")

    def _rest(self) -> float:
        return self._every if self._kept is None else max(self._every, self._kept[1].seconds * COUNTING)

    async def _sickest(self, depths: Depths) -> tuple[FailingEndpoint, ...]:
        if self._endpoints == EndpointLabels.OFF:
            return ()
        worst = sickest(await self._store.pulses(depths.at - LATELY))
        names = {each.no: each.id for each in await self._store.endpoints_for(worst)}
        return tuple(
            FailingEndpoint(name=self._name(names[no]), attempts=good + bad, failures=bad)
            for no, (good, bad) in worst.items()
            if no in names
        )

    def _name(self, endpoint_id: str) -> str:
        return endpoint_id if self._endpoints == EndpointLabels.TOP else hashed(endpoint_id)


def sickest(pulses: Sequence[Pulse]) -> dict[int, list[int]]:
    """Endpoints by number, those with the most failures first: what went well there, and what failed."""
    found = together(pulses, clock.EPOCH).endpoints
    return dict(sorted(found.items(), key=lambda each: -each[1][1])[:MAX_NAMED])


def hashed(endpoint_id: str) -> str:
    return sha256(endpoint_id.encode()).hexdigest()[:HASH]
