"""Spans on their way out: a bounded queue, and a thread that sends what is in it.

Nobody waits for it. A collector that is away or slow costs spans, one line when it begins, and one when it is over.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

import structlog
from msgspec import Struct

from hookline.observe.spans import Span

log = structlog.get_logger()

Send = Callable[[Sequence[Span]], str | None]  # waits for the collector; says what went wrong


class QueueSettings(Struct, frozen=True, kw_only=True):
    """The defaults are OpenTelemetry's."""

    most: int = 2048  # spans that wait; more are dropped
    batch: int = 512  # in one request
    delay: int = 5000  # milliseconds before fewer than that are sent


class SpanQueue:
    def __init__(self, send: Send, settings: QueueSettings) -> None:
        self._send = send
        self._most = settings.most
        self._batch = min(settings.batch, settings.most)
        self._delay = settings.delay / 1000
        self._waiting: deque[Span] = deque()
        self._dropped = 0  # written by `add` alone
        self._lost = 0  # refused by the collector; written by the thread alone
        self._away = False
        self._warned = False  # that spans were dropped, though the collector takes them
        self._closing = False
        self._ended = False
        self._full = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hookline-traces", daemon=True)
        self._thread.start()

    def add(self, spans: Sequence[Span]) -> None:
        """From one thread only."""
        room = self._most - len(self._waiting)
        self._waiting.extend(spans[: max(0, room)])
        self._dropped += max(0, len(spans) - room)
        if len(self._waiting) >= self._batch:
            self._full.set()

    def close(self, timeout: float) -> None:
        """What waits is sent, if it can be in that time."""
        self._closing = True
        self._full.set()
        self._thread.join(timeout)
        self._ended = True

    def _run(self) -> None:
        while not self._closing:
            self._full.wait(self._delay)
            self._full.clear()
            self._empty()
        self._empty()

    def _empty(self) -> None:
        while self._waiting and not self._ended:
            batch = [self._waiting.popleft() for _ in range(min(self._batch, len(self._waiting)))]
            self._tell(len(batch), self._sent(batch))

    def _sent(self, batch: Sequence[Span]) -> str | None:
        try:
            return self._send(batch)
        except Exception as error:
            return type(error).__name__

    def _tell(self, count: int, fault: str | None) -> None:
        if self._ended:  # nobody listens any more
            return
        if fault is not None:
            self._lost += count
            if not self._away:
                log.warning("traces_not_sent", error=fault)
            self._away = True
            return
        if self._away:
            log.info("traces_sent_again", lost=self._lost + self._dropped)
            self._away = False
        elif self._dropped and not self._warned:
            self._warned = True
            log.warning("traces_dropped", count=self._dropped, what="OTEL_TRACES_SAMPLER can choose fewer")
