"""Handles accepted events in threads. The handler's writes and the mark "done" are one transaction."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import timedelta
from types import TracebackType
from typing import Any

from hookline import clock
from hookline.errors import Conflict, InvalidInput
from hookline.model import RetryPolicy
from hookline.receive.inbox import adapters, plans
from hookline.receive.inbox.adapters.base import Connection
from hookline.receive.inbox.handling import (
    CLEAN_EVERY,
    COMMITTED,
    POLICY,
    RECONNECT,
    Handler,
    Lost,
    RolledBack,
    checked_connect,
    last_line,
    refuse_coroutine,
    rules,
)
from hookline.receive.inbox.model import Claim
from hookline.receive.inbox.upkeep import KEPT, STEP
from hookline.receive.inbox.wake import Bell
from hookline.rules import backoff

log = logging.getLogger("hookline.inbox")


class InboxWorker:
    """Runs a handler for each event that `accept` has stored.

        worker = InboxWorker(lambda: psycopg.connect(URL), {"order.paid": ship, "*": ignore})
        worker.run()

    connect   called once in each thread; gives a connection that `once` takes, or a context manager that does
    handlers  by event type, `*` for all others: `handler(conn, event)`. It writes with `conn` and does not commit; if it raises,
              what it wrote is rolled back, and it is called again later
    threads   as many handlers as may run at once. SQLite has one writer, so one is best there
    policy    when it is called again, and when it is given up (then it is dead, with the reason and the error)
    lease     seconds after which the event of a worker that died is another one's. One that is alive keeps its event
    poll      seconds between two looks while there is nothing to do; an `accept` in this process is noticed at once
    keep      how long keys are kept; the worker cleans every hour. None: you call `clean` yourself
    """

    def __init__(
        self,
        connect: Callable[[], Any],
        handlers: Mapping[str, Handler],
        *,
        threads: int = 1,
        policy: RetryPolicy = POLICY,
        lease: float = 60.0,
        poll: float = 0.2,
        keep: float | timedelta | None = KEPT,
    ) -> None:
        if threads < 1:
            raise InvalidInput("at least one", field="threads")
        self._connect = checked_connect(connect)
        self._count = threads
        self._rules = rules(handlers, policy=policy, lease=lease, poll=poll, keep=keep)
        self._threads: list[threading.Thread] = []
        self._stopping = threading.Event()
        self._bells: list[tuple[threading.Event, Bell]] = []
        self._cleaning = threading.Lock()
        self._clean_at = 0.0

    def start(self) -> None:
        """In threads of its own. They end with the process: an event that one was at is another worker's after the lease."""
        if self._threads:
            raise Conflict("this worker has been started already")
        self._clean_at = clock.monotonic() + clock.chance.uniform(0.0, 60.0)
        for number in range(self._count):
            woken = threading.Event()
            self._bells.append((woken, Bell(woken.set)))
            name = f"hookline-inbox-{number}"
            self._threads.append(threading.Thread(target=self._work, args=(woken,), name=name, daemon=True))
        for thread in self._threads:
            thread.start()

    def run(self) -> None:
        """Start, and return when `stop` was called and every handler has ended: `signal(SIGTERM, lambda *_: worker.stop(0))`."""
        self.start()
        for thread in self._threads:
            thread.join()

    def stop(self, timeout: float | None = None) -> bool:
        """Take no more events, and wait for the handlers that run; False if some still do after `timeout` seconds."""
        self._stopping.set()
        for woken, _ in self._bells:
            woken.set()
        ends = None if timeout is None else clock.monotonic() + timeout
        others = [thread for thread in self._threads if thread is not threading.current_thread() and thread.is_alive()]
        for thread in others:
            thread.join(None if ends is None else max(0.0, ends - clock.monotonic()))
        return not any(thread.is_alive() for thread in others)

    def drain(self) -> int:
        """Handle what is due now, in this thread, and return how many there were: for a cron job, or a test."""
        with _opened(self._connect) as conn:
            on = adapters.of(conn)
            handled = 0
            while self._handle_next(on, conn):
                handled += 1
            return handled

    def __enter__(self) -> InboxWorker:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # ── the loop of one thread ────────────────────────────────────────────────────────────────────────────────────

    def _work(self, woken: threading.Event) -> None:
        failures = 0

        def went_well() -> None:
            nonlocal failures
            failures = 0

        while not self._stopping.is_set():
            try:
                with _opened(self._connect) as conn:
                    self._serve(conn, woken, went_well)
            except Exception as error:  # the database, or what connects to it: whatever it is, it may pass
                log.warning("the inbox cannot be worked on now, trying again: %s", last_line(error))
                self._stopping.wait(backoff.delay(RECONNECT, failures, 0.0, clock.chance))
                failures += 1

    def _serve(self, conn: Any, woken: threading.Event, went_well: Callable[[], None]) -> None:
        on = adapters.of(conn)
        looks = 0
        while not self._stopping.is_set():
            found = self._handle_next(on, conn)
            went_well()
            self._clean_if_due(on)
            if found:
                looks = 0
                continue
            rang = woken.wait(self._rules.pause(looks, clock.chance))
            woken.clear()
            looks = 0 if rang else looks + 1

    def _clean_if_due(self, on: Connection) -> None:
        """One step, in one thread; it stays due until a step has found nothing."""
        keep = self._rules.keep
        if keep is None or clock.monotonic() < self._clean_at or not self._cleaning.acquire(blocking=False):
            return
        try:
            with on.transaction():
                gone = plans.run(on, plans.clean(on.engine, clock.wall(), keep, STEP))
            if not gone:
                self._clean_at = clock.monotonic() + CLEAN_EVERY
        finally:
            self._cleaning.release()

    # ── one event ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _handle_next(self, on: Connection, conn: Any) -> bool:
        with on.transaction():
            on.check()
            token = secrets.token_hex(12)
            claimed = plans.run(on, plans.claim(on.engine, clock.wall(), token, self._rules.lease))
        if claimed is None:
            return False
        if self._rules.is_used_up(claimed):
            with on.transaction():
                plans.run(on, self._rules.used_up(on.engine, clock.wall(), claimed))
            return True
        begun = clock.monotonic()
        try:
            self._handle(on, conn, claimed)
        except Lost:
            log.warning("%r: the claim ended before the handler began; another worker has it", claimed.event.key)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a handler is somebody else's code; asyncio's and gevent's are no Exception
            self._failed(on, claimed, error, claimed.age + clock.monotonic() - begun)
        return True

    def _handle(self, on: Connection, conn: Any, claimed: Claim) -> None:
        with on.transaction():
            if not plans.run(on, plans.finish(on.engine, clock.wall(), claimed)):
                raise Lost
            refuse_coroutine(self._rules.handler_of(claimed.event)(conn, claimed.event))
            if not plans.run(on, plans.is_finished(on.engine, claimed)):
                raise RolledBack("the handler rolled its transaction back: raise an error instead")

    def _failed(self, on: Connection, claimed: Claim, error: BaseException, age: float) -> None:
        event = claimed.event
        log.warning("%r: attempt %d failed: %s", event.key, event.attempt, last_line(error), exc_info=error)
        with on.transaction():
            noted = plans.run(on, self._rules.failed(on.engine, clock.wall(), claimed, error, age, clock.chance))
        if not noted:
            log.error(COMMITTED, event.key)


@contextmanager
def _opened(connect: Callable[[], Any]) -> Iterator[Any]:
    """A connection, or what a pool's context manager lends."""
    made = connect()
    if not adapters.is_known(made) and hasattr(type(made), "__enter__"):
        with made as conn:
            yield conn
    else:
        adapters.of(made)
        with closing(made):
            yield made
