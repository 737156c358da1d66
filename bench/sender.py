"""The speed of the sender alone, without store and judgement: it sends typical requests to a fast receiver.

python -m bench.sender [--requests 50000] [--hanging 0]

`--hanging` first sends this many requests to a receiver that never answers. They stay in flight during the measurement.
"""

from __future__ import annotations

import argparse
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct

from bench.ground import BODY
from bench.receiver import BenchReceiver
from hookline.engine.sender import started
from hookline.engine.sender.dns import Resolver
from hookline.engine.sender.loop import Sender
from hookline.engine.sender.protocol import Request, Results, Settings

HANGING = 2  # the `ref` of requests that are never answered
HEADERS = [
    "content-type: application/json",
    "webhook-id: msg_2Lk1JtQ5v7ZXrYcVhWq3uD0pNfS",
    "webhook-timestamp: 1700000000",
    "webhook-signature: v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=",
    "webhook-attempt: 1",
    "webhook-event-type: order.paid",
    "webhook-created-at: 2025-03-04T05:06:07.089+00:00",
]


class Rate(Struct, frozen=True, kw_only=True):
    requests: int
    seconds: float
    cpu_micros: float  # CPU time of this process per request
    arrived: int
    failed: int

    @property
    def per_second(self) -> float:
        return self.requests / self.seconds


def bare_sender(requests: int = 50_000, *, slots: int = 256, warm: int = 5_000, hanging: int = 0) -> Rate:
    """Keep `slots` requests in flight until all have ended. The first `warm` requests are not measured."""
    with BenchReceiver() as receiver, _silent(hanging) as silent:
        run = _Run(receiver.url, warm + requests, warm, slots, silent)
        run.finish()
        return Rate(
            requests=requests,
            seconds=run.ended - run.began,
            cpu_micros=(run.cpu_ended - run.cpu_began) / requests * 1e6,
            arrived=receiver.count,
            failed=run.failed,
        )


@contextmanager
def _silent(count: int) -> Iterator[list[Request]]:
    """Yield requests to a port that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=count + 1) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        yield [Request(ref=HANGING, url=url, headers=HEADERS, body=BODY, deadline=600.0)] * count


class _Run:
    def __init__(self, url: str, total: int, warm: int, slots: int, silent: list[Request]) -> None:
        self._request = Request(ref=1, url=url, headers=HEADERS, body=BODY, deadline=30.0)
        self._left, self._waiting, self._warm = total, total, warm
        self._done = threading.Event()
        self.failed = 0
        self._resolver = Resolver()
        slots_in_all = slots + len(silent)
        settings = Settings(allow_nets=("127.0.0.0/8",), slots=slots_in_all, body_limit=16_384, connect_timeout=5.0)
        numbers = started.elements(started.create(slots_in_all))
        self._sender = Sender(settings, resolver=self._resolver, on_results=self._on_results, started=numbers)
        self._measure()
        self._sender.start()
        self._sender.submit(silent)
        self._submit(slots)

    def _measure(self) -> None:
        self.began, self.cpu_began = time.perf_counter(), time.process_time()

    def _submit(self, count: int) -> None:
        count = min(count, self._left)
        self._left -= count
        if count:
            self._sender.submit([self._request] * count)

    def _on_results(self, results: Results) -> None:
        results = [(ref, sent) for ref, sent in results if ref != HANGING]
        self.failed += sum(sent.status != 200 for _, sent in results)
        before, self._waiting = self._waiting, self._waiting - len(results)
        self._warm -= len(results)
        if self._warm <= 0 < self._warm + len(results):
            self._measure()
        self._submit(len(results))
        if self._waiting == 0 < before:
            self.ended, self.cpu_ended = time.perf_counter(), time.process_time()
            self._done.set()

    def finish(self) -> None:
        self._done.wait()
        self._sender.close(0.0)
        self._resolver.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.sender", description=__doc__)
    parser.add_argument("--requests", type=int, default=50_000, help="measured requests (50,000)")
    parser.add_argument("--hanging", type=int, default=0, help="requests in flight that are never answered (0)")
    options = parser.parse_args()
    rate = bare_sender(options.requests, hanging=options.hanging)
    print(
        f"{rate.per_second:,.0f} requests/s, {rate.cpu_micros:.1f} µs of CPU each, {rate.arrived} arrived, {rate.failed} failed"
    )


if __name__ == "__main__":
    main()
