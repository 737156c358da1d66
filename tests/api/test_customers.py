"""Limits on the concurrent reads of one customer, so that other customers do not wait for them."""

from __future__ import annotations

import asyncio
import gc
from typing import Any, cast

import msgspec
import pytest

from hookline import clock
from hookline.model.catalogue import Application
from hookline.store import Store
from hookline.web.customers import MAX_PAUSE, MAX_RESPONSES, MAX_STORE_CALLS, MAX_WAITING, Customers
from hookline.web.errors import Refused


class Slow:
    """A store whose reads finish when the test sets `end`."""

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
    assert slow.reading.count("busy") == MAX_STORE_CALLS
    slow.end.set()
    assert await asyncio.gather(*many, one, operator) == ["busy"] * 20 + ["quiet", "operator"]
    del busy, quiet, many, one
    gc.collect()
    assert not customers._store_calls  # no state is kept for idle customers


async def test_a_customers_slot_stays_empty_for_a_while_after_a_request(
    app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each request of a customer, its slot stays empty for a time.

    So one customer uses only a limited share of the server's time.
    """
    customers, asked = Customers(), asyncio.Event()
    now = 0.0
    monkeypatch.setattr(clock, "monotonic", lambda: now)
    rests: list[float] = []
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "call_later", lambda rest, release: (rests.append(rest), release()))
    for taken, rest in ((0.5, 1.5), (0.0, 0.0), (60.0, MAX_PAUSE)):
        async with customers.permit_for(app):
            now += taken
        assert rests.pop() == rest

    async def ask(found: Application | None) -> None:
        async with customers.permit_for(found):
            await asked.wait()

    many = [asyncio.create_task(ask(app)) for _ in range(MAX_RESPONSES + MAX_WAITING)]
    others = [asyncio.create_task(ask(found)) for found in (msgspec.structs.replace(app, id="app_other"), None)]
    while customers._waiting[app.id] < MAX_WAITING:
        await asyncio.sleep(0)
    with pytest.raises(Refused, match="are waiting"):
        await ask(app)
    asked.set()
    await asyncio.gather(*many, *others)
    assert not customers._waiting
