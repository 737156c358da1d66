"""What is said about an alert, for each channel. Pure. Of tenants' own texts only ids and uids are in it."""

from __future__ import annotations

from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime

import msgspec
from msgspec import Struct

from hookline.ids import org_option
from hookline.model.alerts import OTHERS, Alert, Notice, Outgoing, Severity
from hookline.rules.alerts.conditions import rule_of
from hookline.rules.checks.text import lasting

FIRING, RESOLVED = "alert.firing", "alert.resolved"  # the event's type
WEBHOOK, SLACK = "webhook", "slack"  # channels; also the uids of the endpoints that they lead to
EMAIL = "email"


class Channels(Struct, frozen=True, kw_only=True):
    """Where alerts are told, beside the log. Not for a log itself: the addresses may hold a password."""

    webhook_url: str | None = None
    slack_url: str | None = None
    emails: tuple[str, ...] = ()
    email_from: str = ""
    smtp_url: str | None = None
    public_url: str | None = None  # of the dashboard

    @property
    def urls(self) -> dict[str, str | None]:
        return {WEBHOOK: self.webhook_url, SLACK: self.slack_url}

    def __repr__(self) -> str:
        used = [name for name, url in self.urls.items() if url] + ([EMAIL] if self.emails else [])
        return f"Channels({', '.join(used) or 'log'})"


# ── for people ────────────────────────────────────────────────────────────────────────────────────────────────────


def title(notice: Notice) -> str:
    alert = notice.alert
    state = "resolved" if notice.resolved else alert.severity.value
    about = f" ({alert.subject})" if alert.subject else ""
    return f"[Hookline] {'test, ' if notice.test else ''}{state}: {rule_of(alert.name).title}{about}"


def lines(notice: Notice, public_url: str | None) -> list[str]:
    """What, since when, how bad, and where to look; of one that is over, how long it lasted."""
    alert = notice.alert
    if notice.resolved:
        return [
            f"It lasted {_lasted(notice)}, from {_instant(alert.began_at)} to {_instant(notice.at)}.",
            f"Last: {alert.text}",
        ]
    found = [_sentence(alert.text), f"Since {_instant(alert.began_at)}. Look at it: {look(alert)}"]
    return found if public_url is None else [*found, f"Dashboard: {public_url}/"]


def _lasted(notice: Notice) -> str:
    return lasting((notice.at - notice.alert.began_at).total_seconds())


def look(alert: Alert) -> str:
    """The command to begin with."""
    command = rule_of(alert.name).look
    return "hookline top" if alert.subject == OTHERS else command.format(subject=_found(alert))


def _found(alert: Alert) -> str:
    """As a command finds it."""
    return f"{alert.subject}{org_option(alert.org_id)}"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _instant(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


# ── for each channel ──────────────────────────────────────────────────────────────────────────────────────────────


class AlertData(Struct, frozen=True, kw_only=True, rename="camel"):
    """`data` of the webhook."""

    id: int
    name: str
    subject: str | None
    severity: Severity
    value: float
    threshold: float
    text: str
    began_at: datetime
    fired_at: datetime
    resolved_at: datetime | None
    duration_seconds: float | None  # of one that is resolved
    look: str
    dashboard_url: str | None
    test: bool


def outgoing(notice: Notice, channels: Channels) -> list[Outgoing]:
    """One message for each channel that Hookline delivers to itself."""
    made = {WEBHOOK: _webhook, SLACK: _slack}
    return [
        Outgoing(
            channel=channel,
            event_type=RESOLVED if notice.resolved else FIRING,
            event_id=_event_id(notice, channel),
            payload=made[channel](notice, channels.public_url),
        )
        for channel, url in channels.urls.items()
        if url
    ]


def _event_id(notice: Notice, channel: str) -> str:
    """One for each turn: an alert may become critical, less so, and critical again, and each time is told."""
    turn = "test" if notice.test else "resolved" if notice.resolved else notice.alert.severity.value
    return f"alert.{notice.alert.id}.{turn}.{notice.at:%Y%m%d%H%M%S%f}.{channel}"


def _webhook(notice: Notice, public_url: str | None) -> bytes:
    alert = notice.alert
    data = AlertData(
        id=alert.id,
        name=alert.name,
        subject=alert.subject or None,
        severity=alert.severity,
        value=float(alert.value),
        threshold=float(alert.threshold),
        text=alert.text,
        began_at=alert.began_at,
        fired_at=alert.fired_at,
        resolved_at=alert.resolved_at,
        duration_seconds=(notice.at - alert.began_at).total_seconds() if notice.resolved else None,
        look=look(alert),
        dashboard_url=None if public_url is None else f"{public_url}/",
        test=notice.test,
    )
    return msgspec.json.encode({"type": RESOLVED if notice.resolved else FIRING, "data": data})


def _slack(notice: Notice, public_url: str | None) -> bytes:
    text = "\n".join([f"*{_escaped(title(notice))}*", *map(_escaped, lines(notice, public_url))])
    return msgspec.json.encode({"text": text})


def _escaped(text: str) -> str:
    """As Slack wants it: these three begin what is not text there."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def mail(notice: Notice, channels: Channels) -> EmailMessage:
    message = EmailMessage()
    message["Subject"] = title(notice)
    message["From"] = channels.email_from
    message["To"] = ", ".join(channels.emails)
    message["Date"] = format_datetime(notice.at)
    message["Message-ID"] = f"<{_event_id(notice, EMAIL)}.{notice.at:%Y%m%d%H%M%S}@hookline>"
    message["Auto-Submitted"] = "auto-generated"  # so that nobody's absence notice answers
    message.set_content("\n\n".join(lines(notice, channels.public_url)) + "\n")
    return message


def said(notice: Notice) -> dict[str, object]:
    """For the log."""
    alert = notice.alert
    return {
        "alert": alert.name,
        "subject": alert.subject or None,
        "severity": alert.severity.value,
        "value": alert.value,
        "threshold": alert.threshold,
        "text": f"it lasted {_lasted(notice)}; last: {alert.text}" if notice.resolved else alert.text,
        "began_at": alert.began_at.isoformat(),
    }
