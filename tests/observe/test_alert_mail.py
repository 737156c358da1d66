"""E-mail over a real SMTP conversation: encrypted, tried again, bounded, and without a password in any line."""

from __future__ import annotations

import asyncio
import smtplib
import ssl
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from pathlib import Path

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from hookline.engine.alerting import mail as sending
from hookline.engine.alerting.mail import MAX_WAITING, Mailer, MailTransport
from hookline.model.alerts import Alert, Notice, Severity
from hookline.rules.alerts.wording import Channels, mail
from tests.support.certs import Authority
from tests.support.mail import MailServer

AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
ALERT = Alert(
    id=17,
    name="dead_letters",
    subject="",
    severity=Severity.CRITICAL,
    began_at=AT - timedelta(minutes=3),
    fired_at=AT,
    value=123,
    threshold=100,
    text="there are 123 unresolved dead letters (limit 100); most frequent reason: blocked_address",
)
CHANNELS = Channels(emails=("ops@example.com", "night@example.com"), email_from="hookline@example.com")


def message(alert: Alert = ALERT) -> EmailMessage:
    return mail(Notice(alert=alert, at=AT), CHANNELS)


@pytest.fixture(autouse=True)
def _no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is under way at the stop comes to its end on a busy machine too."""
    monkeypatch.setattr(sending, "LAST_TRY", 60.0)


@asynccontextmanager
async def mailing(mailer: Mailer) -> AsyncIterator[None]:
    stop = asyncio.Event()
    running = asyncio.create_task(mailer.run(stop))
    try:
        yield
    finally:
        stop.set()
        await running


async def test_a_mail_says_what_since_when_how_bad_and_where_to_look() -> None:
    with MailServer() as server:
        await MailTransport(f"smtp://127.0.0.1:{server.port}").send(message())
        (found,) = server.wait_for(1)
    assert found.sender == "hookline@example.com"
    assert found.recipients == ["ops@example.com", "night@example.com"]
    assert found.message["Subject"] == "[Hookline] critical: Dead letters"
    assert found.message["Auto-Submitted"] == "auto-generated"
    text = found.message.get_content()
    assert "There are 123 unresolved dead letters (limit 100); most frequent reason: blocked_address." in text
    assert "Since 2026-03-04 05:03:07 UTC. Details: hookline dead stats --all-orgs" in text


def test_one_that_is_over_says_how_long_it_lasted() -> None:
    over = replace(ALERT, resolved_at=AT)
    found = mail(Notice(alert=over, at=AT + timedelta(hours=2)), CHANNELS)
    assert found["Subject"] == "[Hookline] resolved: Dead letters"
    assert "It lasted 2 h 3 min, from 2026-03-04 05:03:07 UTC to 2026-03-04 07:06:07 UTC." in found.get_content()


async def test_a_password_goes_over_tls_only(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    bundle = str(authority.bundle)
    with MailServer(starttls=authority.context("127.0.0.1")) as server:
        await MailTransport(f"smtp://hook%40line:s3cret@127.0.0.1:{server.port}", bundle).send(message())
        (found,) = server.wait_for(1)
        assert found.encrypted
        assert found.login == ("hook@line", "s3cret")
        assert not any(b"AUTH" in line for line in server.secrets)
    with MailServer() as plain, pytest.raises(smtplib.SMTPNotSupportedError):
        await MailTransport(f"smtp://hookline:s3cret@127.0.0.1:{plain.port}", bundle).send(message())
    assert not any(b"AUTH" in line for line in plain.secrets)
    assert plain.mails == []


async def test_tls_from_the_start_and_a_certificate_that_is_not_trusted(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with MailServer(tls=authority.context("127.0.0.1")) as server:
        url = f"smtps://hookline:s3cret@127.0.0.1:{server.port}"
        await MailTransport(url, str(authority.bundle)).send(message())
        assert server.wait_for(1)[0].encrypted
        with pytest.raises(ssl.SSLCertVerificationError):
            await MailTransport(url).send(message())
    with MailServer(starttls=authority.context("127.0.0.1", self_signed=True)) as server:
        with pytest.raises(ssl.SSLCertVerificationError):
            await MailTransport(f"smtp://127.0.0.1:{server.port}", str(authority.bundle)).send(message())
        assert server.mails == []


async def test_what_is_not_taken_is_tried_again_and_its_refusal_is_not_quoted() -> None:
    with MailServer() as server, capture_logs() as logs:
        server.refuse = 2
        mailer = Mailer(MailTransport(f"smtp://127.0.0.1:{server.port}").send, pauses=(0.001, 0.001))
        async with mailing(mailer):
            mailer.post(message())
            assert len(await server.arrived(1)) == 1
        assert server.tries == 3
    assert [line["event"] for line in logs] == ["alert_mail_failed"] * 2
    assert "s3cret" not in str(logs)


async def test_it_is_given_up_after_a_while_and_the_next_one_goes_out() -> None:
    with MailServer() as server, capture_logs() as logs:
        server.refuse = 3
        mailer = Mailer(MailTransport(f"smtp://127.0.0.1:{server.port}").send, pauses=(0.001, 0.001))
        async with mailing(mailer):
            mailer.post(message())
            mailer.post(message(replace(ALERT, name="backlog")))
            (found,) = await server.arrived(1)
    assert found.message["Subject"] == "[Hookline] critical: Backlog"
    assert logs[-1]["event"] == "alert_mail_lost"


async def test_no_more_wait_than_a_person_reads() -> None:
    mailer = Mailer(MailTransport("smtp://127.0.0.1:1").send)
    with capture_logs() as logs:
        for _ in range(MAX_WAITING + 2):
            mailer.post(message())
    assert [line["event"] for line in logs] == ["alert_mail_dropped"] * 2


async def test_what_waits_when_the_process_ends_has_one_more_chance() -> None:
    with MailServer() as server:
        server.refuse = 1
        mailer = Mailer(MailTransport(f"smtp://127.0.0.1:{server.port}").send, pauses=(3600.0,))
        async with mailing(mailer):
            mailer.post(message())
            mailer.post(message(replace(ALERT, name="backlog")))
            await asyncio.to_thread(server.wait_for_tries, 1)
        names = [found.message["Subject"] for found in server.mails]
        assert names == ["[Hookline] critical: Dead letters", "[Hookline] critical: Backlog"]


# ── servers that stall ──


def talking() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "alert-mail"]


def assert_hung_up() -> None:
    """No thread is left that would still send it."""
    for thread in talking():
        thread.join(60)
    assert talking() == []


@pytest.mark.parametrize("scheme", ["smtp", "smtps"])
async def test_one_that_drips_or_says_nothing_is_hung_up_on(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it sends a byte: the time is that of the whole mail."""
    monkeypatch.setattr(sending, "DEADLINE", 1.0)
    with MailServer(drips=0.02 if scheme == "smtp" else None, silent=scheme == "smtps") as server:
        tries = 0
        while not server.callers:  # a machine that stalls may give up before it has called
            tries += 1
            with pytest.raises(TimeoutError, match="the mail server did not accept the mail within 1 s"):
                async with asyncio.timeout(60):
                    await MailTransport(f"{scheme}://127.0.0.1:{server.port}").send(message())
            assert_hung_up()
        assert server.callers <= tries


