"""E-mail alerts over a real SMTP connection: encryption, retries, limits, and no password in any log line."""

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
    """Give the last attempt enough time on a busy machine."""
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


async def test_a_mail_has_the_problem_its_start_its_severity_and_a_command_to_investigate() -> None:
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


def test_the_mail_of_a_resolved_alert_has_the_duration() -> None:
    over = replace(ALERT, resolved_at=AT)
    found = mail(Notice(alert=over, at=AT + timedelta(hours=2)), CHANNELS)
    assert found["Subject"] == "[Hookline] resolved: Dead letters"
    assert "It lasted 2 h 3 min, from 2026-03-04 05:03:07 UTC to 2026-03-04 07:06:07 UTC." in found.get_content()


async def test_a_password_is_sent_only_over_tls(tmp_path: Path) -> None:
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


async def test_smtps_uses_tls_from_the_start_and_refuses_an_untrusted_certificate(tmp_path: Path) -> None:
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


async def test_a_refused_mail_is_retried_and_the_server_response_is_not_logged() -> None:
    with MailServer() as server, capture_logs() as logs:
        server.refuse = 2
        mailer = Mailer(MailTransport(f"smtp://127.0.0.1:{server.port}").send, pauses=(0.001, 0.001))
        async with mailing(mailer):
            mailer.post(message())
            assert len(await server.arrived(1)) == 1
        assert server.tries == 3
    assert [line["event"] for line in logs] == ["alert_mail_failed"] * 2
    assert "s3cret" not in str(logs)


async def test_a_mail_is_given_up_after_its_retries_and_the_next_one_is_sent() -> None:
    with MailServer() as server, capture_logs() as logs:
        server.refuse = 3
        mailer = Mailer(MailTransport(f"smtp://127.0.0.1:{server.port}").send, pauses=(0.001, 0.001))
        async with mailing(mailer):
            mailer.post(message())
            mailer.post(message(replace(ALERT, name="backlog")))
            (found,) = await server.arrived(1)
    assert found.message["Subject"] == "[Hookline] critical: Backlog"
    assert logs[-1]["event"] == "alert_mail_lost"


async def test_the_number_of_waiting_mails_is_limited() -> None:
    mailer = Mailer(MailTransport("smtp://127.0.0.1:1").send)
    with capture_logs() as logs:
        for _ in range(MAX_WAITING + 2):
            mailer.post(message())
    assert [line["event"] for line in logs] == ["alert_mail_dropped"] * 2


async def test_waiting_mails_get_one_last_attempt_when_the_process_stops() -> None:
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
    """Assert that no thread is left that could still send the mail."""
    for thread in talking():
        thread.join(60)
    assert talking() == []


@pytest.mark.parametrize("scheme", ["smtp", "smtps"])
async def test_a_server_that_is_too_slow_or_silent_is_disconnected(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deadline is for the whole mail, however often the server sends a byte."""
    monkeypatch.setattr(sending, "DEADLINE", 1.0)
    with MailServer(drips=0.02 if scheme == "smtp" else None, silent=scheme == "smtps") as server:
        tries = 0
        while not server.callers:  # on a slow machine the deadline may pass before the connection is made
            tries += 1
            with pytest.raises(TimeoutError, match="the mail server did not accept the mail within 1 s"):
                async with asyncio.timeout(60):
                    await MailTransport(f"{scheme}://127.0.0.1:{server.port}").send(message())
            assert_hung_up()
        assert server.callers <= tries


async def test_the_next_mail_is_sent_after_one_that_a_slow_server_delayed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "DEADLINE", 0.3)
    with MailServer(drips=0.02) as server, capture_logs() as logs:
        mailer = Mailer(MailTransport(f"smtp://127.0.0.1:{server.port}").send, pauses=())
        async with mailing(mailer):
            mailer.post(message())
            async with asyncio.timeout(60):
                while not logs:
                    await asyncio.sleep(0.01)  # wait until the mailer logs that it gave up
            monkeypatch.setattr(sending, "DEADLINE", 60.0)  # the next mail has enough time
            server.drips = None
            mailer.post(message(replace(ALERT, name="backlog")))
            (found,) = await server.arrived(1)
    assert found.message["Subject"] == "[Hookline] critical: Backlog"
    assert [line["event"] for line in logs] == ["alert_mail_failed", "alert_mail_lost"]


@pytest.mark.parametrize("silent", [True, False])
async def test_a_stop_does_not_wait_for_a_stalled_server(silent: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mail being sent gets the same last attempt as waiting mails. Each lost mail is logged."""
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


async def test_a_mail_that_fails_during_the_stop_is_tried_once_more() -> None:
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
