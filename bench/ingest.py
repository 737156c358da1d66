"""Messages per second that one API process accepts durably over HTTP, compared with an empty handler.

python -m bench.ingest    about a minute: 1, 16 and 64 clients, batches of 100 and 1,000, both engines

Each client sends its next request when the last one was answered. A message has half a kilobyte and its own idempotency key,
and goes to one endpoint. No worker runs.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import uvloop
from msgspec import Struct
from rich.console import Console
from rich.table import Table

from bench.ground import BODY, Server, api_server, database, token
from bench.poster import Load, Target, post
from tests.support.processes import environment

APP = "bench"
BATCH_CLIENTS = 4
WARM = 0.3  # seconds before each measurement starts


class Case(Struct, frozen=True, kw_only=True):
    clients: int
    batch: int = 1  # messages per request

    def __str__(self) -> str:
        return f"{self.clients} × batches of {self.batch:,}" if self.batch > 1 else f"{self.clients} × one message"

    @property
    def path(self) -> str:
        return f"/api/v1/app/{APP}/msg" + ("/batch" if self.batch > 1 else "")

    @property
    def body(self) -> bytes:
        message = b'{"eventType": "order.paid", "payload": %s}' % BODY
        return message if self.batch == 1 else b'{"messages": [%s]}' % b", ".join([message] * self.batch)


class Measured(Struct, frozen=True, kw_only=True):
    case: Case
    server: str
    load: Load


def main() -> None:
    options = _options()
    cases = [Case(clients=clients) for clients in options.clients]
    cases += [Case(clients=BATCH_CLIENTS, batch=batch) for batch in options.batches]
    console = Console()
    with ExitStack() as stack:
        servers = [stack.enter_context(_empty())]
        servers += [stack.enter_context(_hookline(engine)) for engine in options.engines]
        found = []
        for _ in range(options.rounds):
            for case in cases:
                for server in servers:
                    with console.status(f"{case}: {server.name}"):
                        found.append(_measure(server, case, options.seconds))
    console.print(_table(found))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.ingest", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=1.0, help="seconds of each measurement (1)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of all measurements, interleaved (3)")
    parser.add_argument("--clients", type=int, nargs="*", default=[1, 16, 64], help="concurrent clients (1 16 64)")
    parser.add_argument("--batches", type=int, nargs="*", default=[100, 1000], help="messages per batch (100 1000)")
    parser.add_argument("--engines", nargs="+", default=["sqlite", "postgres"], choices=["sqlite", "postgres"])
    return parser.parse_args()


def _measure(server: Server, case: Case, seconds: float) -> Measured:
    target = Target(port=server.port, path=case.path, token=server.token, body=case.body)
    load = uvloop.run(post(target, clients=case.clients, seconds=seconds, warm=WARM))
    return Measured(case=case, server=server.name, load=load)


# ── the servers ───────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _empty() -> Iterator[Server]:
    secret = "a secret of the empty handler, of more than 32 letters"
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.empty", secret], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield Server(name="empty handler", port=int(process.stdout.readline()), token=token(secret))
    finally:
        process.communicate()


@contextmanager
def _hookline(engine: str) -> Iterator[Server]:
    """Start `hookline serve --role api` on a new durable database, with an application and one endpoint."""
    with database(engine) as url, tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / "log"
        with api_server(engine, ["serve", "--role", "api"], environment(url), log) as server:
            server.call("/api/v1/app", {"name": APP, "uid": APP})
            server.call(f"/api/v1/app/{APP}/endpoint", {"url": "https://hooks.example.com/bench"})
            yield server


# ── the table ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _table(found: list[Measured]) -> Table:
    table = Table(
        "clients", "server", "messages/s", "of the empty handler", "p50 ms", "p99 ms", title="medians over the rounds"
    )
    for case in dict.fromkeys(each.case for each in found):
        empty = 0.0
        for server in dict.fromkeys(each.server for each in found):
            loads = [each.load for each in found if each.case == case and each.server == server]
            rate = statistics.median(load.per_second for load in loads) * case.batch
            empty = empty or rate
            table.add_row(str(case), server, f"{rate:,.0f}", f"{rate / empty:.2f}", *_waits(loads))
        table.add_section()
    return table


def _waits(loads: list[Load]) -> tuple[str, str]:
    waits = sorted(wait * 1000 for load in loads for wait in load.waits)
    if not waits:
        return "", ""
    return f"{statistics.median(waits):.1f}", f"{waits[int(len(waits) * 0.99)]:.1f}"


if __name__ == "__main__":
    main()
