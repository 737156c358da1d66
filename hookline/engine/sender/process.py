"""The worker's side of the sender: starts the sender's process, gives it requests and takes its results.

A sender in a thread of the worker competes with the event loop for the interpreter lock: libcurl's callbacks take it
six times per request. Measured together, the sender and the event loop did less work than either of them alone. In its
own process the sender runs at full speed, and TLS uses another core. The process parses the responses of endpoints,
and it has no secrets and no database connection.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

import structlog
from msgspec.structs import replace

from hookline import clock
from hookline.engine.child_processes import spawn
from hookline.engine.frames import Frames, frame
from hookline.engine.sender import started
from hookline.engine.sender.protocol import Request, Results, Settings, decode_reports
from hookline.model.attempts import Sent
from hookline.model.states import ErrorKind

log = structlog.get_logger()

COMMAND = (sys.executable, "-P", "-m", "hookline.engine.sender.child")
# Seconds of the pause before a process that died is restarted. If it ran longer than `STEADY`, the pause is
# `FIRST_PAUSE`. Otherwise it is twice the last pause, but at most `MAX_PAUSE`.
FIRST_PAUSE, MAX_PAUSE = 0.1, 10.0
STEADY = 60.0  # seconds
CLOSE_MARGIN = 5.0  # seconds that `close` waits for the process in addition to its timeout
STUCK_MARGIN = 15.0  # seconds after a request's deadline; if its result is still missing, the process is killed
STUCK_CHECK = 1.0  # seconds between two checks for a stuck process
MAX_FRAME = 4 << 20  # bytes of request bodies in one frame; a larger body has a frame of its own


class SenderProcess:
    """Sends requests through a child process. Each request gets a result, even if the process dies.

    `on_results` is called on the event loop. A result that has neither a status nor an error means that the request
    was not started.
    """

    def __init__(self, settings: Settings, on_results: Callable[[Results], None]) -> None:
        self._settings = settings
        self._on_results = on_results
        self._number = 0
        self._waiting: list[Request] = []  # requests not written yet, because the process is starting
        # By number, oldest first: a request's `ref`, and the monotonic time at which its result is overdue.
        self._in_flight: dict[int, tuple[Any, float]] = {}
        self._started: frozenset[int] = frozenset()  # numbers of requests that the last sender process has started
        self._connection: _Connection | None = None
        self.ready = asyncio.Event()  # set while the sender process accepts requests
        self._closing = False
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._running = asyncio.create_task(self._keep_running())

    def submit(self, requests: Iterable[Request]) -> None:
        if self._closing:
            raise RuntimeError("the sender is closed")
        self._waiting.extend(requests)
        if self._connection is not None:
            self._write(self._connection)

    async def close(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for the requests in flight, then abort those that have not ended. Each request
        still gets a result."""
        self._closing = True
        if self._connection is not None:
            self._connection.write(float(timeout))
        if self._running is not None:
            await asyncio.wait({self._running}, timeout=timeout + CLOSE_MARGIN)
            self._running.cancel()
            await asyncio.wait({self._running})
        waiting, self._waiting = self._waiting, []
        self._end([one.ref for one in waiting], _unstarted())
        self._end_all(ErrorKind.NETWORK, "shutting down")

    # ── the process ──

    async def _keep_running(self) -> None:
        """Start the sender process, and start it again whenever it dies."""
        pause = FIRST_PAUSE
        while True:
            began = clock.monotonic()
            try:
                code: int | str = await self._run_once()
            except OSError as error:
                code = str(error)
            if self._closing:
                return
            self._end_all(ErrorKind.INTERRUPTED, "it may have arrived")
            pause = FIRST_PAUSE if clock.monotonic() - began > STEADY else min(pause * 2, MAX_PAUSE)
            log.error("sender_died", exit_code=code, restart_in=pause)
            await asyncio.sleep(pause)

    async def _run_once(self) -> int:
        """Run the sender process until it ends. Note which requests it has started. Return its exit code."""
        places = started.create(self._settings.slots)
        try:
            return await self._run_child(places)
        finally:
            self._started = started.numbers(places)
            os.close(places)

    async def _run_child(self, places: int) -> int:
        parent_end, process = spawn((*COMMAND, str(places)), inherited=(places,))
        watching = asyncio.create_task(self._watch(process))
        try:
            connection = _Connection(self._receive)
            await asyncio.get_running_loop().create_unix_connection(lambda: connection, sock=parent_end)
            connection.write(self._settings)
            self._connection = connection
            self._write(connection)
            if self._closing:
                connection.write(0.0)
            await connection.lost
        finally:
            watching.cancel()
            self._connection = None
            self.ready.clear()
            parent_end.close()
            process.kill()  # the process has already ended, or this task was cancelled
            process.wait()
        return process.returncode

    async def _watch(self, process: subprocess.Popen[bytes]) -> None:
        """Kill the process if it is stuck, because it would hold the worker's slots for ever. It is then started
        again."""
        while True:
            await asyncio.sleep(STUCK_CHECK)
            if self._stuck():
                log.error("sender_stuck", requests=len(self._in_flight))
                process.kill()
                return

    def _stuck(self) -> bool:
        oldest = next(iter(self._in_flight.values()), None)
        return oldest is not None and oldest[1] < clock.monotonic()

    def _write(self, connection: _Connection) -> None:
        """Write all waiting requests in one frame, or in several if they are large."""
        waiting, self._waiting = self._waiting, []
        for batch in _batches(waiting):
            self._write_batch(connection, batch)

    def _write_batch(self, connection: _Connection, batch: Sequence[Request]) -> None:
        overdue_at = clock.monotonic() + max(one.deadline for one in batch) + STUCK_MARGIN
        orders = []
        for number, one in enumerate(batch, self._number + 1):
            self._in_flight[number] = (one.ref, overdue_at)
            orders.append(replace(one, ref=number))
        self._number += len(batch)
        connection.write(orders)

    def _receive(self, body: bytes) -> None:
        reports = decode_reports(body)
        if isinstance(reports, str):
            log.error("sender_fault", what=reports)
            return
        self.ready.set()
        in_flight = self._in_flight
        self._on_results([(in_flight.pop(number)[0], sent) for number, sent in reports if number in in_flight])

    def _end_all(self, kind: ErrorKind, why: str) -> None:
        """Give a result to each request that the sender process had when it ended. If a request was started, nobody
        knows how much of it was sent."""
        in_flight, self._in_flight = self._in_flight, {}
        begun = self._started
        self._end([ref for number, (ref, _) in in_flight.items() if number not in begun], _unstarted())
        lost = Sent(started_at=clock.wall(), error=kind, detail=why)
        self._end([ref for number, (ref, _) in in_flight.items() if number in begun], lost)

    def _end(self, refs: Sequence[Any], sent: Sent) -> None:
        if refs:
            self._on_results([(ref, sent) for ref in refs])


class _Connection(asyncio.Protocol):
    def __init__(self, on_frame: Callable[[bytes], None]) -> None:
        self._on_frame = on_frame
        self._frames = Frames()
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transport is not declared as a WriteTransport.
        self._transport = cast("asyncio.WriteTransport", transport)

    def write(self, value: object) -> None:
        """Write a frame, or nothing if the process has died. `_keep_running` then ends the requests that are lost."""
        if not self._transport.is_closing():  # uvloop raises an error if the transport is closing
            self._transport.write(frame(value))

    def data_received(self, data: bytes) -> None:
        for body in self._frames.feed(data):
            self._on_frame(body)

    def connection_lost(self, _error: Exception | None) -> None:
        if not self.lost.done():
            self.lost.set_result(None)


def _unstarted() -> Sent:
    return Sent(started_at=clock.wall())


def _batches(requests: Iterable[Request]) -> Iterator[list[Request]]:
    batch: list[Request] = []
    size = 0
    for one in requests:
        if batch and size + len(one.body) > MAX_FRAME:
            yield batch
            batch, size = [], 0
        batch.append(one)
        size += len(one.body)
    if batch:
        yield batch
