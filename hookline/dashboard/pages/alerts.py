"""Alerts of the deployment: those that fire, and those that did."""

from __future__ import annotations

from collections.abc import Sequence

from hookline import ids
from hookline.dashboard import parts
from hookline.dashboard.look import Look
from hookline.dashboard.page import Action, Page, View
from hookline.errors import InvalidInput
from hookline.html import Child, Safe, tag
from hookline.observe.alerts import words
from hookline.observe.alerts.alert import Alert, Severity
from hookline.observe.alerts.rules import rule_of
from hookline.store.base import Page as Rows
from hookline.texts import lasting

SHOWN = 50
_SHADES = {Severity.CRITICAL: "dead", Severity.WARNING: "scheduled"}
_STATES = {"firing": True, "resolved": False}


async def show(look: Look) -> Page:
    state, after = look.param("state"), look.param("after")
    if state is not None and state not in _STATES:
        raise InvalidInput(f"state: takes one of {', '.join(_STATES)}")
    firing = await look.store.alerts(Rows(limit=SHOWN), firing=True)
    wanted = _STATES[state] if state is not None else None
    found = await look.store.alerts(Rows(limit=SHOWN + 1, iterator=after), firing=wanted)
    shown = found[:SHOWN]
    after = str(shown[-1].id) if len(found) > SHOWN else None
    return Page(
        title="Alerts",
        rail="alerts",
        body=[
            look.live("verdict", _verdict(firing)),
            _tabs(look, state),
            look.live("alerts", table(look, shown) if shown else _nothing(state)),
            parts.more(look, after),
        ],
    )


def _verdict(firing: Sequence[Alert]) -> Safe:
    if not firing:
        return parts.verdict("delivered", "Nothing fires.")
    worst = max(firing, key=lambda each: (each.severity.rank, -each.began_at.timestamp()))
    number = f"{parts.count(len(firing), 'alert', len(firing) == SHOWN)} {'fires' if len(firing) == 1 else 'fire'}"
    return parts.verdict(_SHADES[worst.severity], f"{number}: {worst.text}.")


def _tabs(look: Look, state: str | None) -> Safe:
    named = ((None, "All"), ("firing", "Firing"), ("resolved", "Resolved"))
    links = [(text, look.here(state=each, after=None), each == state) for each, text in named]
    return parts.tabs("Which alerts", links)


def _nothing(state: str | None) -> Safe:
    if state == "firing":
        return parts.empty("No alert fires now.")
    words = (
        "No alert has fired yet. They are told in the log; to be told elsewhere too, set HOOKLINE_ALERT_WEBHOOK_URL, "
    )
    return parts.empty(f"{words}HOOKLINE_ALERT_SLACK_URL or HOOKLINE_ALERT_EMAIL, and try it:", "hookline alerts test")


def named(alert: Alert) -> str:
    return rule_of(alert.name).title


def table(look: Look, alerts: Sequence[Alert], *, brief: bool = False) -> Safe:
    """In brief, of those that fire: without how long they lasted, and without the command."""
    columns = ("Alert", "What", "About", "Since", "Lasted", "Look at it")
    return parts.table(
        columns[:4] if brief else columns,
        [_row(look, alert)[:4] if brief else _row(look, alert) for alert in alerts],
        caption="Alerts, newest first",
        keys=[str(alert.id) for alert in alerts],
    )


def _row(look: Look, alert: Alert) -> list[Child]:
    return [
        _state(alert),
        alert.text,
        _subject(look, alert),
        parts.ago(alert.began_at, look.now),
        _lasted(alert),
        tag("code", words.look(alert)) if alert.resolved_at is None else None,
    ]


def _state(alert: Alert) -> Safe:
    over = alert.resolved_at is not None
    state = parts.state("resolved" if over else _SHADES[alert.severity], named(alert))
    return tag("div", state, " ", tag("div", "resolved" if over else alert.severity.value, class_="quiet"))


def _subject(look: Look, alert: Alert) -> Child:
    """An endpoint of another organization is named, and not linked: its pages are not this viewer's."""
    if not alert.subject.startswith(ids.ENDPOINT):
        return alert.subject or "the deployment"
    if alert.org_id != look.org_id:
        return parts.ident(alert.subject)
    return parts.ident(alert.subject, href=look.link(f"/endpoints/{alert.subject}"))


def _lasted(alert: Alert) -> str:
    if alert.resolved_at is None:
        return "fires"
    return lasting(max(0.0, (alert.resolved_at - alert.began_at).total_seconds()))


VIEWS = (View(path="/alerts", show=show, deployment=True),)
ACTIONS: tuple[Action, ...] = ()
