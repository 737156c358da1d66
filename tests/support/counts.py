"""How many deliveries are open, by state, and how many dead letters."""

from __future__ import annotations

from typing import NamedTuple

from hookline.store import Store


class Counts(NamedTuple):
    pending: int
    scheduled: int
    queued: int
    delivering: int
    dead: int

    @property
    def open(self) -> int:
        return self.pending + self.scheduled + self.queued + self.delivering


async def count(store: Store) -> Counts:
    found = await store.monitoring.depths()
    return Counts(**found.states, dead=sum(found.dead.values()))
