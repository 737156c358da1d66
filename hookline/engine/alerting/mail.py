"""Sends alerts by e-mail, with retries. Each mail is sent in its own thread.

The process that evaluated the rules keeps unsent mail in memory, so a killed process loses it. Alerts by webhook are
not lost.
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
PAUSES = (2.0, 10.0, 60.0, 300.0)  # seconds between two tries; if the fifth try fails too, the mail is lost
LAST_TRY = 5.0  # seconds after the stop signal in which unsent mail is tried once more

SMTP_ERRORS = (OSError, smtplib.SMTPException, ValueError)


class MailTransport:
    """Sends mail through one server: `smtp://user:password@host:587` (STARTTLS), or `smtps://` (TLS from the
    start)."""

    def __init__(self, url: str, ca_bundle: str | None = None) -> None:
        self._parts: SplitResult = urlsplit(url)
        self._tls = ssl.create_default_context(cafile=ca_bundle)

    async def send(self, message: EmailMessage) -> None:
        """Send a message. After the deadline, or if the caller is cancelled, end the session, so that the thread
        ends."""
        session = _Session(self._tls if self._parts.scheme == "smtps" else None)
        sending = _in_thread(lambda: self._send_blocking(message, session))
        limit = asyncio.timeout(DEADLINE)
        try:
            async with limit:
                await asyncio.wrap_future(sending)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise TimeoutError(f"the mail server did not accept the mail within {DEADLINE:g} s") from error
        finally:
            session.shut_down()

    def _send_blocking(self, message: EmailMessage, session: _Session) -> None:
        """Send a message. The password is sent only over TLS."""
        parts, is_encrypted = self._parts, self._parts.scheme == "smtps"
        with closing(session):
            session.open(parts.hostname or "localhost", parts.port or (465 if is_encrypted else 587))
            if not is_encrypted:
                session.ehlo()
                if session.has_extn("starttls") or parts.username:
                    session.starttls(context=self._tls)
            if parts.username:
                session.login(unquote(parts.username), unquote(parts.password or ""))
            session.send_message(message)
            with suppress(*SMTP_ERRORS):
                session.putcmd("QUIT")  # do not wait for the answer: the server has already accepted the mail


def _in_thread(work: Callable[[], None]) -> Future[None]:
    """Run `work` in a new daemon thread. A process that exits waits for the threads of an executor, but not for this
    one."""
    done: Future[None] = Future()
    done.set_running_or_notify_cancel()  # nobody can cancel the future now, so the thread can always set its result

    def run() -> None:
        try:
            work()
        except Exception as error:
            done.set_exception(error)
        else:
            done.set_result(None)

    threading.Thread(target=run, name="alert-mail", daemon=True).start()
    return done


class _Session(smtplib.SMTP):
    """An SMTP session that another thread can end at any time. With `tls`, it uses TLS from the start."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        # The constructor of smtplib is not called here, because it looks up names and connects. `open` calls it.
        self._tls = tls
        self._lock = threading.Lock()
        self._handle: socket.socket | None = None  # duplicate of the socket: a TLS handshake detaches the original
        self._is_shut_down = False
        self.sock = self.file = None

    def open(self, host: str, port: int) -> None:
        super().__init__(host, port, timeout=TIMEOUT)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        """Open the connection. smtplib calls this method. smtplib's class `SMTP_SSL` overrides it, too, to add TLS."""
        opened = socket.create_connection((host, port), timeout)
        with self._lock:
            if self._is_shut_down:  # `send` has given up, so do not start a session
                opened.close()
                raise TimeoutError("the connection was shut down")
            self._handle = opened.dup()
        return opened if self._tls is None else self._tls.wrap_socket(opened, server_hostname=host)

    def shut_down(self) -> None:
        with self._lock:
            self._is_shut_down = True
            if self._handle is not None:
                with suppress(OSError):  # the server has already closed the connection
                    self._handle.shutdown(socket.SHUT_RDWR)  # unlike close(), this ends a read in another thread

    def close(self) -> None:
        super().close()
        with self._lock:
            if self._handle is not None:
                self._handle.close()
                self._handle = None


class Mailer:
    """Sends mail in order until `stop` is set. Then it tries unsent mail once more, for `LAST_TRY` seconds at most."""

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
        working = asyncio.create_task(self._work(stop))
        try:
            await stop.wait()
            async with asyncio.timeout(LAST_TRY):
                await self._waiting.join()
        except TimeoutError:
            pass  # mail that is still unsent is lost
        finally:
            working.cancel()
            await asyncio.wait((working,))
        while not self._waiting.empty():
            _log_lost(self._waiting.get_nowait())

    async def _work(self, stop: asyncio.Event) -> None:
        while True:
            message = await self._waiting.get()
            try:
                await self._deliver(message, stop)
            except asyncio.CancelledError:
                _log_lost(message)
                raise
            self._waiting.task_done()

    async def _deliver(self, message: EmailMessage, stop: asyncio.Event) -> None:
        """Try to send a message, with pauses between the tries. After the stop signal, try only once more. If the last
        try fails, log that the message is lost."""
        for seconds in (*self._pauses, None):
            is_stopping = stop.is_set()
            try:
                await self._send(message)
            except Exception as error:  # any error, because this process also delivers messages and must go on
                log.warning("alert_mail_failed", subject=message["Subject"], error=shown(error))
            else:
                return
            if seconds is None or is_stopping:
                break
            await pause(seconds, stop)
        _log_lost(message)


def _log_lost(message: EmailMessage) -> None:
    log.error("alert_mail_lost", subject=message["Subject"])


def shown(error: Exception) -> str:
    """Return an error as text for the log. A mail server's reply may quote the password, so only its code is
    included."""
    if isinstance(error, smtplib.SMTPResponseException):
        return f"{type(error).__name__} {error.smtp_code}"
    return type(error).__name__ if isinstance(error, smtplib.SMTPException) else f"{type(error).__name__}: {error}"
