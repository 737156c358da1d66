"""Encrypt stored values again with the first key of HOOKLINE_SECRET_KEY, so that older keys can be removed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from hookline.model.callers import Caller
from hookline.services import audit
from hookline.services.deps import Deps
from hookline.store.sealing import Place, Range, Resealed, Spot, others

BATCH = 200  # maximum number of values that one transaction encrypts


async def reseal(deps: Deps, by: Caller, first: bytes, stop: asyncio.Event) -> AsyncIterator[tuple[Place, Resealed]]:
    """Encrypt all values again in batches, until all are done or `stop` is set. Yield each batch after its commit.

    Each encrypted value begins with a head, the bytes that name its key. `first` is the head of the first key. Values
    with this head are skipped, because the first key has encrypted them. A value that another process encrypts with
    an older key during the run may be missed. The audit entry is written after the last batch.
    """
    done = 0
    for place in Place:
        for within in others([first]):
            async for batch in _batches(deps, place, within, stop):
                done += batch.done
                yield place, batch
    if done:
        entry = audit.entry(by, "secrets.reseal", "HOOKLINE_SECRET_KEY", detail=f"{done:,} values")
        await deps.store.access.add_audit([entry])


async def _batches(deps: Deps, place: Place, within: Range, stop: asyncio.Event) -> AsyncIterator[Resealed]:
    after: Spot | None = Spot()
    while after is not None and not stop.is_set():
        batch = await deps.store.access.reseal(place, within, after, BATCH)
        after = batch.last
        yield batch
