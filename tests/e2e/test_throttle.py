"""An endpoint that asked for 20 requests a second gets 20, as it counts them, however many workers share the work.

Ten seconds (SQLite: five) with never more than 22 in any second, wherever the second begins, and at least 18 on average. Those
are usually the first ten. On a machine that keeps the processes waiting, requests that started one after the other arrive
together and the rate is not reached: there the test goes on until it has seen such ten seconds, and allows 24 in the others.
"""

from __future__ import annotations

import asyncio
import threading
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from hookline.clock import monotonic
from hookline.store import Store, StoreOptions, open_store
from hookline.vault import Vault
from tests.support import factory
from tests.support.processes import environment, running
from tests.support.receiver import Behaviour, Receiver

RATE, MOST, LEAST = 20, 22, 18
EVER = 24
SECONDS = {"sqlite": 5, "postgres": 10}
WORKERS = {"sqlite": 1, "postgres": 4}
SLOTS, SHARE = 64, 16
SETTINGS = {
    "HOOKLINE_CONCURRENCY": str(SLOTS),
    "HOOKLINE_LANE_SHARE": str(SHARE),
    "HOOKLINE_REQUEST_TIMEOUT": "60s",
    "HOOKLINE_LEASE": "90s",
}
PATIENCE = 60  # seconds


@pytest.mark.timeout(120)
async def test_a_throttled_endpoint_gets_its_rate_and_no_more(engine: str, database_url: str, tmp_path: Path) -> None:
    env = environment(database_url, **SETTINGS)
    store = await open_store(database_url, vault=Vault([env["HOOKLINE_SECRET_KEY"]]), options=StoreOptions())
    await store.migrate()
    seconds = SECONDS[engine]
    with Receiver() as receiver, workers(WORKERS[engine], env, tmp_path):
        app_no = await endpoints(store, receiver.url)
        await all_at_work(store, app_no, receiver, WORKERS[engine])
        await store.ingest(factory.new_messages(app_no, RATE * PATIENCE, event_type="throttled"))
        arrived, good = await _watched(receiver, seconds)
    await store.close()
    print(f"{engine}: {len(good or arrived) / seconds:.1f} a second, {most_within(good or arrived, 1)} in the busiest")
    assert most_within(arrived, 1) <= EVER
    assert good, f"no {seconds} s of {PATIENCE} s were within the bounds"


async def _watched(receiver: Receiver, seconds: int) -> tuple[list[float], list[float]]:
    """When requests came in, until there was a span of so many seconds that keeps the bounds; and those of that span."""
    began, looked = monotonic(), 0
    while True:
        await asyncio.sleep(0.2)  # what is counted is what comes in a time
        arrived = [received.at for received in receiver.requests if received.path == "/throttled"]
        complete = bisect_left(arrived, monotonic() - seconds)  # spans that begin with one of these are over
        for first in range(looked, complete):
            span = arrived[first : bisect_left(arrived, arrived[first] + seconds)]
            if len(span) >= LEAST * seconds and most_within(span, 1) <= MOST:
                return arrived, span
        looked = complete
        if monotonic() - began > PATIENCE:
            return arrived, []


def most_within(instants: Sequence[float], seconds: float) -> int:
    """The most within so long a time, wherever it begins."""
    most = first = 0
    for last, at in enumerate(instants):
        while at - instants[first] >= seconds:
            first += 1
        most = max(most, last - first + 1)
    return most


@contextmanager
def workers(count: int, env: dict[str, str], directory: Path) -> Iterator[None]:
    with ExitStack() as stack:
        for number in range(count):
            stack.enter_context(running(["worker"], env, directory / f"worker-{number}.log"))
        yield


async def endpoints(store: Store, url: str) -> int:
    organization = await store.save_organization(factory.organization())
    app = await store.create_application(organization.id, factory.new_application())
    throttled = factory.new_endpoint(url=url + "/throttled", throttle_rate=float(RATE), event_types=("throttled",))
    await store.create_endpoint(app.no, throttled)
    await store.create_endpoint(app.no, factory.new_endpoint(url=url + "/slow", event_types=("slow",)))
    return app.no


async def all_at_work(store: Store, app_no: int, receiver: Receiver, count: int) -> None:
    """No worker may hold more than its share of the slow lane, so that so many in flight are at all of them."""
    answered = threading.Event()
    receiver.behave(Behaviour(gate=answered), path="/slow")
    await store.ingest(factory.new_messages(app_no, count * SHARE, event_type="slow"))
    await receiver.arrived(count * SHARE, timeout=60)
    answered.set()
