"""Limits of the machine and of single parts: no scenario can be faster than these."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hookline import clock, ids
from hookline.cli.bench import empty, load
from hookline.cli.bench.clients import LANES, api_publisher, flat_out, message, payload
from hookline.cli.bench.ground import Server, Site
from hookline.cli.bench.model import Figure
from hookline.cli.bench.receiver import Receiver
from hookline.engine.sender import started
from hookline.engine.sender.dns import Resolver
from hookline.engine.sender.loop import Sender
from hookline.engine.sender.protocol import Request, Results, Settings
from hookline.model.attempts import Sent
from hookline.model.deliveries import LeasedDelivery, SlotBudgets
from hookline.model.policy import RetryPolicy
from hookline.model.verdicts import Result
from hookline.rules.judge import judge
from hookline.security import tokens

SENDER, RECEIVER, API = "bare libcurl sender", "receiver alone", "empty API handler"
INGEST, DELIVER = "ingest in batches", "claim and record in batches"
SLOTS = 256  # requests in flight of the bare sender
CONNECTIONS, PIPELINED = 8, 50  # of the client that measures the receiver
HEADERS = [
    "content-type: application/json",
    "webhook-id: msg_2Lk1JtQ5v7ZXrYcVhWq3uD0pNfS",
    "webhook-timestamp: 1700000000",
    "webhook-signature: v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=",
    "webhook-attempt: 1",
    "webhook-event-type: order.paid",
]


async def machine(site: Site) -> list[Figure]:
    """Measure the limits that do not depend on the engine."""
    size = site.size
    sender = await asyncio.to_thread(_sender_rate, site.receiver.url("plain/0"), 2 * size.messages)
    return [
        Figure(name=SENDER, value=sender, unit="requests/s"),
        Figure(name=RECEIVER, value=await _receiver_rate(site.receiver, size.seconds), unit="requests/s"),
        Figure(name=API, value=await _empty_rate(size.seconds), unit="requests/s"),
    ]


async def store(site: Site) -> list[Figure]:
    """Measure the store without HTTP: a backlog is stored, claimed and recorded as delivered, in batches."""
    total = site.size.messages
    async with site.deployment() as deployment:
        apps = await load.applications(deployment.store, [site.receiver.url(f"ok/{n}") for n in range(8)], site.secret)
        began = clock.monotonic()
        await load.backlog(deployment.store, apps, total)
        stored = clock.monotonic()
        done = 0
        while jobs := (await deployment.store.pipeline.claim(load.BATCH, SlotBudgets(lane_limit=load.BATCH))).jobs:
            done += (await deployment.store.pipeline.record([_delivered(job) for job in jobs])).recorded
        ended = clock.monotonic()
    return [
        Figure(name=INGEST, value=total / (stored - began), unit="messages/s"),
        Figure(name=DELIVER, value=done / (ended - stored), unit="deliveries/s"),
    ]


def _delivered(job: LeasedDelivery) -> Result:
    sent = Sent(status=200, body=b"ok", address="127.0.0.1", started_at=clock.wall())
    judgement = judge(sent, job, RetryPolicy(), now=job.claimed_at, chance=clock.chance)
    attempt_id = ids.mint(ids.ATTEMPT, sent.started_at)
    return Result(job=job, attempt_id=attempt_id, sent=sent, judgement=judgement, ended_at=job.claimed_at)


# ── the sender ────────────────────────────────────────────────────────────────────────────────────────────────────


def _sender_rate(url: str, total: int) -> float:
    run = _SenderRun(url, total)
    try:
        return run.rate()
    finally:
        run.close()


class _SenderRun:
    """The sender without a worker: it keeps some requests in flight until all have ended."""

    def __init__(self, url: str, total: int) -> None:
        self._request = Request(ref=1, url=url, headers=HEADERS, body=payload(0), deadline=30.0)
        self._total = self._left = self._waiting = total
        self._done = threading.Event()
        self._resolver = Resolver()
        settings = Settings(allow_nets=("127.0.0.0/8",), slots=SLOTS, body_limit=16_384, connect_timeout=5.0)
        numbers = started.elements(started.create(SLOTS))
        self._sender = Sender(settings, resolver=self._resolver, on_results=self._on_results, started=numbers)

    def rate(self) -> float:
        began = clock.monotonic()
        self._sender.start()
        self._submit(SLOTS)
        self._done.wait()
        return self._total / (clock.monotonic() - began)

    def _submit(self, count: int) -> None:
        count = min(count, self._left)
        self._left -= count
        if count:
            self._sender.submit([self._request] * count)

    def _on_results(self, results: Results) -> None:
        self._waiting -= len(results)
        self._submit(len(results))
        if self._waiting == 0:
            self._done.set()

    def close(self) -> None:
        self._sender.close(0.0)
        self._resolver.close()


# ── the receiver and the API ──────────────────────────────────────────────────────────────────────────────────────


async def _receiver_rate(receiver: Receiver, seconds: float) -> float:
    """Send requests without waiting for each answer, so that the receiver and not the client is the limit."""
    body = payload(0)
    head = f"POST /plain/0 HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(body)}\r\n\r\n"
    many, end = (head.encode() + body) * PIPELINED, clock.monotonic() + seconds

    async def connection() -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", receiver.port)
        sent = 0
        while clock.monotonic() < end:
            writer.write(many)
            for _ in range(PIPELINED):
                await reader.readuntil(b"\r\n\r\nok")
            sent += PIPELINED
        writer.close()
        return sent

    return sum(await asyncio.gather(*(connection() for _ in range(CONNECTIONS)))) / seconds


async def _empty_rate(seconds: float) -> float:
    async with _empty() as server, api_publisher(server, ["/api/v1/app/bench/msg"], message) as publisher:
        return await flat_out(publisher.publish, LANES, seconds) / seconds


@asynccontextmanager
async def _empty() -> AsyncIterator[Server]:
    secret, pipe = secrets.token_urlsafe(32), asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*empty.COMMAND, stdin=pipe, stdout=pipe, start_new_session=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(secret.encode() + b"\n")
        port = int(await process.stdout.readline())
        yield Server(port=port, token=tokens.issue(secret, ids.DEFAULT_ORG, now=clock.wall()))
    finally:
        process.kill()
        await process.wait()
