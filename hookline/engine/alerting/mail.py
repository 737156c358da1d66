"""Sends alerts by e-mail, with retries. Each mail is sent in its own thread.

The process that evaluated the rules keeps unsent mail in memory, so a killed process loses it. Alerts by webhook are not lost.
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
TIMEOUT = 20.0  # seconds for each step of an SMTP session
DEADLINE = 60.0  # seconds for the whole session, because a slow server can keep every step below its timeout
PAUSES = (2.0, 10.0, 60.0, 300.0)  # seconds to wait after each failed try
LAST_TRY = 5.0  # seconds after the stop signal in which unsent mail is tried once more

SMTP_ERRORS = (OSError, smtplib.SMTPException, ValueError)


class MailTransport:
    """Sends mail by one mail server: `smtp://user:password@host:587` (STARTTLS), or `smtps://` (TLS from the start)."""

    def __init__(self, url: str, ca_bundle: str | None = None) -> None:
        self._parts: SplitResult = urlsplit(url)
        self._tls = ssl.create_default_context(cafile=ca_bundle)

    async def send(self, message: EmailMessage) -> None:
        """Send a message. After the deadline, or if the caller is cancelled, close the connection, so that the thread ends."""
        connection = _Connection()
        sending = _in_thread(lambda: self._send_blocking(message, connection))
        limit = asyncio.timeout(DEADLINE)
        try:
            async with limit:
                await asyncio.wrap_future(sending)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise TimeoutError(f"the mail server did not accept the mail within {DEADLINE:g} s") from error
        finally:
            connection.shut_down()

    def _send_blocking(self, message: EmailMessage, connection: _Connection) -> None:
        """Send a message. The password is sent only over TLS."""
        with connection, closing(self._connected(connection)) as server:
            if self._parts.username:
                server.login(unquote(self._parts.username), unquote(self._parts.password or ""))
            server.send_message(message)
            with suppress(*SMTP_ERRORS):
                server.putcmd("QUIT")  # do not wait for the answer: the server has already accepted the mail

    def _connected(self, connection: _Connection) -> smtplib.SMTP:
        host = self._parts.hostname or "localhost"
        if self._parts.scheme == "smtps":
            return _Session(connection, host, self._parts.port or 465, self._tls)
        server = _Session(connection, host, self._parts.port or 587)
        try:
            server.ehlo()
            if server.has_extn("starttls") or self._parts.username:
                server.starttls(context=self._tls)
        except BaseException:
            server.close()
            raise
        return server


def _in_thread(work: Callable[[], None]) -> Future[None]:
    """Run `work` in a new daemon thread. A process that exits waits for the threads of an executor, but not for this one."""
    done: Future[None] = Future()
    done.set_running_or_notify_cancel()  # it cannot be cancelled any more, so the thread can always set its result

    def run() -> None:
        try:
            work()
        except Exception as error:
            done.set_exception(error)
        else:
            done.set_result(None)

    threading.Thread(target=run, name="alert-mail", daemon=True).start()
    return done


class _Connection:
    """The connection of an SMTP session. Another thread can shut it down at any time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._handle: socket.socket | None = None
        self._is_shut_down = False

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        with self._lock:
            if self._handle is not None:
                self._handle.close()
                self._handle = None

    def attach(self, opened: socket.socket) -> socket.socket:
        """Use a new socket. Refuse it if `shut_down` was called meanwhile, because nobody would see the result of the mail."""
        with self._lock:
            if self._is_shut_down:
                opened.close()
                raise TimeoutError("the connection was shut down")
            self._handle = opened.dup()  # a TLS handshake detaches the original socket before it begins
        return opened

    def shut_down(self) -> None:
        with self._lock:
            self._is_shut_down = True
            if self._handle is not None:
                with suppress(OSError):  # the server has already closed the connection
                    self._handle.shutdown(socket.SHUT_RDWR)  # unlike close(), this ends a read in another thread


class _Session(smtplib.SMTP):
    """An SMTP session over a connection. With `tls`, it uses TLS from the start."""

    def __init__(self, connection: _Connection, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        self._connection, self._tls = connection, tls
        super().__init__(host, port, timeout=TIMEOUT)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        """Open the connection. smtplib calls this method, and its own `SMTP_SSL` overrides it in the same way."""
        opened = self._connection.attach(socket.create_connection((host, port), timeout))
        return opened if self._tls is None else self._tls.wrap_socket(opened, server_hostname=host)


class Mailer:
    """Sends mail in order until `stop` is set. Unsent mail is then tried once more."""

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
            async with asyncio.timeout(LAST_TRY):
                await working
        except TimeoutError:
            while not self._waiting.empty():
                _log_lost(self._waiting.get_nowait())

    async def _work(self, stop: asyncio.Event, stopped: asyncio.Task[bool]) -> None:
        while (message := await self._next(stopped)) is not None:
            try:
                await self._deliver(message, stop)
            except asyncio.CancelledError:
                _log_lost(message)
                raise

    async def _next(self, stopped: asyncio.Task[bool]) -> EmailMessage | None:
        """Wait for the next message. Return None after the stop signal, if no message waits."""
        if stopped.done() or not self._waiting.empty():
            return None if self._waiting.empty() else self._waiting.get_nowait()
        getting = asyncio.create_task(self._waiting.get())
        await asyncio.wait((getting, stopped), return_when=asyncio.FIRST_COMPLETED)
        if getting.done():
            return getting.result()
        getting.cancel()
        return None

    async def _deliver(self, message: EmailMessage, stop: asyncio.Event) -> None:
        """Try to send a message, with pauses between the tries. After the stop signal, try only once more."""
        for seconds in (*self._pauses, None):
            last = seconds is None or stop.is_set()
            if await self._try(message):
                return
            if last:
                break
            await pause(seconds or 0.0, stop)
        _log_lost(message)

    async def _try(self, message: EmailMessage) -> bool:
        try:
            await self._send(message)
        except Exception as error:  # any error, because this process also delivers messages and must go on
            log.warning("alert_mail_failed", subject=message["Subject"], error=shown(error))
            return False
        return True


def _log_lost(message: EmailMessage) -> None:
    log.error("alert_mail_lost", subject=message["Subject"])


def shown(error: Exception) -> str:
    """Return an error as text for the log. A mail server's reply may quote the password, so only its code is included."""
    if isinstance(error, smtplib.SMTPResponseException):
        return f"{type(error).__name__} {error.smtp_code}"
    return type(error).__name__ if isinstance(error, smtplib.SMTPException) else f"{type(error).__name__}: {error}"
