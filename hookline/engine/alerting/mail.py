"""E-mail: in a thread of its own, tried again for a while, and never more of them than a person reads.

It is told by the process that asked the rules, from memory: one that is killed takes its unsent mail with it. The webhook is
what is never lost.
"""

from __future__ import annotations

import asyncio
import smtplib
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import closing, suppress
from email.message import EmailMessage
from urllib.parse import SplitResult, unquote, urlsplit

import structlog

from hookline.store.outage import pause

log = structlog.get_logger()

MAX_WAITING = 100
TIMEOUT = 20.0  # seconds, of each step of the conversation
DEADLINE = 60.0  # seconds, of the whole of it: a server that drips is never silent for a step's time
PAUSES = (2.0, 10.0, 60.0, 300.0)  # seconds after each try that failed
LAST_CHANCE = 5.0  # seconds from the stop on, for what is under way and what still waits

FAULTS = (OSError, smtplib.SMTPException, ValueError)


class Post:
    """The way to one mail server: `smtp://user:password@host:587` (STARTTLS), or `smtps://` (TLS from the start)."""

    def __init__(self, url: str, ca_bundle: str | None = None) -> None:
        self._parts: SplitResult = urlsplit(url)
        self._tls = ssl.create_default_context(cafile=ca_bundle)

    async def send(self, message: EmailMessage) -> None:
        """Until the deadline. Whoever is cancelled hangs up too: the thread ends, and with it the mail."""
        line = _Line()
        talking = _in_thread(lambda: self._talk(message, line))
        limit = asyncio.timeout(DEADLINE)
        try:
            async with limit:
                await asyncio.wrap_future(talking)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise TimeoutError(f"the mail server did not take it within {DEADLINE:g} s") from error
        finally:
            line.cut()

    def _talk(self, message: EmailMessage, line: _Line) -> None:
        """Blocks. A password is never sent in the clear."""
        with line, closing(self._connected(line)) as server:
            if self._parts.username:
                server.login(unquote(self._parts.username), unquote(self._parts.password or ""))
            server.send_message(message)
            with suppress(*FAULTS):
                server.putcmd("QUIT")  # not waited for: the mail is taken, whatever is answered now

    def _connected(self, line: _Line) -> smtplib.SMTP:
        host = self._parts.hostname or "localhost"
        if self._parts.scheme == "smtps":
            return _Conversation(line, host, self._parts.port or 465, self._tls)
        server = _Conversation(line, host, self._parts.port or 587)
        try:
            server.ehlo()
            if server.has_extn("starttls") or self._parts.username:
                server.starttls(context=self._tls)
        except BaseException:
            server.close()
            raise
        return server


def _in_thread(work: Callable[[], None]) -> Future[None]:
    """Not one of the executor's: those are waited for when the process ends."""
    done: Future[None] = Future()
    done.set_running_or_notify_cancel()  # from now on nobody can cancel it, so that the thread can always say how it ended

    def run() -> None:
        try:
            work()
        except Exception as error:
            done.set_exception(error)
        else:
            done.set_result(None)

    threading.Thread(target=run, name="alert-mail", daemon=True).start()
    return done


class _Line:
    """What a conversation is held over: it can be cut from another thread, whatever is waited for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._handle: socket.socket | None = None
        self._is_cut = False

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        with self._lock:
            if self._handle is not None:
                self._handle.close()
                self._handle = None

    def held(self, connection: socket.socket) -> socket.socket:
        """One that was cut while it was made is not used: nobody would know of the mail."""
        with self._lock:
            if self._is_cut:
                connection.close()
                raise TimeoutError("hung up")
            self._handle = connection.dup()  # TLS takes the socket itself away, and only then shakes hands
        return connection

    def cut(self) -> None:
        with self._lock:
            self._is_cut = True
            if self._handle is not None:
                with suppress(OSError):  # the server was faster
                    self._handle.shutdown(socket.SHUT_RDWR)  # a close would not wake who reads


class _Conversation(smtplib.SMTP):
    """Over a line; with `tls`, from the start."""

    def __init__(self, line: _Line, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        self._line, self._tls = line, tls
        super().__init__(host, port, timeout=TIMEOUT)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        """As `SMTP_SSL` does, where smtplib makes its connection."""
        connection = self._line.held(socket.create_connection((host, port), timeout))
        return connection if self._tls is None else self._tls.wrap_socket(connection, server_hostname=host)


class Mailer:
    """Sends what is posted, in order, until the stop; then what is under way and what still waits gets one last chance."""

    def __init__(self, send: Callable[[EmailMessage], Awaitable[None]], *, pauses: Sequence[float] = PAUSES) -> None:
        self._send = send
        self._pauses = pauses
        self._waiting: asyncio.Queue[EmailMessage] = asyncio.Queue(MAX_WAITING)

    def post(self, message: EmailMessage) -> None:
        try:
            self._waiting.put_nowait(message)
        except asyncio.QueueFull:
            log.error("alert_mail_dropped", subject=message["Subject"], waiting=self._waiting.qsize())

    async def run(self, stop: asyncio.Event) -> None:
        stopped = asyncio.create_task(stop.wait())
        working = asyncio.create_task(self._work(stop, stopped))
        try:
            await asyncio.wait((working, stopped), return_when=asyncio.FIRST_COMPLETED)
            await self._end(working)
        finally:
            stopped.cancel()
            working.cancel()

    async def _end(self, working: asyncio.Task[None]) -> None:
        try:
            async with asyncio.timeout(LAST_CHANCE):
                await working
        except TimeoutError:
            while not self._waiting.empty():
                _lost(self._waiting.get_nowait())

    async def _work(self, stop: asyncio.Event, stopped: asyncio.Task[bool]) -> None:
        while (message := await self._next(stopped)) is not None:
            try:
                await self._deliver(message, stop)
            except asyncio.CancelledError:
                _lost(message)
                raise

    async def _next(self, stopped: asyncio.Task[bool]) -> EmailMessage | None:
        """None: it is over, and nothing waits."""
        if stopped.done() or not self._waiting.empty():
            return None if self._waiting.empty() else self._waiting.get_nowait()
        getting = asyncio.create_task(self._waiting.get())
        await asyncio.wait((getting, stopped), return_when=asyncio.FIRST_COMPLETED)
        if getting.done():
            return getting.result()
        getting.cancel()
        return None

    async def _deliver(self, message: EmailMessage, stop: asyncio.Event) -> None:
        """After the stop once more, and without a pause."""
        for seconds in (*self._pauses, None):
            last = seconds is None or stop.is_set()
            if await self._try(message):
                return
            if last:
                break
            await pause(seconds or 0.0, stop)
        _lost(message)

    async def _try(self, message: EmailMessage) -> bool:
        try:
            await self._send(message)
        except (
            Exception
        ) as error:  # of any kind, no thread to be had among them: delivering goes on in the same process
            log.warning("alert_mail_failed", subject=message["Subject"], error=shown(error))
            return False
        return True


def _lost(message: EmailMessage) -> None:
    log.error("alert_mail_lost", subject=message["Subject"])


def shown(error: Exception) -> str:
    """A server may quote what it was sent, password and all: of its refusals only the code is shown."""
    if isinstance(error, smtplib.SMTPResponseException):
        return f"{type(error).__name__} {error.smtp_code}"
    return type(error).__name__ if isinstance(error, smtplib.SMTPException) else f"{type(error).__name__}: {error}"
