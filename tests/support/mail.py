"""A real SMTP server on loopback. It stores the mails that it receives. It can require TLS and a password, refuse
mails, or not answer."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
import threading
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default

from msgspec import Struct

from tests.support.threaded import PATIENCE, ThreadedServer


class Mailed(Struct, frozen=True, kw_only=True):
    sender: str
    recipients: list[str]
    message: EmailMessage
    encrypted: bool
    login: tuple[str, str] | None


class MailServer(ThreadedServer):
    """An SMTP server that runs during a block: `with MailServer() as server:`."""

    def __init__(
        self,
        *,
        starttls: ssl.SSLContext | None = None,
        tls: ssl.SSLContext | None = None,
        drips: float | None = None,
        silent: bool = False,
    ) -> None:
        super().__init__("mail server", tls=tls)
        self.drips = drips  # if set, send a greeting that never ends, with this many seconds between two bytes
        self.silent = silent  # True: accept connections and send nothing
        self.callers = 0  # number of connections that the server accepted so far
        self.mails: list[Mailed] = []
        self.tries = 0  # mails offered by clients, accepted or not
        self.refuse = 0  # number of mails to refuse from now on
        self.secrets: list[bytes] = []  # everything that arrived unencrypted
        self._starttls = starttls
        self._news = threading.Condition()

    def wait_for(self, count: int) -> list[Mailed]:
        with self._news:
            if not self._news.wait_for(lambda: len(self.mails) >= count, PATIENCE):
                raise TimeoutError(f"{len(self.mails)} of {count} mails came")
            return list(self.mails)

    def wait_for_callers(self, count: int) -> None:
        with self._news:
            assert self._news.wait_for(lambda: self.callers >= count, PATIENCE), f"{self.callers} of {count} callers"

    async def arrived(self, count: int) -> list[Mailed]:
        return await asyncio.to_thread(self.wait_for, count)

    def wait_for_tries(self, count: int) -> None:
        with self._news:
            assert self._news.wait_for(lambda: self.tries >= count, PATIENCE), f"{self.tries} of {count} tries"

    # ── the server's loop ──

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with self._news:
            self.callers += 1
            self._news.notify_all()
        if self.silent or self.drips is not None:
            await self._stall(reader, writer)
        await _Conversation(self, reader, writer, encrypted=self._tls is not None).hold()
        writer.close()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()

    async def _stall(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send nothing until the client disconnects."""
        writer.write(b"" if self.silent else b"220-")
        while not reader.at_eof():
            try:
                async with asyncio.timeout(self.drips):
                    await reader.read()
            except TimeoutError:
                writer.write(b"x")

    def taken(self, mail: Mailed) -> bool:
        with self._news:
            self.tries += 1
            refused = self.refuse > 0
            self.refuse -= refused
            if not refused:
                self.mails.append(mail)
            self._news.notify_all()
            return not refused

    @property
    def offers_tls(self) -> ssl.SSLContext | None:
        return self._starttls


class _Conversation:
    def __init__(
        self, server: MailServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, encrypted: bool
    ) -> None:
        self._server, self._reader, self._writer = server, reader, writer
        self._encrypted = encrypted
        self._login: tuple[str, str] | None = None
        self._sender, self._recipients = "", [""]

    async def hold(self) -> None:
        await self._say("220 mail.test ESMTP")
        while True:
            line = (await self._reader.readline()).rstrip(b"\r\n")
            if not self._encrypted:
                self._server.secrets.append(line)
            word, _, rest = line.decode().partition(" ")
            match word.upper():
                case "EHLO" | "HELO":
                    await self._hello()
                case "STARTTLS":
                    await self._say("220 go ahead")
                    context = self._server.offers_tls
                    assert context is not None
                    await self._writer.start_tls(context)
                    self._encrypted = True
                case "AUTH":
                    _, name, password = base64.b64decode(rest.removeprefix("PLAIN ")).decode().split("\0")
                    self._login = (name, password)
                    await self._say("235 welcome")
                case "MAIL":
                    self._sender, self._recipients = rest.split("<")[1].split(">")[0], []
                    await self._say("250 ok")
                case "RCPT":
                    self._recipients.append(rest.split("<")[1].split(">")[0])
                    await self._say("250 ok")
                case "DATA":
                    await self._data()
                case "QUIT" | "":
                    return
                case _:
                    await self._say("250 ok")

    async def _hello(self) -> None:
        can = ["mail.test", "AUTH PLAIN"]
        if self._server.offers_tls is not None and not self._encrypted:
            can.append("STARTTLS")
        await self._say("\r\n".join([*(f"250-{each}" for each in can[:-1]), f"250 {can[-1]}"]))

    async def _data(self) -> None:
        await self._say("354 go on")
        raw = (await self._reader.readuntil(b"\r\n.\r\n")).removesuffix(b"\r\n.\r\n")
        message = message_from_bytes(raw, policy=default)
        mail = Mailed(
            sender=self._sender,
            recipients=self._recipients,
            message=message,
            encrypted=self._encrypted,
            login=self._login,
        )
        await self._say("250 taken" if self._server.taken(mail) else "451 not now, s3cret-of-the-server")

    async def _say(self, text: str) -> None:
        self._writer.write(f"{text}\r\n".encode())
        await self._writer.drain()