async def test_the_next_mail_goes_out_after_one_that_was_dripped_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "DEADLINE", 0.3)
    with MailServer(drips=0.02) as server, capture_logs() as logs:
        mailer = Mailer(MailTransport(f"smtp://127.0.0.1:{server.port}").send, pauses=())
        async with mailing(mailer):
            mailer.post(message())
            async with asyncio.timeout(60):
                while not logs:
                    await asyncio.sleep(0.01)  # it gives up, and logs that
            monkeypatch.setattr(sending, "DEADLINE", 60.0)  # the next one has all its time
            server.drips = None
            mailer.post(message(replace(ALERT, name="backlog")))
            (found,) = await server.arrived(1)
    assert found.message["Subject"] == "[Hookline] critical: Backlog"
    assert [line["event"] for line in logs] == ["alert_mail_failed", "alert_mail_lost"]


@pytest.mark.parametrize("silent", [True, False])
async def test_a_stop_waits_for_no_server_that_stalls(silent: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is under way has the same last chance as what waits; each that is lost is told."""
    monkeypatch.setattr(sending, "LAST_TRY", 0.3)
    with MailServer(drips=None if silent else 0.02, silent=silent) as server, capture_logs() as logs:
        mailer = Mailer(MailTransport(f"smtp://127.0.0.1:{server.port}").send)
        async with asyncio.timeout(60), mailing(mailer):
            mailer.post(message())
            mailer.post(message(replace(ALERT, name="backlog")))
            await asyncio.to_thread(server.wait_for_callers, 1)
        assert_hung_up()
        assert server.callers == 1
    assert [(line["event"], line["subject"]) for line in logs] == [
        ("alert_mail_lost", "[Hookline] critical: Dead letters"),
        ("alert_mail_lost", "[Hookline] critical: Backlog"),
    ]


async def test_what_fails_while_the_stop_comes_is_tried_once_more() -> None:
    stop = asyncio.Event()
    tries = 0

    async def refuse(_: EmailMessage) -> None:
        nonlocal tries
        tries += 1
        stop.set()
        raise ConnectionRefusedError

    mailer = Mailer(refuse)
    mailer.post(message())
    await mailer.run(stop)
    assert tries == 2
