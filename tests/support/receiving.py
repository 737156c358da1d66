"""Both sides for tests of `hookline.receive`: the application in its own process, and a worker that delivers to it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from hookline.model.attempts import Attempt
from hookline.model.endpoints import Secret
from hookline.model.policy import PolicyOverride
from hookline.model.states import DeliveryState
from hookline.receive import inbox
from hookline.security.vault import Vault
from hookline.signing import new_secret
from hookline.store import Store, StoreOptions, open_store
from tests.support import factory, merchant
from tests.support.ports import free_port
from tests.support.processes import environment, running

PATIENCE = 60.0  # maximum seconds that a test waits for a result


# ── the receiver ──────────────────────────────────────────────────────────────────────────────────────────────────


class Receiving:
    """The process of the receiving application. A test can kill it and start it again at the same address."""

    def __init__(self, settings: merchant.Settings, directory: Path) -> None:
        self.settings = settings
        self._directory = directory
        self._port = int(free_port())
        self._popen: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}{merchant.PATH}"

    def __enter__(self) -> Self:
        with closing(merchant.open_ledger(self._directory)) as ledger:
            inbox.create_table(ledger)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._popen is not None:
            self.kill()

    async def start(self) -> None:
        self._popen = self._process()
        await until(self._listens)

    def _process(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.support.merchant", str(self._port)]
        env = os.environ | {merchant.VARIABLE: msgspec.json.encode(self.settings).decode()}
        with (self._directory / "merchant.log").open("ab") as log:
            return subprocess.Popen(command, env=env, stdout=log, stderr=log)

    def kill(self) -> None:
        assert self._popen is not None
        self._popen.send_signal(signal.SIGKILL)
        self._popen.wait(60)
        self._popen = None

    def open(self, *steps: str) -> None:
        for step in steps:
            (self._directory / step).touch()

    def steps(self, name: str) -> list[str]:
        """Return the events for which the handler reached the step `name`."""
        with closing(merchant.open_ledger(self._directory)) as ledger:
            return [event for (event,) in ledger.execute("SELECT event FROM step WHERE name = ? ORDER BY no", (name,))]

    def output(self) -> str:
        return (self._directory / "merchant.log").read_text(errors="replace")

    async def _listens(self) -> bool:
        assert self._popen is not None
        assert self._popen.poll() is None, self.output()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0


async def until(true: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await true():
            await asyncio.sleep(0.05)  # other processes do the work, so there is no event to await


# ── the sender ────────────────────────────────────────────────────────────────────────────────────────────────────


class Sending:
    """One message that a worker process delivers."""

    def __init__(self, store: Store, message_id: str) -> None:
        self._store = store
        self.message_id = message_id

    async def attempts(self) -> list[Attempt]:
        return await self._store.history.attempts(self.message_id)

    async def statuses(self) -> list[int | None]:
        return [attempt.status_code for attempt in await self.attempts()]

    async def ends(self) -> DeliveryState:
        async def ended() -> bool:
            (delivery,) = await self._store.history.deliveries(self.message_id)
            return delivery.state in {DeliveryState.DELIVERED, DeliveryState.DEAD}

        await until(ended)
        (delivery,) = await self._store.history.deliveries(self.message_id)
        return delivery.state


# Retry soon and often when the receiver asks for a later retry.
IMPATIENT = PolicyOverride(retry_after_cap=1.0, max_attempts=100)


@asynccontextmanager
async def sending(receiving: Receiving, directory: Path, **settings: str) -> AsyncIterator[Sending]:
    """Start a worker, and send a message to the receiver. Requests time out after one second unless the test sets
    another value."""
    url = f"sqlite:///{directory}/hookline.db"
    env = environment(url, **settings)
    store = await open_store(url, vault=Vault([env["HOOKLINE_SECRET_KEY"]]), options=StoreOptions())
    try:
        await store.migrate()
        organization = await store.catalogue.save_organization(factory.organization())
        app = await store.catalogue.create_application(organization.id, factory.new_application())
        secrets = (Secret(key=receiving.settings.secret),)
        await store.catalogue.create_endpoint(
            app.no, factory.new_endpoint(url=receiving.url, secrets=secrets, policy=IMPATIENT)
        )
        (accepted,) = await store.pipeline.ingest([factory.new_message(app.no)])
        with running(["worker"], env, directory / "worker.log"):
            yield Sending(store, accepted.message_id)
    finally:
        await store.close()


def settings(keys: str, directory: Path, *, lease: float, **others: bool) -> merchant.Settings:
    """Settings of the application. `lease` is in seconds; a busy machine may stall for two thirds of it."""
    return merchant.Settings(secret=new_secret(), keys=keys, directory=str(directory), lease=lease, **others)
