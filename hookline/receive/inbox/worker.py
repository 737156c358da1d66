"""The worker that handles accepted events in threads."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Unpack

from hookline import clock
from hookline.errors import Conflict, InvalidInput
from hookline.outbox import adapters
from hookline.outbox.adapters.base import Adapter
from hookline.outbox.coroutines import run_sync
from hookline.receive.inbox.handling import Handler, WorkerOptions
from hookline.receive.inbox.wake import IdleWorker
from hookline.receive.inbox.worker_loop import WorkerLoop


class InboxWorker(WorkerLoop):
    """Runs a handler for each event that `accept` has stored.

        worker = InboxWorker(lambda: psycopg.connect(URL), {"order.paid": ship, "*": ignore})
        worker.run()

    connect   called once in each thread; returns a connection that `once` takes, or a context manager that lends one
    handlers  functions by event type, `*` for all other types: `handler(conn, event)`. The handler writes with `conn` and
              does not commit. If it raises, its writes are rolled back, and it is called again later
    threads   how many handlers may run at once. SQLite has one writer, so use 1 there
    policy    when the handler is called again, and when the event is dead (it then has a reason and the error)
    lease     seconds (60) until another worker may take the event of a worker that died. A worker that is alive keeps its event
    poll      seconds (0.2) between two polls while the worker is idle. An `accept` in the same process wakes the worker at once
    keep      how long keys are kept (30 days); the worker cleans every hour. None: you call `clean` yourself
    """

    def __init__(
        self,
        connect: Callable[[], Any],
        handlers: Mapping[str, Handler],
        *,
        threads: int = 1,
        **options: Unpack[WorkerOptions],
    ) -> None:
        if threads < 1:
            raise InvalidInput("must be at least 1", field="threads")
        super().__init__(connect, handlers, **options)
        self._count = threads
        self._threads: list[threading.Thread] = []
        self._stopping = threading.Event()
        self._idle: list[IdleWorker] = []

    def start(self) -> None:
        """Start the threads. They end with the process. Another worker gets their events after the lease."""
        if self._threads:
            raise Conflict("this worker has been started already")
        self._schedule_first_clean()
        for number in range(self._count):
            woken = threading.Event()
            self._idle.append(IdleWorker(woken.set))
            name = f"hookline-inbox-{number}"
            self._threads.append(threading.Thread(target=self._run_thread, args=(woken,), name=name, daemon=True))
        for thread in self._threads:
            thread.start()

    def run(self) -> None:
        """Start, and return after `stop` was called and all handlers have ended: `signal(SIGTERM, lambda *_: worker.stop(0))`."""
        self.start()
        for thread in self._threads:
            thread.join()

    def stop(self, timeout: float | None = None) -> bool:
        """Take no more events, and wait for running handlers. Return False if one still runs after `timeout` seconds."""
        self._stopping.set()
        for idle in self._idle:
            idle.wake()
        ends = None if timeout is None else clock.monotonic() + timeout
        others = [thread for thread in self._threads if thread is not threading.current_thread() and thread.is_alive()]
        for thread in others:
            thread.join(None if ends is None else max(0.0, ends - clock.monotonic()))
        return not any(thread.is_alive() for thread in others)

    def drain(self) -> int:
        """Handle all events that are due now, in this thread. Return how many. For a cron job or a test."""
        return run_sync(self._drain())

    def __enter__(self) -> InboxWorker:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run_thread(self, woken: threading.Event) -> None:
        run_sync(self._work(woken))

    def _adapter(self, conn: Any) -> Adapter:
        return adapters.of(conn)

    def _is_manager(self, made: Any) -> bool:
        if not adapters.is_known(made) and hasattr(type(made), "__enter__"):
            return True
        adapters.of(made)  # raises UnknownConnection
        return False

    async def _wait(self, event: threading.Event, seconds: float) -> bool:
        return event.wait(seconds)

    async def _complete(self, result: Any) -> None:
        """Refuse an async handler: it has done nothing yet, and there is no event loop that would run it."""
        if inspect.isawaitable(result):
            if inspect.iscoroutine(result):
                result.close()
            raise TypeError("the handler is async: use AsyncInboxWorker")
