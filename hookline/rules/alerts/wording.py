"""The texts of alert notifications, for each channel. They contain no texts of tenants except ids and uids."""

from __future__ import annotations

from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime

import msgspec
from msgspec import Struct

from hookline.ids import org_option
from hookline.model.alerts import OTHERS, Alert, Notice, Outgoing
from hookline.rules.alerts.conditions import rule_of
from hookline.rules.checks.text import lasting

FIRING, RESOLVED = "alert.firing", "alert.resolved"  # event types
WEBHOOK, SLACK = "webhook", "slack"  # channels with a URL; also the uids of the endpoints that deliver their alerts
EMAIL = "email"


class Channels(Struct, frozen=True, kw_only=True):
    """Where alert notifications go, in addition to the log. Do not log this: the addresses may contain a password."""

    webhook_url: str | None = None
    slack_url: str | None = None
    emails: tuple[str, ...] = ()
    email_from: str = ""
    smtp_url: str | None = None
    public_url: str | None = None  # URL of the dashboard

    @property
    def urls(self) -> dict[str, str | None]:
        return {WEBHOOK: self.webhook_url, SLACK: self.slack_url}

    def __repr__(self) -> str:
        used = [name for name, url in self.urls.items() if url] + ([EMAIL] if self.emails else [])
        return f"Channels({', '.join(used) or 'log'})"


# ── text ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def title(notice: Notice) -> str:
    alert = notice.alert
    state = "resolved" if notice.resolved else alert.severity.value
    about = f" ({alert.subject})" if alert.subject else ""
    return f"[Hookline] {'test, ' if notice.test else ''}{state}: {rule_of(alert.name).title}{about}"


def lines(notice: Notice, public_url: str | None) -> list[str]:
    """Return the text of a notification.

    For a firing alert: the condition, its start, and the command that shows details. For a resolved alert: its duration
    and the last value.
    """
    alert = notice.alert
    if notice.resolved:
        lasted = f"It lasted {_lasted(notice)}, from {_instant(alert.began_at)} to {_instant(notice.at)}."
        return [lasted, f"Last value: {alert.text}"]
    condition = f"{alert.text[:1].upper()}{alert.text[1:]}."
    text = [condition, f"Since {_instant(alert.began_at)}. Details: {command(alert)}"]
    return text if public_url is None else [*text, f"Dashboard: {public_url}/"]


def _lasted(notice: Notice) -> str:
    return lasting((notice.at - notice.alert.began_at).total_seconds())


def command(alert: Alert) -> str:
    """Return the command that shows more about the alert."""
    if alert.subject == OTHERS:
        return "hookline top"
    return rule_of(alert.name).command.format(subject=f"{alert.subject}{org_option(alert.org_id)}")


def _instant(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


# ── for each channel ──────────────────────────────────────────────────────────────────────────────────────────────


def outgoing(notice: Notice, channels: Channels) -> list[Outgoing]:
    """Return one message for each channel that has a URL. E-mail is not among them."""
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
    """Return the event id of the notification's message. The id includes the time of the notification, because an alert
    may become critical more than once."""
    state = "test" if notice.test else "resolved" if notice.resolved else notice.alert.severity.value
    return f"alert.{notice.alert.id}.{state}.{notice.at:%Y%m%d%H%M%S%f}.{channel}"


def _webhook(notice: Notice, public_url: str | None) -> bytes:
    alert = notice.alert
    data = {
        "id": alert.id,
        "name": alert.name,
        "subject": alert.subject or None,
        "severity": alert.severity,
        "value": float(alert.value),
        "threshold": float(alert.threshold),
        "text": alert.text,
        "beganAt": alert.began_at,
        "firedAt": alert.fired_at,
        "resolvedAt": alert.resolved_at,
        "durationSeconds": (notice.at - alert.began_at).total_seconds() if notice.resolved else None,
        "look": command(alert),
        "dashboardUrl": None if public_url is None else f"{public_url}/",
        "test": notice.test,
    }
    return msgspec.json.encode({"type": RESOLVED if notice.resolved else FIRING, "data": data})


def _slack(notice: Notice, public_url: str | None) -> bytes:
    text = "\n".join([f"*{_escaped(title(notice))}*", *map(_escaped, lines(notice, public_url))])
    return msgspec.json.encode({"text": text})


def _escaped(text: str) -> str:
    """Escape the three characters that have a special meaning in Slack."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def mail(notice: Notice, channels: Channels) -> EmailMessage:
    message = EmailMessage()
    message["Subject"] = title(notice)
    message["From"] = channels.email_from
    message["To"] = ", ".join(channels.emails)
    message["Date"] = format_datetime(notice.at)
    message["Message-ID"] = f"<{_event_id(notice, EMAIL)}.{notice.at:%Y%m%d%H%M%S}@hookline>"
    message["Auto-Submitted"] = "auto-generated"  # prevents automatic replies
    message.set_content("\n\n".join(lines(notice, channels.public_url)) + "\n")
    return message


def log_fields(notice: Notice) -> dict[str, object]:
    """Return the fields of the log line."""
    alert = notice.alert
    return {
        "alert": alert.name,
        "subject": alert.subject or None,
        "severity": alert.severity.value,
        "value": alert.value,
        "threshold": alert.threshold,
        "text": f"it lasted {_lasted(notice)}; last value: {alert.text}" if notice.resolved else alert.text,
        "began_at": alert.began_at.isoformat(),
    }
