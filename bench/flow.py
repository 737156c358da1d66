"""Latency from the call of the API to the arrival of the webhook, at fixed rates.

python -m bench.flow                     about 3 minutes: 50, 500 and 2,000 messages a second, both engines
python -m bench.flow --against ../other  the same, interleaved with another checkout of Hookline

One `hookline serve` accepts and delivers. 50 applications have one endpoint each, and get messages of half a kilobyte in turn.
A message is sent when it is due, even if earlier ones are not answered yet, and its latency begins at that time. The table has
the medians of the rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import uvloop
from msgspec import Struct
from rich.console import Console
from rich.table import Table

from bench.ground import BODY, Server, api_server, database
from bench.witness import Witness
from hookline.clock import monotonic
from tests.support.processes import environment

CUSTOMERS = 50
CONNECTIONS = 32  # connections that are open when the flow begins; more are opened if all are in use
TICK = 0.001
PATIENCE = 30.0  # maximum seconds to wait for the last answers and arrivals
HERE = Path(__file__).resolve().parent.parent

_ID = re.compile(rb'"id": ?"(msg_[^"]+)"')
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class Case(Struct, frozen=True, kw_only=True):
    engine: str
    checkout: Path
    rate: int

    @property
    def name(self) -> str:
        return self.engine if self.checkout == HERE else f"{self.engine}, {self.checkout.name}"


class Measured(Struct, frozen=True, kw_only=True):
    case: Case
    waits: list[float]  # milliseconds, sorted

    def share(self, part: float) -> float:
        return self.waits[min(len(self.waits) - 1, int(len(self.waits) * part))]


def main() -> None:
    options = _options()
    console = Console()
    checkouts = [HERE, *([options.against.resolve()] if options.against else [])]
    cases = [
        Case(engine=engine, checkout=checkout, rate=rate)
        for rate in options.rates
        for engine in options.engines
        for checkout in checkouts
    ]
    found = []
    for number in range(options.rounds):
        for case in cases if number % 2 == 0 else cases[::-1]:
            with console.status(f"{case.name}: {case.rate:,} messages a second"):
                found.append(_measure(case, options.seconds, options.warm))
    console.print(_table(cases, found))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.flow", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rates", type=int, nargs="+", default=[50, 500, 2000], help="messages a second (50 500 2000)")
    parser.add_argument("--seconds", type=float, default=8.0, help="seconds of each measurement (8)")
    parser.add_argument("--warm", type=float, default=2.0, help="seconds of the flow that are not measured (2)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of all measurements, interleaved (3)")
    parser.add_argument("--engines", nargs="+", default=["sqlite", "postgres"], choices=["sqlite", "postgres"])
    parser.add_argument("--against", type=Path, help="another checkout of Hookline to measure in the same run")
    return parser.parse_args()


def _measure(case: Case, seconds: float, warm: float) -> Measured:
    with Witness() as witness, _serving(case) as server:
        for number in range(CUSTOMERS):
            server.call("/api/v1/app", {"name": f"customer {number}", "uid": f"c{number}"})
            server.call(f"/api/v1/app/c{number}/endpoint", {"url": witness.url(f"hook/{number}")})
        sent = uvloop.run(flow(server, witness, case.rate, seconds, warm))
        first: dict[str, float] = {}
        for arrival in witness.account().arrivals:
            first.setdefault(arrival.message_id, arrival.at)
    return Measured(case=case, waits=sorted((first[message] - at) * 1000 for message, at in sent.items()))


@contextmanager
def _serving(case: Case) -> Iterator[Server]:
    with database(case.engine) as url, tempfile.TemporaryDirectory() as directory:
        settings = {"HOOKLINE_REQUEST_TIMEOUT": "30s", "HOOKLINE_LEASE": "60s", "HOOKLINE_LOG_ATTEMPTS": "off"}
        env = environment(url, PYTHONPATH=str(case.checkout), **settings)
        with api_server(case.name, ["serve"], env, Path(directory) / "log", case.checkout) as server:
            yield server


# ── the flow ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def flow(server: Server, witness: Witness, rate: int, seconds: float, warm: float) -> dict[str, float]:
    """Send messages at a fixed rate. Return the time at which each measured message was due, by message id."""
    clients = _Clients(server)
    await clients.open()
    start, total, sent = monotonic(), int(rate * (warm + seconds)), 0
    while sent < total:
        due = min(total, int((monotonic() - start) * rate) + 1)
        while sent < due:
            await clients.send(sent, start + sent / rate)
            sent += 1
        await asyncio.sleep(TICK)
    async with asyncio.timeout(PATIENCE):
        await clients.answered(total)
        while await asyncio.to_thread(witness.count, "hook") < total:
            await asyncio.sleep(0.05)  # another process receives the requests, so there is no event to wait for
    clients.close()
    return {message: at for message, at in clients.accepted.items() if at >= start + warm}


class _Clients:
    """Connections to the API. Each has one request at a time."""

    def __init__(self, server: Server) -> None:
        self.port = server.port
        self.idle: list[_Client] = []
        self.accepted: dict[str, float] = {}
        self._all: list[_Client] = []
        self._changed = asyncio.Event()
        self._heads = [_head(server, number) for number in range(CUSTOMERS)]

    async def open(self) -> None:
        self.idle += [await self._connect() for _ in range(CONNECTIONS)]

    async def _connect(self) -> _Client:
        _, client = await asyncio.get_running_loop().create_connection(lambda: _Client(self), "127.0.0.1", self.port)
        self._all.append(client)
        return client

    async def send(self, number: int, due: float) -> None:
        while self.idle and self.idle[-1].transport.is_closing():
            self.idle.pop()  # the server closes connections that were not used for some seconds
        client = self.idle.pop() if self.idle else await self._connect()
        client.post(b"%sflow-%d\r\n\r\n%s" % (self._heads[number % CUSTOMERS], number, _MESSAGE), due)

    async def answered(self, count: int) -> None:
        while len(self.accepted) < count:
            self._changed.clear()
            await self._changed.wait()

    def on_answer(self, client: _Client, message_id: str, due: float) -> None:
        self.accepted[message_id] = due
        self.idle.append(client)
        self._changed.set()

    def close(self) -> None:
        for client in self._all:
            client.transport.abort()


class _Client(asyncio.Protocol):
    def __init__(self, clients: _Clients) -> None:
        self._clients = clients
        self._rest = b""
        self._due = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def post(self, request: bytes, due: float) -> None:
        self._due = due
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._rest += data
        end = self._rest.find(b"\r\n\r\n")
        found = _LENGTH.search(self._rest, 0, end + 2)
        if end < 0 or len(self._rest) < end + 4 + (int(found[1]) if found else 0):
            return
        accepted = _ID.search(self._rest)
        if not self._rest.startswith(b"HTTP/1.1 202") or accepted is None:
            sys.exit(f"the server did not answer 202: {self._rest[:300]!r}")
        self._rest = b""
        self._clients.on_answer(self, accepted[1].decode(), self._due)


_MESSAGE = b'{"eventType": "order.paid", "payload": %s}' % BODY


def _head(server: Server, customer: int) -> bytes:
    return (
        f"POST /api/v1/app/c{customer}/msg HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {server.token}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(_MESSAGE)}\r\nidempotency-key: "
    ).encode()


# ── the table ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _table(cases: list[Case], found: list[Measured]) -> Table:
    table = Table("messages/s", "server", "p50 ms", "p90 ms", "p99 ms", "max ms", "p50 and p99 of each round")
    for case in cases:
        runs = [each for each in found if each.case == case]
        medians = [f"{statistics.median(run.share(part) for run in runs):.1f}" for part in (0.5, 0.9, 0.99, 1.0)]
        rounds = ", ".join(f"{run.share(0.5):.1f}/{run.share(0.99):.0f}" for run in runs)
        table.add_row(f"{case.rate:,}", case.name, *medians, rounds)
    return table


if __name__ == "__main__":
    main()
