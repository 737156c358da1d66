"""The parts of one process that share its counters (`Tally`), and its `/metrics` page, read over a socket."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from hookline import clock, config
from hookline.engine.ingest import GroupCommit
from hookline.observe.process_reports import ProcessReports
from hookline.observe.sampler import Sampler
from hookline.observe.tally import Tally
from hookline.observe.traces import Traces
from hookline.security import tokens
from hookline.security.vault import new_key
from hookline.server import http as server
from hookline.server import sockets as listeners
from hookline.server.web_app import compose, web_context
from hookline.web.metrics import Metrics, MetricsAccess, route
from tests.support.scene import Scene

JWT_SECRET = "a test's own secret, of more than 32 letters"

Labels = frozenset[tuple[str, str]]


class Scrape:
    """The values of one reading of `/metrics`."""

    def __init__(self, text: str) -> None:
        self.kinds: dict[str, str] = {}  # the type of each metric family, such as `counter`
        self.samples: dict[tuple[str, Labels], float] = {}
        self._counts: set[tuple[str, Labels]] = set()
        for family in text_string_to_metric_families(text):
            self.kinds[family.name] = family.type
            for sample in family.samples:
                key = (sample.name, frozenset(sample.labels.items()))
                assert key not in self.samples, f"twice: {key}"
                self.samples[key] = sample.value
                if family.type == "counter" or sample.name == f"{family.name}_count":
                    self._counts.add(key)

    def __getitem__(self, name: str) -> float:
        return self.value(name)

    def value(self, name: str, **labels: str) -> float:
        return self.samples[name, frozenset(labels.items())]

    def by(self, name: str, label: str) -> dict[str, float]:
        return {dict(labels)[label]: value for (found, labels), value in self.samples.items() if found == name}

    def grown(self, before: Scrape) -> dict[str, float]:
        """Return how much each counter grew since `before`, without the counters that reading `/metrics` itself
        increases."""
        found = {}
        for name, labels in self._counts:
            change = self.samples[name, labels] - before.samples.get((name, labels), 0.0)
            assert change >= 0, f"{name} fell"
            if change and ("route", "/metrics") not in labels:
                found[_shown(name, labels)] = change
        return found


def _shown(name: str, labels: Labels) -> str:
    short = name.removeprefix("hookline_").removesuffix("_total").removesuffix("_count")
    return short + (f"{{{','.join(f'{key}={value}' for key, value in sorted(labels))}}}" if labels else "")


class Measured:
    def __init__(self, scene: Scene, address: str, tally: Tally, sampler: Sampler) -> None:
        self.scene = scene
        self.address = address
        self.tally = tally
        self.sampler = sampler
        self.token = tokens.issue(JWT_SECRET, scene.organization.id, now=clock.wall())

    async def scrape(self) -> Scrape:
        status, _, text = await self.get("/metrics")
        assert status == 200, text
        return Scrape(text.decode())

    async def sampled(self) -> Scrape:
        """Read `/metrics` after the sampler has read the current figures."""
        await self.sampler.take()
        return await self.scrape()

    async def get(self, path: str, headers: Mapping[str, str] = {}) -> tuple[int, dict[str, str], bytes]:
        return await self.request("GET", path, None, headers)

    async def post(self, path: str, body: object, **headers: str) -> tuple[int, dict[str, str], bytes]:
        given = {"authorization": f"Bearer {self.token}", "content-type": "application/json", **headers}
        return await self.request("POST", path, msgspec.json.encode(body), given)

    async def request(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, dict[str, str], bytes]:
        return await asyncio.to_thread(self._request, method, path, body, headers)

    def _request(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(self.address, timeout=60)
        try:
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()


@asynccontextmanager
async def measuring(
    scene: Scene,
    *,
    access: MetricsAccess | None = None,
    fleet: ProcessReports | None = None,
    sampler: Sampler | None = None,
    tally: Tally | None = None,
    traces: Traces | None = None,
) -> AsyncIterator[Measured]:
    settings = config.load(
        {
            "HOOKLINE_DATABASE_URL": scene.url,
            "HOOKLINE_JWT_SECRET": JWT_SECRET,
            "HOOKLINE_SECRET_KEY": new_key(),
        }
    )
    tally = tally or Tally()
    sampler = sampler or Sampler(scene.store, every=0.0)
    shown = Metrics(tally, sampler, version="9.9.9", engine=scene.store.engine, fleet=fleet, fresh=0.0)
    ingest = GroupCommit(scene.store, tally=tally)
    given = web_context(scene.store, settings, ingest, tally, traces)
    app = compose(given, [route(shown, access or MetricsAccess(None, is_open=False))])
    listener, stop = listeners.bind("127.0.0.1", 0), asyncio.Event()
    running = asyncio.create_task(server.serve(app, listener, stop=stop, grace=5))
    try:
        yield Measured(scene, listeners.address(listener).removeprefix("http://"), tally, sampler)
    finally:
        stop.set()
        await running
        await ingest.close()
        await given.schemas.close()
