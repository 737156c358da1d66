"""A database that real processes work on, and the metrics that these processes show."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from hookline import clock
from hookline.security.vault import Vault
from hookline.store import Store, StoreOptions, open_store
from tests.support import factory
from tests.support.measured import Scrape
from tests.support.ports import free_port
from tests.support.processes import Process, environment
from tests.support.receiver import Receiver


class Deployment:
    """A database with an endpoint at the receiver, and the settings of its processes."""

    def __init__(self, store: Store, app_no: int, env: dict[str, str]) -> None:
        self.store = store
        self.app_no = app_no
        self.env = env

    async def send(self, count: int) -> None:
        await self.store.pipeline.ingest(factory.new_messages(self.app_no, count))


@asynccontextmanager
async def deployed(database_url: str, receiver: Receiver) -> AsyncIterator[Deployment]:
    env = environment(database_url, HOOKLINE_METRICS_PORT=free_port(), HOOKLINE_POOL_SIZE="6")
    store = await open_store(database_url, vault=Vault([env["HOOKLINE_SECRET_KEY"]]), options=StoreOptions(pool_size=3))
    organization = await store.catalogue.save_organization(factory.organization())
    app = await store.catalogue.create_application(organization.id, factory.new_application())
    await store.catalogue.create_endpoint(app.no, factory.new_endpoint(url=receiver.url))
    yield Deployment(store, app.no, env)
    await store.close()


async def read(port: str, path: str = "/metrics", token: str = "") -> tuple[int, bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(port))
    try:
        bearer = f"authorization: Bearer {token}\r\n" if token else ""
        writer.write(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n{bearer}connection: close\r\n\r\n".encode())
        answer = await reader.read()
    finally:
        writer.close()
    if not answer:
        raise ConnectionResetError("it hung up without an answer")
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


async def shows(process: Process, port: str, wanted: Callable[[Scrape], bool], token: str = "") -> Scrape:
    """Wait until the process shows the wanted values. Another process does the work, so there is no event to wait for."""
    last: object = None
    deadline = clock.monotonic() + 60
    while clock.monotonic() < deadline:
        try:
            status, body = await read(port, token=token)
            if status == 200:
                last = found = Scrape(body.decode())
                if wanted(found):
                    return found
        except OSError as error:
            last = error
        assert process.running, process.output()
        await asyncio.sleep(0.05)
    raise AssertionError(f"{last.samples if isinstance(last, Scrape) else last}\n{process.output()}")


def delivered(found: Scrape) -> float:
    return found.samples.get(("hookline_attempts_total", frozenset({("outcome", "delivered"), ("result", "2xx")})), 0.0)
