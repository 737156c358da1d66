"""One application in several frameworks: what its handlers do, and what was done."""

from __future__ import annotations

import threading
from typing import Any

from tests.receive.web import PATIENCE

BINARY = bytes(range(256)) * 8
LARGE = b"0123456789abcdef" * 1024

HEADERS = [("x-plain", "1"), ("link", "</a>"), ("link", "</b>"), ("set-cookie", "a=1"), ("set-cookie", "b=2")]


class Desk:
    """`effects` is what must not happen twice."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.effects = 0
        self.bodies: list[bytes] = []
        self.webhooks: list[Any] = []
        self.entered = threading.Semaphore(0)  # of those that wait
        self.go = threading.Event()
        self.statuses: list[int] = []  # to be answered next, before 200
        self.closed = threading.Event()

    def done(self, body: bytes) -> int:
        with self._lock:
            self.effects += 1
            self.bodies.append(body)
            return self.effects

    def wait(self) -> None:
        """For handlers in a thread."""
        self.entered.release()
        assert self.go.wait(PATIENCE)

    def next_status(self) -> int:
        with self._lock:
            return self.statuses.pop(0) if self.statuses else 200

    def has_entered(self) -> bool:
        return self.entered.acquire(timeout=PATIENCE)


class Oops(Exception):
    """What a handler raises."""
