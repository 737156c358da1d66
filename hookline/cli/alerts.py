"""`alerts list|history|secret|test`."""

from __future__ import annotations

import asyncio
from datetime import datetime

import typer
from msgspec import Struct

from hookline import clock
from hookline.api.wire.alerts import alert as document
from hookline.cli import params
from hookline.cli.command import Command
from hookline.cli.group import CommandGroup
from hookline.cli.output import Cell
from hookline.cli.session import Session
from hookline.engine.alerting import channels as alert_channels
from hookline.engine.alerting.mail import SMTP_ERRORS, MailTransport, shown
from hookline.errors import NotFound
from hookline.model.alerts import Alert, AlertName, Notice, Outgoing, Severity
from hookline.model.states import DeliveryState
from hookline.rules.alerts import wording
from hookline.rules.alerts.wording import EMAIL
from hookline.rules.checks.text import lasting
from hookline.services import endpoints
from hookline.store import Page

app = CommandGroup(help="Alerts: which fire, which have fired, and where they are sent.")

TEST_TIMEOUT = 15.0  # seconds that `alerts test` waits for each channel
POLL_INTERVAL = 0.1  # seconds between two reads of a delivery's state


# ── list, history ─────────────────────────────────────────────────────────────────────────────────────────────────


@app.command("list")
async def list_firing(cmd: Command) -> None:
    """List the alerts that fire now.

    hookline alerts list
    """
    cmd.out.listing(
        await cmd.read(lambda store: store.monitoring.alerts(Page(limit=1000), firing=True)),
        document=document,
        columns=("alert", "severity", "subject", "since", "what", "look at it"),
        cells=_firing_cells,
        empty="Nothing fires.",
    )


@app.command("history")
async def history(cmd: Command, paging: params.NumberPaging) -> None:
    """List alerts that have fired, newest first, with their duration.

    hookline alerts history --limit 20
    """
    cmd.out.listing(
        await cmd.read(lambda store: store.monitoring.alerts(paging.page, firing=None)),
        document=document,
        columns=("id", "alert", "severity", "subject", "since", "lasted", "what"),
        cells=_past_cells,
        empty="No alert has ever fired.",
    )


def _firing_cells(alert: Alert) -> tuple[Cell, ...]:
    subject = alert.subject or None
    return (alert.name, alert.severity.value, subject, alert.began_at, alert.text, wording.command(alert))


def _past_cells(alert: Alert) -> tuple[Cell, ...]:
    ended = alert.resolved_at
    lasted = "fires" if ended is None else lasting((ended - alert.began_at).total_seconds())
    return (alert.id, alert.name, alert.severity.value, alert.subject or None, alert.began_at, lasted, alert.text)


# ── secret ────────────────────────────────────────────────────────────────────────────────────────────────────────


@app.command("secret")
async def secret(cmd: Command) -> None:
    """Print the secret that the receiver at HOOKLINE_ALERT_WEBHOOK_URL needs to verify alerts.

    hookline alerts secret
    """
    async with cmd.session() as opened:
        await _settle(opened)
        key = await endpoints.show_alert_secret(opened.deps, opened.by)
    cmd.out.answer({"key": key}, key)


async def _settle(opened: Session) -> None:
    refused = await alert_channels.settle(opened.store, opened.deps.guard, opened.config.channels)
    for error in refused.values():
        raise error


# ── test ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class Result(Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of the test for one channel."""

    channel: str
    state: str
    detail: str | None = None
    message_id: str | None = None


@app.command("test")
async def send_test(cmd: Command) -> None:
    """Send a test alert to every channel except the log, and wait until it arrives. Webhooks need a running worker.

    hookline alerts test
    """
    async with cmd.session() as opened:
        results = await _test(opened)
    cmd.out.listing(
        results,
        columns=("channel", "state", "detail", "message"),
        cells=lambda each: (each.channel, each.state, each.detail, each.message_id),
        empty="",
    )
    if not all(each.state in ("delivered", "sent") for each in results):
        raise typer.Exit(1)


async def _test(opened: Session) -> list[Result]:
    channels = opened.config.channels
    if not (channels.emails or any(channels.urls.values())):
        raise NotFound("alerts are only logged: set HOOKLINE_ALERT_WEBHOOK_URL, _SLACK_URL or _EMAIL")
    await _settle(opened)
    notice = _example(await opened.store.now())
    outgoing = wording.outgoing(notice, channels)
    await opened.store.monitoring.tell_alerts(outgoing)
    mails = [_mail(opened, channels.smtp_url, notice)] if channels.smtp_url else []
    return await asyncio.gather(*(_arrival(opened, each) for each in outgoing), *mails)


def _example(now: datetime) -> Notice:
    alert = Alert(
        id=0,
        name=AlertName.BACKLOG.value,
        subject="",
        severity=Severity.WARNING,
        began_at=now,
        fired_at=now,
        value=0.0,
        threshold=0.0,
        text="this is a test: nothing is wrong",
    )
    return Notice(alert=alert, at=now, test=True)


async def _mail(opened: Session, smtp_url: str, notice: Notice) -> Result:
    channels = opened.config.channels
    transport = MailTransport(smtp_url, opened.config.ca_bundle)
    try:
        await transport.send(wording.mail(notice, channels))
    except SMTP_ERRORS as error:
        return Result(channel=EMAIL, state="failed", detail=shown(error))
    return Result(channel=EMAIL, state="sent", detail=", ".join(channels.emails))


async def _arrival(opened: Session, sent: Outgoing) -> Result:
    """Wait until the message is delivered or dead, or until the timeout. Return its state."""
    deadline = clock.monotonic() + TEST_TIMEOUT
    result = Result(channel=sent.channel, state="waiting", detail="not relayed yet: is a worker running?")
    while result.state in ("waiting", "pending", "delivering") and clock.monotonic() < deadline:
        result = await _state(opened, sent) or result
        await asyncio.sleep(POLL_INTERVAL)  # poll: another process delivers, and it does not notify this process
    return result


async def _state(opened: Session, sent: Outgoing) -> Result | None:
    """Return the state of the delivery, or None if there is no delivery yet."""
    app = await alert_channels.find(opened.store)
    message = None if app is None else await opened.store.history.message(app.no, sent.event_id)
    deliveries = [] if message is None else await opened.store.history.deliveries(message.id)
    if not deliveries:
        return None
    delivery = deliveries[0]
    attempts = await opened.store.history.attempts(delivery.message_id)
    detail = None
    if attempts and delivery.state != DeliveryState.DELIVERED:
        detail = attempts[-1].detail or f"status {attempts[-1].status_code}"
    state = delivery.state.name.lower()
    return Result(channel=sent.channel, state=state, detail=detail, message_id=delivery.message_id)
