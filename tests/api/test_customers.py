"""What one customer reads at a time: the others' reads do not stand behind it."""

from __future__ import annotations

import asyncio
import gc
from typing import Any, cast

import msgspec

from hookline.api.customers import MOST_AT_ONCE, Customers
from hookline.model import Application
from hookline.store import Store


class Slow:
    """A store whose reads end when they are told to."""

    def __init__(self) -> None:
        self.reading: list[str] = []
        self.end = asyncio.Event()

    async def read(self, name: str) -> str:
        self.reading.append(name)
        await self.end.wait()
        return name


async def test_the_slow_reads_of_one_customer_wait_for_each_other(app: Application) -> None:
    slow, customers = Slow(), Customers()
    busy, quiet = (
        cast(Any, customers.store_for(msgspec.structs.replace(app, id=name), cast(Store, slow)))
        for name in ("app_1", "app_2")
    )
    many = [asyncio.create_task(busy.read("busy")) for _ in range(20)]
    one = asyncio.create_task(quiet.read("quiet"))
    operator = asyncio.create_task(cast(Any, customers.store_for(None, cast(Store, slow))).read("operator"))
    while "quiet" not in slow.reading or "operator" not in slow.reading:
        await asyncio.sleep(0)
    assert slow.reading.count("busy") == MOST_AT_ONCE
    slow.end.set()
    assert await asyncio.gather(*many, one, operator) == ["busy"] * 20 + ["quiet", "operator"]
    del busy, quiet, many, one
    gc.collect()
    assert not customers._turns  # nothing is kept of those who ask for nothing
