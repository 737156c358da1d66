"""E-mail: in a thread, tried again for a while, and never more of them than a person reads.

It is told by the process that asked the rules, from memory: one that is killed takes its unsent mail with it. The webhook is
what is never lost.
"""

from __future__ import annotations

import asyncio
import smtplib
import ssl
from collections.abc import Callable, Sequence
from email.message import EmailMessage
from urllib.parse import SplitResult, unquote, urlsplit

import structlog

from hookline.flow.outage import pause

log = structlog.get_logger()

MOST_WAITING = 100
TIMEOUT = 20.0  # seconds, of each step of the conversation
PAUSES = (2.0, 10.0, 60.0, 300.0)  # seconds after each try that failed
LAST_CHANCE = 5.0  # seconds for what still waits when the process ends

FAULTS = (OSError, smtplib.SMTPException, ValueError)


class Post:
    """The way to one mail server: `smtp://user:password@host:587` (STARTTLS), or `smtps://` (TLS from the start)."""

    def __init__(self, url: str, ca_bundle: str | None = None) -> None:
        self._parts: SplitResult = urlsplit(url)
        self._tls = ssl.create_default_context(cafile=ca_bundle)

    def send(self, message: EmailMessage) -> None:
        """Blocks. A password is never sent in the clear."""
        with self._connected() as server:
            if self._parts.username:
                server.login(unquote(self._parts.username), unquote(self._parts.password or ""))
            server.send_message(message)

    def _connected(self) -> smtplib.SMTP:
        host = self._parts.hostname or "localhost"
        if self._parts.scheme == "smtps":
            return smtplib.SMTP_SSL(host, self._parts.port or 465, timeout=TIMEOUT, context=self._tls)
        server = smtplib.SMTP(host, self._parts.port or 587, timeout=TIMEOUT)
        try:
            server.ehlo()
            if server.has_extn("starttls") or self._parts.username:
                server.starttls(context=self._tls)
        except BaseException:
            server.close()
            raise
        return server


class Mailer:
    """Sends what is posted, in order, until the stop; then what still waits gets one more chance."""

    def __init__(self, send: Callable[[EmailMessage], None], *, pauses: Sequence[float] = PAUSES) -> None:
        self._send = send
        self._pauses = pauses
        self._waiting: asyncio.Queue[EmailMessage] = asyncio.Queue(MOST_WAITING)

    def post(self, message: EmailMessage) -> None:
        try:
            self._waiting.put_nowait(message)
        except asyncio.QueueFull:
            log.error("alert_mail_dropped", subject=message["Subject"], waiting=self._waiting.qsize())

    async def run(self, stop: asyncio.Event) -> None:
        stopped = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                message = await self._next(stopped)
                if message is not None:
                    await self._deliver(message, stop)
            await self._rest()
        finally:
            stopped.cancel()

    async def _next(self, stopped: asyncio.Task[bool]) -> EmailMessage | None:
        getting = asyncio.create_task(self._waiting.get())
        await asyncio.wait((getting, stopped), return_when=asyncio.FIRST_COMPLETED)
        if getting.done():
            return getting.result()
        getting.cancel()
        return None

    async def _deliver(self, message: EmailMessage, stop: asyncio.Event) -> None:
        for seconds in (*self._pauses, None):
            last = seconds is None or stop.is_set()
            if await self._try(message):
                return
            if last:
                break
            await pause(seconds or 0.0, stop)
        log.error("alert_mail_lost", subject=message["Subject"])

    async def _try(self, message: EmailMessage) -> bool:
        try:
            await asyncio.to_thread(self._send, message)
        except FAULTS as error:
            log.warning("alert_mail_failed", subject=message["Subject"], error=shown(error))
            return False
        return True

    async def _rest(self) -> None:
        try:
            async with asyncio.timeout(LAST_CHANCE):
                while not self._waiting.empty():
                    await self._try(self._waiting.get_nowait())
        except TimeoutError:
            log.error("alert_mail_lost", waiting=self._waiting.qsize())


def shown(error: Exception) -> str:
    """A server may quote what it was sent, password and all: of its refusals only the code is shown."""
    if isinstance(error, smtplib.SMTPResponseException):
        return f"{type(error).__name__} {error.smtp_code}"
    return type(error).__name__ if isinstance(error, smtplib.SMTPException) else f"{type(error).__name__}: {error}"
