"""Two hundred transactions of a shop whose processes are killed at any moment, with a Hookline that is killed too.

The test checks the reason for an outbox: every committed order has its webhook, and no other order has one.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hookline import outbox
from hookline.engine.sources import setup
from hookline.model.catalogue import NewApplication
from hookline.model.endpoints import Secret
from hookline.security.vault import Vault
from hookline.signing import new_secret
from hookline.store import StoreOptions, open_store
from tests.support import factory, shop
from tests.support.counts import count
from tests.support.processes import Process, environment
from tests.support.receiver import Received, Receiver

TRANSACTIONS = 200
SHOPS = 4
SEED = 20_261_115
# A receiver on a busy machine may be slow, and no delivery may become dead for that. Deliveries of a killed worker are
# retried soon.
UNTIRING = {
    "HOOKLINE_REQUEST_TIMEOUT": "6s",
    "HOOKLINE_LEASE": "16s",
    "HOOKLINE_RETRY_MAX_ATTEMPTS": "100",
}


@pytest.mark.timeout(240)
async def test_every_committed_order_has_its_webhook_and_no_other_has_one(
    urls: tuple[str, str], tmp_path: Path
) -> None:
    hookline_url, shop_url = urls
    env = environment(
        hookline_url, **UNTIRING, **({} if hookline_url == shop_url else {"HOOKLINE_OUTBOX_URLS": shop_url})
    )
    shop.prepare(shop_url)
    if hookline_url != shop_url:
        await setup.install(shop_url)
    with Receiver() as receiver:
        await _endpoint(hookline_url, env, receiver.url)
        worker = Worker(env, tmp_path / "worker.log")
        shops = Shops(shop_url, tmp_path)
        try:
            await shops.suffer(worker.suffer)
            shops.end()
            _last_order(shop_url)
            committed = shop.orders(shop_url)
            try:
                await asyncio.to_thread(_wait_for_orders, receiver, committed | {"last"})
            except TimeoutError:
                missing = (committed | {"last"}) - {_order(one) for one in receiver.requests}
                pytest.fail(f"{missing} {await _state(hookline_url, env)} {worker.output()[-4000:]}")
        finally:
            shops.end()
            worker.end()
        begun, lost = shops.reached("begun"), shops.reached("lost")
        arrived = {_order(one) for one in receiver.requests} - {"last"}
        assert arrived == committed
        assert shops.reached("committed") <= committed
        assert not arrived & lost
        assert len(begun) + len(lost) >= TRANSACTIONS
        assert len(committed) > TRANSACTIONS / 3
        assert worker.kills >= 2


class Worker:
    def __init__(self, env: dict[str, str], log: Path) -> None:
        self._env, self._log = env, log
        self._process = self._start()
        self.kills = 0

    def _start(self) -> Process:
        return Process(["worker"], self._env, self._log)

    def suffer(self) -> None:
        assert self._process.running, self._process.output()
        self._process.kill()
        self.kills += 1
        self._process = self._start()

    def output(self) -> str:
        return self._process.output()

    def end(self) -> None:
        if self._process.running:
            self._process.kill()


class Shop:
    """One process of the shop, with its own log."""

    def __init__(self, url: str, log: Path) -> None:
        self.log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.shop", url], stdout=output, stderr=output
            )

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    async def at_work(self) -> None:
        """Wait until the shop works. On a busy machine, a shop that is killed earlier would never sell anything."""
        async with asyncio.timeout(60):
            while not self.log.stat().st_size:
                await asyncio.sleep(0.01)  # the shop writes its steps into a file, so there is no event to await

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(60)


class Shops:
    """Starts shops and kills them."""

    def __init__(self, url: str, directory: Path) -> None:
        self._url, self._directory = url, directory
        self._chance = random.Random(SEED)
        self._numbers = itertools.count()
        self._shops = [self._open() for _ in range(SHOPS)]

    def _open(self) -> Shop:
        return Shop(self._url, self._directory / f"shop-{next(self._numbers)}.log")

    async def suffer(self, every_fifth: Callable[[], None]) -> None:
        """Kill one shop after the other at random times. After every fifth kill, call `every_fifth`."""
        kills = 0
        while len(self.reached("begun")) + len(self.reached("lost")) < TRANSACTIONS or kills < 15:
            place = self._chance.randrange(SHOPS)
            victim = self._shops[place]
            await victim.at_work()
            await asyncio.sleep(self._chance.uniform(0.0, 0.2))  # at a random point of its work
            assert victim.running, victim.log.read_text()
            victim.kill()
            self._shops[place] = self._open()
            kills += 1
            if kills % 5 == 0:
                every_fifth()

    def reached(self, step: str) -> set[str]:
        """Return the orders that reached this step. A line cut short by a kill does not count."""
        logs = self._directory.glob("shop-*.log")
        lines = [line.split(" ") for log in logs for line in log.read_text().splitlines()]
        return {line[1] for line in lines if line[0] == step and len(line) == 2 and len(line[1]) == 32}

    def end(self) -> None:
        for one in self._shops:
            if one.running:
                one.kill()


async def _endpoint(url: str, env: dict[str, str], receiver: str) -> None:
    store = await open_store(url, vault=Vault([env["HOOKLINE_SECRET_KEY"]]), options=StoreOptions())
    await store.migrate()
    organization = await store.catalogue.save_organization(factory.organization())
    app = await store.catalogue.create_application(organization.id, NewApplication(name="Shop", uid="shop"))
    await store.catalogue.create_endpoint(
        app.no, factory.new_endpoint(url=receiver, secrets=(Secret(key=new_secret()),))
    )
    await store.close()


async def _state(url: str, env: dict[str, str]) -> str:
    store = await open_store(url, vault=Vault([env["HOOKLINE_SECRET_KEY"]]), options=StoreOptions())
    try:
        stuck = await store.upkeep.find_stuck_lanes(repair=False)
        return f"{await count(store)} {await store.repair.outbox()} asleep for good: {stuck}"
    finally:
        await store.close()


def _last_order(url: str) -> None:
    """Publish one more order. It is relayed after everything committed before it."""
    with shop.opened(url) as (begin, _), begin() as conn:
        outbox.publish(conn, "shop", "order.paid", {"order": "last"})


def _wait_for_orders(receiver: Receiver, wanted: set[str]) -> None:
    """Wait for all orders. Count the requests before reading them: the last one may arrive in between."""
    while True:
        seen = len(receiver.requests)
        if wanted <= {_order(one) for one in receiver.requests[:seen]}:
            return
        receiver.wait_for(seen + 1, timeout=60)


def _order(received: Received) -> str:
    order: str = json.loads(received.body)["order"]
    return order
