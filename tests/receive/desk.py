"""A test application that is the same in several frameworks. It records the calls of its handlers."""

from __future__ import annotations

import threading
from typing import Any

from tests.receive.web import PATIENCE

BINARY = bytes(range(256)) * 8
LARGE = b"0123456789abcdef" * 1024

HEADERS = [("x-plain", "1"), ("link", "</a>"), ("link", "</b>"), ("set-cookie", "a=1"), ("set-cookie", "b=2")]


class Desk:
    """Records the calls of the handlers. `effects` counts effects that must happen only once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.effects = 0
        self.bodies: list[bytes] = []
        self.webhooks: list[Any] = []
        self.entered = threading.Semaphore(0)  # released once for each handler that starts to wait
        self.go = threading.Event()
        self.statuses: list[int] = []  # the statuses of the next answers; later answers have 200
        self.closed = threading.Event()

    def done(self, body: bytes) -> int:
        with self._lock:
            self.effects += 1
            self.bodies.append(body)
            return self.effects

    def wait(self) -> None:
        """Block a handler that runs in a thread until the test sets `go`."""
        self.entered.release()
        assert self.go.wait(PATIENCE)

    def next_status(self) -> int:
        with self._lock:
            return self.statuses.pop(0) if self.statuses else 200

    def has_entered(self) -> bool:
        return self.entered.acquire(timeout=PATIENCE)


class Oops(Exception):
    """The exception that a test handler raises."""
