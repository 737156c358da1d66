"""The scenarios of `hookline bench`. Each one measures one engine once, and returns its figures."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from hookline import clock
from hookline.cli.bench import limits, load
from hookline.cli.bench.certificate import self_signed
from hookline.cli.bench.clients import (
    LANES,
    Publish,
    api_publisher,
    at_rate,
    batch,
    flat_out,
    message,
    message_paths,
    postgres_outbox,
    sqlite_outbox,
)
from hookline.cli.bench.ground import Deployment, Server, Site, memory_of
from hookline.cli.bench.model import LIMITS, BenchFailed, Figure, share
from hookline.cli.bench.receiver import Settings, receiving
from hookline.model.catalogue import Application
from hookline.store import Store

ENDPOINTS = 8  # endpoints that share a backlog
CUSTOMERS = 50  # applications of a flow, each with one endpoint
RATES = (50, 500, 2000)
FAN_OUT = 100
SICK_RATE = 500
INGESTS = ((1, 1), (16, 1), (64, 1), (4, 100), (4, 1000))  # clients, and messages in each request
STEPS = 20  # parts of a drain in which its speed is counted
COLD = 5  # a drain with cold connections has one message in this many
SEEDS = 100  # deliveries that are copied to make history

_first = itertools.count(0, 10_000_000)  # the first number of a flow, so that no idempotency key is used twice

Run = Callable[[Site], Awaitable[list[Figure]]]
Prepare = Callable[[Store], Awaitable[object]]


class Scenario(Struct, frozen=True, kw_only=True):
    name: str
    words: str
    run: Run
    engines: tuple[str, ...] = ("sqlite", "postgres")  # empty: it does not depend on the engine


# ── drains ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Drained(Struct, frozen=True, kw_only=True):
    started: float  # when the worker was started
    ended: float  # when the last outcome was recorded
    times: list[float]  # when the requests arrived
    memory: float | None  # megabytes of the worker and its sender

    def rate(self, name: str, *, limit: str = limits.SENDER) -> Figure:
        rate = len(self.times) / (self.ended - self.times[0])
        return Figure(name=name, value=rate, unit="deliveries/s", limit=limit)

    def seconds_to_speed(self, part: float) -> float:
        """Return the seconds from the start of the worker until it delivered at this part of its full speed."""
        first, last = self.times[0], self.times[-1]
        width = (last - first) / STEPS or 1e-9
        counts = [0] * STEPS
        for at in self.times:
            counts[min(STEPS - 1, int((at - first) / width))] += 1
        wanted = part * sorted(counts)[STEPS // 2]
        reached = next(step for step, count in enumerate(counts) if count >= wanted)
        return first + reached * width - self.started


async def _drain(
    site: Site, prepare: Prepare, expected: int, *options: str, settings: dict[str, str] | None = None
) -> Drained:
    """Let a worker deliver what `prepare` accepts."""
    async with site.deployment(**(settings or {})) as deployment:
        await prepare(deployment.store)
        return await _drain_once(site, deployment, expected, *options)


async def _drain_once(site: Site, deployment: Deployment, expected: int, *options: str) -> Drained:
    await site.receiver.reset()
    started = clock.monotonic()
    async with deployment.worker(*options) as worker:
        await site.receiver.until(expected)
        await deployment.recorded()
        ended, memory = clock.monotonic(), memory_of(worker.pid)
    times = (await site.receiver.arrivals()).times
    return Drained(started=started, ended=ended, times=times, memory=memory)


def _shared(site: Site, kind: str = "ok", *, endpoints: int = ENDPOINTS, messages: int | None = None) -> Prepare:
    """Return the function that accepts a backlog for some endpoints."""
    urls = [site.receiver.url(f"{kind}/{number}") for number in range(endpoints)]

    async def prepare(store: Store) -> None:
        await load.backlog(store, await load.applications(store, urls, site.secret), messages or site.size.messages)

    return prepare


async def drain(site: Site) -> list[Figure]:
    drained = await _drain(site, _shared(site), site.size.messages)
    first = drained.times[0] - drained.started
    figures = [
        drained.rate(f"{site.size.messages:,} messages to {ENDPOINTS} endpoints"),
        Figure(name="start to first delivery", value=first, unit="s", more_is_better=False),
        Figure(name="start to 90 % of full speed", value=drained.seconds_to_speed(0.9), unit="s", more_is_better=False),
    ]
    if drained.memory is not None:
        figures.append(Figure(name="memory of the worker", value=drained.memory, unit="MB", more_is_better=False))
    return figures


async def hot(site: Site) -> list[Figure]:
    drained = await _drain(site, _shared(site, endpoints=1), site.size.messages)
    return [drained.rate(f"{site.size.messages:,} messages to 1 endpoint")]


async def fan_out(site: Site) -> list[Figure]:
    messages = max(1, site.size.messages // FAN_OUT)

    async def prepare(store: Store) -> None:
        urls = [site.receiver.url(f"ok/{number}") for number in range(FAN_OUT)]
        await load.backlog(store, [await load.application(store, urls, site.secret)], messages)

    drained = await _drain(site, prepare, messages * FAN_OUT)
    return [drained.rate(f"{messages:,} messages to {FAN_OUT} endpoints each")]


async def wide(site: Site) -> list[Figure]:
    """Give each of many endpoints one message of its own. An application has 100 endpoints with one channel each."""
    total = site.size.endpoints
    each = min(FAN_OUT, total)

    async def prepare(store: Store) -> None:
        for first in range(0, total, each):
            urls = [site.receiver.url(f"ok/{first + number}") for number in range(each)]
            app = await load.application(store, urls, site.secret, channels=True)
            await load.ingest(store, [load.new_message(app, first + n, channel=n) for n in range(each)])

    drained = await _drain(site, prepare, total // each * each)
    return [drained.rate(f"{total:,} endpoints with 1 message each")]


async def history(site: Site) -> list[Figure]:
    size = site.size
    async with site.deployment() as deployment:
        store = deployment.store
        await _shared(site, messages=SEEDS)(store)
        await _drain_once(site, deployment, SEEDS)
        async with deployment.raw() as raw:
            await load.multiply_history(raw, SEEDS, size.history)
            paused = await load.application(store, [site.receiver.url("ok/paused")], site.secret, paused=True)
            await load.backlog(store, [paused], SEEDS)
            await load.multiply_held(raw, SEEDS, size.held)
            await raw.execute("ANALYZE")
        await _shared(site)(store)
        drained = await _drain_once(site, deployment, size.messages)
    return [drained.rate(f"{size.messages:,} messages beside {size.held:,} held and {size.history:,} in history")]


async def tls(site: Site) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="hookline-bench-", ignore_cleanup_errors=True) as directory:
        certificate, bundle = self_signed(Path(directory))
        async with receiving(Settings(secret=site.secret, certificate=str(certificate))) as receiver:
            there, settings = replace(site, receiver=receiver), {"CA_BUNDLE": str(bundle)}
            few = max(1, site.size.messages // COLD)
            warm = await _drain(there, _shared(there), site.size.messages, settings=settings)
            cold = await _drain(there, _shared(there, "close", messages=few), few, settings=settings)
    return [warm.rate("warm connections"), cold.rate("a new connection for each request", limit="")]


async def workers(site: Site) -> list[Figure]:
    figures = []
    for number in site.size.processes:
        drained = await _drain(site, _shared(site), site.size.messages, "--processes", str(number))
        figures.append(drained.rate(f"{number} worker process{'es' if number > 1 else ''}", limit=""))
    return figures


# ── flows ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def flow(site: Site) -> list[Figure]:
    async with site.deployment() as deployment:
        apps = await _customers(site, deployment)
        async with deployment.serve() as server, api_publisher(server, message_paths(apps)) as publisher:
            figures = await _flows(site, publisher.publish, LANES)
            memory = None if server.child is None else memory_of(server.child.pid)
    if memory is not None:
        figures.append(Figure(name="memory of the server", value=memory, unit="MB", more_is_better=False))
    return figures


async def outbox(site: Site) -> list[Figure]:
    async with site.deployment() as deployment:
        apps = await _customers(site, deployment)
        file = deployment.directory / "shop.db"
        settings = {"OUTBOX_URLS": f"sqlite:///{file}"} if site.engine.name == "sqlite" else {}
        lanes = 1 if settings else 16
        async with _shop(site, deployment, file, apps, lanes) as publish, deployment.worker(**settings):
            return await _flows(site, publish, lanes)


def _shop(
    site: Site, deployment: Deployment, file: Path, apps: Sequence[Application], lanes: int
) -> AbstractAsyncContextManager[Publish]:
    if site.engine.name == "sqlite":
        return sqlite_outbox(file, apps)
    return postgres_outbox(deployment.url, apps, lanes)


async def _customers(site: Site, deployment: Deployment) -> list[Application]:
    urls = [site.receiver.url(f"ok/{number}") for number in range(CUSTOMERS)]
    return await load.applications(deployment.store, urls, site.secret)


async def _flows(site: Site, publish: Publish, lanes: int) -> list[Figure]:
    """Find the maximum, then measure the latency at each rate."""
    seconds = site.size.seconds
    await _timed(site, publish, range(CUSTOMERS), 50)  # not counted: every endpoint gets its first request
    await site.receiver.reset()
    began, first = clock.monotonic(), CUSTOMERS
    calls = await flat_out(publish, lanes, seconds, first)
    await site.receiver.until(calls)
    maximum = calls / (max((await site.receiver.arrivals()).times) - began)
    figures = [Figure(name="maximum", value=maximum, unit="messages/s")]
    first += calls
    for rate, name in [*((rate, f"{rate:,}/s") for rate in RATES), (maximum / 2, "half of the maximum")]:
        numbers = range(first, first + max(1, int(rate * seconds)))
        figures += _latencies(name, await _timed(site, publish, numbers, rate))
        first = numbers.stop
    return figures


async def _timed(site: Site, publish: Publish, numbers: range, rate: float) -> list[float]:
    """Publish at this rate. Return the sorted milliseconds from each call to the arrival of its webhook."""
    await site.receiver.reset()
    return await _waits(site, await at_rate(publish, numbers, rate))


async def _waits(site: Site, due: Mapping[int, float]) -> list[float]:
    await site.receiver.until(len(due))
    arrived = (await site.receiver.arrivals()).first()
    if missing := due.keys() - arrived.keys():
        raise BenchFailed(f"{len(missing)} messages did not arrive")
    return sorted((arrived[number] - at) * 1000 for number, at in due.items())


def _latencies(name: str, waits: list[float]) -> list[Figure]:
    return [
        Figure(name=f"{name}, {label}", value=share(waits, part), unit="ms", more_is_better=False)
        for label, part in (("p50", 0.5), ("p99", 0.99))
    ]


async def sick(site: Site) -> list[Figure]:
    """A third of the endpoints are sick: half of them never answer, the others answer 500. Measure the healthy ones."""
    kinds = ("ok", "ok", "hang", "ok", "ok", "fail")
    async with site.deployment() as deployment:
        urls = [site.receiver.url(f"{kinds[number % 6]}/{number}") for number in range(60)]
        apps = await load.applications(deployment.store, urls, site.secret)
        async with deployment.serve() as server, api_publisher(server, message_paths(apps)) as publisher:
            await site.receiver.reset()
            await at_rate(publisher.publish, range(60), SICK_RATE)  # not counted: every endpoint gets its first request
            await site.receiver.until(40)
            await site.receiver.reset()
            due = await at_rate(publisher.publish, range(60, 60 + int(SICK_RATE * site.size.seconds)), SICK_RATE)
            waits = await _waits(site, {number: at for number, at in due.items() if kinds[number % 6] == "ok"})
    return _latencies(f"healthy endpoints at {SICK_RATE}/s", waits)


# ── ingest ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def ingest(site: Site) -> list[Figure]:
    async with site.deployment() as deployment:
        app = await load.application(deployment.store, [site.receiver.url("ok/0")], site.secret)
        async with deployment.serve("--role", "api") as server:
            return [await _ingest_rate(site, server, app, lanes, size) for lanes, size in INGESTS]


async def _ingest_rate(site: Site, server: Server, app: Application, lanes: int, size: int) -> Figure:
    paths, body = message_paths([app], batches=size > 1), message if size == 1 else batch(size)
    seconds = site.size.seconds
    async with api_publisher(server, paths, body, lanes) as publisher:
        began = clock.monotonic()
        calls = await flat_out(publisher.publish, lanes, seconds, next(_first))
        rate = calls * size / (clock.monotonic() - began)
    name = f"{lanes} client{'s' if lanes > 1 else ''}, " + ("one message" if size == 1 else f"batches of {size:,}")
    return Figure(name=name, value=rate, unit="messages/s", limit=limits.API if size == 1 else limits.INGEST)


SCENARIOS = (
    Scenario(
        name=LIMITS,
        words="single parts alone: libcurl sender, receiver, empty API handler",
        run=limits.machine,
        engines=(),
    ),
    Scenario(name="store", words="the store without HTTP, in batches", run=limits.store),
    Scenario(name="drain", words="one worker process delivers a backlog; its start and its memory", run=drain),
    Scenario(name="flow", words="from the API call to the webhook, at several rates", run=flow),
    Scenario(name="outbox", words="from the transaction to the webhook, at several rates", run=outbox),
    Scenario(name="ingest", words="messages that the API accepts, one by one and in batches", run=ingest),
    Scenario(name="fan-out", words="each message goes to 100 endpoints", run=fan_out),
    Scenario(name="wide", words="many endpoints with one message each", run=wide),
    Scenario(name="hot", words="one endpoint gets the whole backlog", run=hot),
    Scenario(name="sick", words="latency of healthy endpoints while a third of the endpoints fail or hang", run=sick),
    Scenario(name="history", words="a backlog beside held deliveries and history", run=history),
    Scenario(name="tls", words="a backlog over HTTPS, with warm and with new connections", run=tls),
    Scenario(name="workers", words="a backlog with several worker processes", run=workers, engines=("postgres",)),
)
