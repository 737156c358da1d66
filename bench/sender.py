"""The speed of the sender alone, without store and judgement: it sends typical requests to a fast receiver.

python -m bench.sender [requests]
"""

from __future__ import annotations

import sys
import threading
import time

from msgspec import Struct

from bench.ground import BODY
from bench.receiver import BenchReceiver
from hookline.engine.sender.dns import Resolver
from hookline.engine.sender.loop import Sender
from hookline.engine.sender.protocol import Request, Results, Settings

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


def bare_sender(requests: int = 50_000, *, slots: int = 256, warm: int = 5_000) -> Rate:
    """Keep `slots` requests in flight until all have ended. The first `warm` requests are not measured."""
    with BenchReceiver() as receiver:
        run = _Run(receiver.url, warm + requests, warm, slots)
        run.finish()
        return Rate(
            requests=requests,
            seconds=run.ended - run.began,
            cpu_micros=(run.cpu_ended - run.cpu_began) / requests * 1e6,
            arrived=receiver.count,
            failed=run.failed,
        )


class _Run:
    def __init__(self, url: str, total: int, warm: int, slots: int) -> None:
        self._request = Request(ref=None, url=url, headers=HEADERS, body=BODY, deadline=30.0)
        self._left, self._waiting, self._warm = total, total, warm
        self._done = threading.Event()
        self.failed = 0
        self._resolver = Resolver()
        settings = Settings(allow_nets=("127.0.0.0/8",), slots=slots, body_limit=16_384, connect_timeout=5.0)
        self._sender = Sender(settings, resolver=self._resolver, on_results=self._on_results)
        self._measure()
        self._sender.start()
        self._submit(slots)

    def _measure(self) -> None:
        self.began, self.cpu_began = time.perf_counter(), time.process_time()

    def _submit(self, count: int) -> None:
        count = min(count, self._left)
        self._left -= count
        self._sender.submit([self._request] * count)

    def _on_results(self, results: Results) -> None:
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
        self._sender.close(5.0)
        self._resolver.close()


def main() -> None:
    rate = bare_sender(int(sys.argv[1]) if len(sys.argv) > 1 else 50_000)
    print(
        f"{rate.per_second:,.0f} requests/s, {rate.cpu_micros:.1f} µs of CPU each, {rate.arrived} arrived, {rate.failed} failed"
    )


if __name__ == "__main__":
    main()
