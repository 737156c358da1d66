"""The sender in a process of its own, as the worker's event loop sees it.

In a thread beside the event loop the sender fights for the interpreter: libcurl's callbacks take it six times a request, and the
two together did less than either alone. Apart, both run at full speed; TLS has a core of its own; and whatever an endpoint
answers is parsed by a process that holds neither a secret nor the database.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import cast

import structlog

from hookline import clock
from hookline.engine.child_processes import spawn
from hookline.engine.frames import Frames, frame
from hookline.engine.sender.frames import Settings, decode_reports
from hookline.engine.sender.loop import Request, Results
from hookline.model import Sent
from hookline.model.states import ErrorKind

log = structlog.get_logger()

COMMAND = (sys.executable, "-P", "-m", "hookline.engine.sender.child")
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0  # seconds before a dead one is started again; doubles while it keeps dying
STEADY = 60.0  # one that lived this long starts anew at the first pause
CLOSE_MARGIN = 5.0  # seconds beyond its timeout that `close` waits for the process
STUCK_MARGIN = 15.0  # seconds beyond a request's deadline without its result: the process is stuck, and is replaced
LOOK_EVERY = 1.0  # seconds between looks for that
MAX_FRAME = 4 << 20  # bytes of the bodies in one frame, unless it has one body alone


class SenderProcess:
    """`on_results` is called on the event loop. Each request gets its result, also if the process dies."""

    def __init__(self, settings: Settings, on_results: Callable[[Results], None]) -> None:
        self._settings = settings
        self._on_results = on_results
        self._number = 0
        self._waiting: dict[int, Request] = {}  # not written yet: the process is being started
        self._flying: dict[int, Request] = {}
        self._overdue: dict[int, float] = {}  # by the last number of each frame that was written: monotonic
        self._line: _Line | None = None
        self.ready = asyncio.Event()  # it has started, and takes requests
        self._closing = False
        self._keeping: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._keeping = asyncio.create_task(self._keep())

    def submit(self, requests: Iterable[Request]) -> None:
        if self._closing:
            raise RuntimeError("the sender is closed")
        for request in requests:
            self._number += 1
            self._waiting[self._number] = request
        if self._line is not None:
            self._write(self._line)

    async def close(self, timeout: float) -> None:
        """Finish what is under way within `timeout` seconds and give up the rest. Each request still gets its result."""
        self._closing = True
        if self._line is not None:
            self._line.write(float(timeout))
        if self._keeping is not None:
            await asyncio.wait({self._keeping}, timeout=timeout + CLOSE_MARGIN)
            self._keeping.cancel()
            await asyncio.wait({self._keeping})
        self._give_up(self._waiting, "shutting down", untouched=True)
        self._give_up(self._flying, "shutting down", untouched=False)

    # ── the process ──

    async def _keep(self) -> None:
        """Start it, and again whenever it dies."""
        pause = FIRST_PAUSE
        while True:
            born = clock.monotonic()
            try:
                code: int | str = await self._live()
            except OSError as error:
                code = str(error)
            if self._closing:
                return
            self._fail()
            pause = FIRST_PAUSE if clock.monotonic() - born > STEADY else min(pause * 2, LONGEST_PAUSE)
            log.error("sender_died", exit_code=code, restart_in=pause)
            await asyncio.sleep(pause)

    async def _live(self) -> int:
        """One life of it; its exit code."""
        ours, process = spawn(COMMAND)
        watching = asyncio.create_task(self._watch(process))
        try:
            line = _Line(self._heard)
            await asyncio.get_running_loop().create_unix_connection(lambda: line, sock=ours)
            line.write(self._settings)
            self._line = line
            self._write(line)
            if self._closing:
                line.write(0.0)
            await line.lost
        finally:
            watching.cancel()
            self._line = None
            self.ready.clear()
            ours.close()
            process.kill()  # it has ended, or we are being ended
            process.wait()
        return process.returncode

    async def _watch(self, process: subprocess.Popen[bytes]) -> None:
        """One that no longer answers holds the worker's slots for ever: it is ended, and started again."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            if self._stuck():
                log.error("sender_stuck", requests=len(self._flying))
                process.kill()
                return

    def _stuck(self) -> bool:
        oldest = next(iter(self._flying), None)
        for last in list(self._overdue):
            if oldest is not None and oldest <= last:
                return self._overdue[last] < clock.monotonic()
            del self._overdue[last]
        return False

    def _write(self, line: _Line) -> None:
        """All that wait, in one frame; large ones in several."""
        waiting, self._waiting = self._waiting, {}
        for batch in _batches(waiting):
            self._write_batch(line, batch)

    def _write_batch(self, line: _Line, batch: dict[int, Request]) -> None:
        self._flying |= batch
        longest = max(one.deadline for one in batch.values())
        self._overdue[max(batch)] = clock.monotonic() + longest + STUCK_MARGIN
        line.write(
            [
                (number, one.url, one.headers, one.body, one.deadline, one.fresh, one.start_before)
                for number, one in batch.items()
            ]
        )

    def _heard(self, body: bytes) -> None:
        reports = decode_reports(body)
        if isinstance(reports, str):
            log.error("sender_fault", what=reports)
            return
        self.ready.set()
        flying = self._flying
        self._on_results([(flying.pop(number), sent) for number, sent in reports if number in flying])

    def _fail(self) -> None:
        """It died with these. What it had sent of them nobody knows."""
        self._overdue.clear()
        self._give_up(self._flying, "it may have arrived", ErrorKind.INTERRUPTED)

    def _give_up(
        self, requests: dict[int, Request], why: str, kind: ErrorKind = ErrorKind.NETWORK, *, untouched: bool = False
    ) -> None:
        if not requests:
            return
        now = clock.wall()
        results: Results = [
            (one, Sent(started_at=now, error=kind, detail=why, untouched=untouched)) for one in requests.values()
        ]
        requests.clear()
        self._on_results(results)


class _Line(asyncio.Protocol):
    def __init__(self, heard: Callable[[bytes], None]) -> None:
        self._heard = heard
        self._frames = Frames()
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)  # uvloop's is one without saying so

    def write(self, value: object) -> None:
        """Into the void, once the process has died: whoever waits for the end of this line deals with what is lost."""
        if not self._transport.is_closing():  # uvloop's raises then
            self._transport.write(frame(value))

    def data_received(self, data: bytes) -> None:
        for body in self._frames.feed(data):
            self._heard(body)

    def connection_lost(self, _error: Exception | None) -> None:
        if not self.lost.done():
            self.lost.set_result(None)


def _batches(requests: dict[int, Request]) -> Iterator[dict[int, Request]]:
    batch: dict[int, Request] = {}
    size = 0
    for number, one in requests.items():
        if batch and size + len(one.body) > MAX_FRAME:
            yield batch
            batch, size = {}, 0
        batch[number] = one
        size += len(one.body)
    if batch:
        yield batch
