"""A bounded queue of spans, and a thread that sends them to the collector.

No other thread waits for this thread. If the collector is unavailable or slow, spans are dropped. One log line reports
the start of the problem, and another one its end.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

import structlog
from msgspec import Struct

from hookline.observe.spans import Span

log = structlog.get_logger()

Send = Callable[[Sequence[Span]], str | None]  # sends spans to the collector and waits; returns an error text or None


class QueueSettings(Struct, frozen=True, kw_only=True):
    """Settings of the queue. The defaults are those of OpenTelemetry."""

    limit: int = 2048  # maximum waiting spans; further ones are dropped
    batch: int = 512  # maximum spans in one request to the collector
    delay: int = 5000  # milliseconds after which an incomplete batch is sent


class SpanQueue:
    def __init__(self, send: Send, settings: QueueSettings) -> None:
        self._send = send
        self._limit = settings.limit
        self._batch = min(settings.batch, settings.limit)
        self._delay = settings.delay / 1000
        self._waiting: deque[Span] = deque()
        self._dropped = 0  # spans that did not fit into the queue; only `add` writes it
        self._lost = 0  # spans that the collector refused; only the sending thread writes it
        self._away = False  # the last request to the collector failed
        self._warned = False  # a warning about dropped spans was logged
        self._closing = False
        self._ended = False
        self._full = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hookline-traces", daemon=True)
        self._thread.start()

    def add(self, spans: Sequence[Span]) -> None:
        """Add spans to the queue. Only one thread may call it."""
        room = self._limit - len(self._waiting)
        self._waiting.extend(spans[: max(0, room)])
        self._dropped += max(0, len(spans) - room)
        if len(self._waiting) >= self._batch:
            self._full.set()

    def close(self, timeout: float) -> None:
        """Send the waiting spans, for at most `timeout` seconds, and end the thread."""
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
            self._log_result(len(batch), self._try_send(batch))

    def _try_send(self, batch: Sequence[Span]) -> str | None:
        try:
            return self._send(batch)
        except Exception as error:
            return type(error).__name__

    def _log_result(self, count: int, fault: str | None) -> None:
        if self._ended:  # `close` no longer waits for this thread, so the thread must not log
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
            log.warning("traces_dropped", count=self._dropped, what="set OTEL_TRACES_SAMPLER to sample fewer spans")
