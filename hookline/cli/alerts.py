"""`alerts list|history|secret|test`: what fires, and where it is told."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Annotated

import typer
from msgspec import Struct

from hookline import clock
from hookline.api.wire.alerts import alert as shape
from hookline.cli import params
from hookline.cli.output import Cell, Output, span
from hookline.cli.session import Session, run, session
from hookline.engine.alerting import channels as alert_channels
from hookline.engine.alerting.mail import SMTP_ERRORS, MailTransport, shown
from hookline.errors import NotFound
from hookline.model import Attempt
from hookline.model.alerts import Alert, AlertName, Notice, Outgoing, Severity
from hookline.model.states import DeliveryState
from hookline.rules.alerts import wording
from hookline.rules.alerts.wording import EMAIL
from hookline.services import endpoints
from hookline.store.protocols import Page

app = typer.Typer(help="Alerts: what fires, what did, and where it is told.", no_args_is_help=True)

PATIENCE = 15.0  # seconds that a test waits for its messages
LOOK_AGAIN = 0.1

After = Annotated[
    int | None,
    typer.Option("--after", min=1, max=10**18 - 1, help="Go on after this number, the last of the page before."),
]


# ── list, history ─────────────────────────────────────────────────────────────────────────────────────────────────


@app.command("list")
def list_firing(as_json: params.Json = False) -> None:
    """List the alerts that fire now.

    hookline alerts list
    """
    out = Output(as_json)
    found = run(_read(Page(limit=1000), firing=True))
    out.listing(
        found,
        document=shape,
        columns=("alert", "severity", "subject", "since", "what", "look at it"),
        cells=_firing_cells,
        empty="Nothing fires.",
    )


@app.command("history")
def history(limit: params.Limit = 50, after: After = None, as_json: params.Json = False) -> None:
    """List alerts that have fired, newest first: those that still do, and how long the others lasted.

    hookline alerts history --limit 20
    """
    out = Output(as_json)
    found = run(_read(Page(limit=limit, iterator=None if after is None else str(after)), firing=None))
    out.listing(
        found,
        document=shape,
        columns=("id", "alert", "severity", "subject", "since", "lasted", "what"),
        cells=_past_cells,
        empty="No alert has ever fired.",
    )


async def _read(page: Page, *, firing: bool | None) -> list[Alert]:
    async with session() as opened:
        return await opened.store.alerts(page, firing=firing)


def _firing_cells(alert: Alert) -> tuple[Cell, ...]:
    subject = alert.subject or None
    return (alert.name, alert.severity.value, subject, alert.began_at, alert.text, wording.command(alert))


def _past_cells(alert: Alert) -> tuple[Cell, ...]:
    ended = alert.resolved_at
    lasted = "fires" if ended is None else span((ended - alert.began_at).total_seconds())
    return (alert.id, alert.name, alert.severity.value, alert.subject or None, alert.began_at, lasted, alert.text)


# ── secret ────────────────────────────────────────────────────────────────────────────────────────────────────────


@app.command("secret")
def secret(as_json: params.Json = False) -> None:
    """Print the secret that the receiver at HOOKLINE_ALERT_WEBHOOK_URL verifies alerts with.

    hookline alerts secret
    """
    out = Output(as_json)
    key = run(_secret())
    out.result({"key": key}, people=lambda: out.line(key))


async def _secret() -> str:
    async with session() as opened:
        await _settle(opened)
        return await endpoints.show_alert_secret(opened.deps, opened.by)


async def _settle(opened: Session) -> None:
    await alert_channels.settle(opened.store, opened.guard, opened.config.channels)


# ── test ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class Told(Struct, frozen=True, kw_only=True, rename="camel"):
    """What became of the message to one channel."""

    channel: str
    state: str
    detail: str | None = None
    message_id: str | None = None


_WELL = ("delivered", "sent")


@app.command("test")
def send_test(as_json: params.Json = False) -> None:
    """Send a test alert to every channel but the log, and see whether it arrives. Webhooks need a worker that runs.

    hookline alerts test
    """
    out = Output(as_json)
    told = run(_test())
    out.result(
        {"data": told},
        people=lambda: out.table(
            ("channel", "state", "detail", "message"),
            [(each.channel, each.state, each.detail, each.message_id) for each in told],
            empty="",
        ),
    )
    if not all(each.state in _WELL for each in told):
        raise typer.Exit(1)


async def _test() -> list[Told]:
    async with session() as opened:
        channels = opened.config.channels
        if not (channels.emails or any(channels.urls.values())):
            raise NotFound("alerts are only logged: set HOOKLINE_ALERT_WEBHOOK_URL, _SLACK_URL or _EMAIL")
        await _settle(opened)
        notice = _example(await opened.store.now())
        outgoing = wording.outgoing(notice, channels)
        await opened.store.tell_alerts(outgoing)
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


async def _mail(opened: Session, smtp_url: str, notice: Notice) -> Told:
    channels = opened.config.channels
    post = MailTransport(smtp_url, opened.config.ca_bundle)
    try:
        await post.send(wording.mail(notice, channels))
    except SMTP_ERRORS as error:
        return Told(channel=EMAIL, state="failed", detail=shown(error))
    return Told(channel=EMAIL, state="sent", detail=", ".join(channels.emails))


async def _arrival(opened: Session, sent: Outgoing) -> Told:
    """Of the message that becomes of it, once it has come to something or the time is over."""
    deadline = clock.monotonic() + PATIENCE
    told = Told(channel=sent.channel, state="waiting", detail="not relayed yet: is a worker running?")
    while clock.monotonic() < deadline:
        told = await _state(opened, sent, told)
        if told.state not in ("waiting", "pending", "delivering"):
            break
        await asyncio.sleep(LOOK_AGAIN)  # another process does the work
    return told


async def _state(opened: Session, sent: Outgoing, before: Told) -> Told:
    app = await alert_channels.find(opened.store)
    message = None if app is None else await opened.store.message(app.no, sent.event_id)
    deliveries = [] if message is None else await opened.store.deliveries(message.id)
    if not deliveries:
        return before
    delivery = deliveries[0]
    attempts = await opened.store.attempts(delivery.message_id)
    return Told(
        channel=sent.channel,
        state=delivery.state.name.lower(),
        detail=_said(attempts[-1]) if attempts and delivery.state != DeliveryState.DELIVERED else None,
        message_id=delivery.message_id,
    )


def _said(attempt: Attempt) -> str:
    return attempt.detail or f"status {attempt.status_code}"
