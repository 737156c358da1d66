"""A worker inside the test's own event loop. Everything except the process is real."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from hookline.engine.sender.protocol import Settings
from hookline.engine.worker import Worker, WorkerSettings
from hookline.model.deliveries import Delivery
from hookline.model.policy import RetryPolicy
from hookline.model.states import OPEN, DeliveryState
from hookline.observe.tally import Tally
from hookline.observe.traces import Traces
from hookline.store import Store
from hookline.store.outage import Outage

QUICK_RETRY = RetryPolicy(base=0.02, factor=2.0, cap=0.2)
PATIENCE = 60.0  # maximum seconds that a test waits; long, because the machine may be busy


LOOPBACK = Settings(allow_nets=("127.0.0.0/8", "::1/128"), slots=1024, body_limit=1024, connect_timeout=30.0)


def make_worker(
    store: Store,
    *,
    tally: Tally | None = None,
    traces: Traces | None = None,
    sender: Settings = LOOPBACK,
    **settings: Any,
) -> Worker:
    given = {
        "slots": 64,
        "silent_slots": 512,
        "share": 64,
        "deadline": 30.0,
        "retry": QUICK_RETRY,
        "poll": 0.2,
        "drain": 5.0,
    }
    return Worker(
        store,
        WorkerSettings(**(given | settings)),
        sender=sender,
        outage=Outage(random.Random(7)),
        chance=random.Random(11),
        tally=tally,
        traces=traces,
    )


@asynccontextmanager
async def working(store: Store, **settings: Any) -> AsyncIterator[Worker]:
    """Run a worker during the block and drain it at the end. If the worker fails, the test fails."""
    worker, stop = make_worker(store, **settings), asyncio.Event()
    task = asyncio.create_task(worker.run(stop))
    try:
        yield worker
    finally:
        stop.set()
        await task


async def settled(store: Store, message_id: str, *, within: float = PATIENCE) -> list[Delivery]:
    """Return all deliveries of a message once none is open. Another process may do the work, so there is no event to
    wait for."""
    async with asyncio.timeout(within):
        while True:
            found = await store.history.deliveries(message_id)
            if found and not any(delivery.state in OPEN for delivery in found):
                return found
            await asyncio.sleep(0.01)


async def reaches(store: Store, message_id: str, state: DeliveryState, *, within: float = PATIENCE) -> Delivery:
    """Return the only delivery of a message once it has that state."""
    async with asyncio.timeout(within):
        while True:
            found = await store.history.deliveries(message_id)
            if len(found) == 1 and found[0].state == state:
                return found[0]
            await asyncio.sleep(0.01)
