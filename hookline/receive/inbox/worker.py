"""The worker that handles accepted events in threads."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping
from typing import Any, Unpack

from hookline import clock
from hookline.outbox import adapters
from hookline.outbox.coroutines import run_sync
from hookline.receive.inbox.handling import Handler, WorkerOptions
from hookline.receive.inbox.wake import IdleWorker
from hookline.receive.inbox.worker_loop import WorkerLoop


class InboxWorker(WorkerLoop):
    """Runs a handler for each event that `accept` has stored.

        worker = InboxWorker(lambda: psycopg.connect(URL), {"order.paid": ship, "*": ignore})
        worker.run()

    connect   called in each thread, and again after a database error. It returns a connection of a type that `once`
              accepts, or a context manager that yields such a connection
    handlers  functions by event type, `*` for all other types: `handler(conn, event)`. The handler writes with `conn`
              and does not commit. If it raises, its writes are rolled back, and it is called again later
    threads   how many handlers may run at once. SQLite has one writer, so use 1 there
    policy    when the handler is called again, and when the event is dead (it then has a reason and the error)
    lease     seconds (60) until another worker may take the event of a worker that died. A worker that is alive keeps
              its event
    poll      maximum seconds (0.2) between two polls while the worker is idle. An `accept` in the same process wakes
              the worker at once
    keep      how long the keys of `once` and finished events are kept (30 days). The worker deletes older rows every
              hour. None: you call `clean` yourself
    """

    _event = threading.Event
    _adapter = staticmethod(adapters.of)

    def __init__(
        self,
        connect: Callable[[], Any],
        handlers: Mapping[str, Handler],
        *,
        threads: int = 1,
        **options: Unpack[WorkerOptions],
    ) -> None:
        super().__init__(connect, handlers, options, threads=threads)

    def run(self) -> None:
        """Start, and return after `stop` was called and all handlers have ended.

        To stop on SIGTERM, call `signal(SIGTERM, lambda *_: worker.stop(0))` before you call `run`.
        """
        self.start()
        for thread in self._running:
            thread.join()

    def stop(self, timeout: float | None = None) -> bool:
        """Take no more events, and wait for running handlers. Return False if one still runs after `timeout`
        seconds."""
        self._stop()
        ends = None if timeout is None else clock.monotonic() + timeout
        others = [thread for thread in self._running if thread is not threading.current_thread() and thread.is_alive()]
        for thread in others:
            thread.join(None if ends is None else max(0.0, ends - clock.monotonic()))
        return not any(thread.is_alive() for thread in others)

    def drain(self) -> int:
        """Handle all events that are due now, in this thread.

        Return their number. This is for a cron job or a test.
        """
        return run_sync(self._drain())

    def __enter__(self) -> InboxWorker:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _started(self, name: str) -> threading.Thread:
        woken = threading.Event()
        self._idle.append(IdleWorker(woken.set))
        thread = threading.Thread(target=lambda: run_sync(self._work(woken)), name=name, daemon=True)
        thread.start()
        return thread

    def _is_manager(self, made: Any) -> bool:
        if not adapters.is_known(made) and hasattr(type(made), "__enter__"):
            return True
        adapters.of(made)  # raises UnknownConnection if no sync adapter supports the object
        return False

    async def _wait(self, event: threading.Event, seconds: float) -> bool:
        return event.wait(seconds)

    async def _complete(self, result: Any) -> None:
        """Refuse an async handler: it has done nothing yet, and there is no event loop that would run it."""
        if inspect.isawaitable(result):
            if inspect.iscoroutine(result):
                result.close()
            raise TypeError("the handler is async: use AsyncInboxWorker")
