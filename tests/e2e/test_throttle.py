"""An endpoint with a throttle of 20 requests a second receives no more, however many workers share the work.

A busy machine delays requests and never sends them sooner. So at no time have more requests arrived than the rate and
its burst allow since the start. A test of the store checks that the rate is also reached. `bench.throttle` measures how
even the rate is on an idle machine.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from hookline.clock import monotonic
from hookline.rules.lane.window import START
from hookline.security.vault import Vault
from hookline.store import Store, StoreOptions, open_store
from tests.support import factory
from tests.support.processes import environment, running
from tests.support.receiver import Behaviour, Receiver

RATE = 20
BURST = RATE // 10
COUNTED = RATE * 6
WORKERS = {"sqlite": 1, "postgres": 4}
SETTINGS = {
    "HOOKLINE_REQUEST_TIMEOUT": "60s",
    "HOOKLINE_LEASE": "90s",
}


@pytest.mark.timeout(120)
async def test_a_throttled_endpoint_gets_no_more_than_its_rate(engine: str, database_url: str, tmp_path: Path) -> None:
    env = environment(database_url, **SETTINGS)
    store = await open_store(database_url, vault=Vault([env["HOOKLINE_SECRET_KEY"]]), options=StoreOptions())
    await store.migrate()
    with Receiver() as receiver, workers(WORKERS[engine], env, tmp_path):
        app_no = await endpoints(store, receiver.url)
        slow = await all_at_work(store, app_no, receiver, WORKERS[engine])
        began = monotonic()
        await store.pipeline.ingest(factory.new_messages(app_no, 2 * COUNTED, event_type="throttled"))
        received = (await receiver.arrived(slow + COUNTED))[: slow + COUNTED]
    await store.close()
    arrived = [one.at for one in received if one.path == "/throttled"]
    print(f"{engine}: {COUNTED / (arrived[-1] - arrived[0]):.1f} a second")
    assert len(arrived) == COUNTED
    assert all(number <= 1 + BURST + RATE * (at - began) for number, at in enumerate(arrived, 1))


@contextmanager
def workers(count: int, env: dict[str, str], directory: Path) -> Iterator[None]:
    with ExitStack() as stack:
        for number in range(count):
            stack.enter_context(running(["worker"], env, directory / f"worker-{number}.log"))
        yield


async def endpoints(store: Store, url: str) -> int:
    organization = await store.catalogue.save_organization(factory.organization())
    app = await store.catalogue.create_application(organization.id, factory.new_application())
    throttled = factory.new_endpoint(url=url + "/throttled", throttle_rate=float(RATE), event_types=("throttled",))
    await store.catalogue.create_endpoint(app.no, throttled)
    await store.catalogue.create_endpoint(app.no, factory.new_endpoint(url=url + "/slow", event_types=("slow",)))
    return app.no


async def all_at_work(store: Store, app_no: int, receiver: Receiver, count: int) -> int:
    """Send messages to the slow endpoint, until each of the `count` workers has as many requests in flight as it may
    have to a new endpoint. Return the number of requests."""
    answered = threading.Event()
    receiver.behave(Behaviour(answer_when=answered), path="/slow")
    await store.pipeline.ingest(factory.new_messages(app_no, count * START, event_type="slow"))
    await receiver.arrived(count * START)
    answered.set()
    return count * START
