"""Alerts of the deployment: those that fire, and those that did."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from hookline import ids
from hookline.dashboard import components
from hookline.dashboard.page import Action, Page, View
from hookline.dashboard.page_context import PageContext
from hookline.errors import InvalidInput
from hookline.model import EndpointName
from hookline.model.alerts import Alert, AlertName, Severity
from hookline.rules.alerts import wording
from hookline.rules.alerts.conditions import rule_of
from hookline.rules.checks.text import lasting
from hookline.store.protocols import Page as Rows
from hookline.web.html import Child, Safe, join, tag

SHOWN = 50
MAX_URL = 46  # characters
_SHADES = {Severity.CRITICAL: "dead", Severity.WARNING: "scheduled"}
_STATES = {"firing": True, "resolved": False}
_PAGES: dict[str, tuple[str, str]] = {
    AlertName.BACKLOG: ("/endpoints", "Endpoints"),
    AlertName.BACKLOG_GROWING: ("/endpoints", "Endpoints"),
    AlertName.DEAD_LETTERS: ("/dead-letters", "Dead letters"),
    AlertName.DEAD_LETTERS_GROWING: ("/dead-letters", "Dead letters"),
    AlertName.RETRIES_FAILING: ("/endpoints", "Endpoints"),
    AlertName.LAST_ATTEMPTS: ("/endpoints", "Endpoints"),
}

Names = Mapping[str, EndpointName]


async def show(context: PageContext) -> Page:
    state, after = context.param("state"), context.param("after")
    if state is not None and state not in _STATES:
        raise InvalidInput(f"takes one of {', '.join(_STATES)}", field="state")
    firing = await context.store.alerts(Rows(limit=SHOWN), firing=True)
    wanted = _STATES[state] if state is not None else None
    found = await context.store.alerts(Rows(limit=SHOWN + 1, iterator=after), firing=wanted)
    shown = found[:SHOWN]
    after = str(shown[-1].id) if len(found) > SHOWN else None
    names = await names_of(context, [*firing, *shown])
    return Page(
        title="Alerts",
        rail="alerts",
        body=[
            context.live("verdict", _verdict(firing, names)),
            _tabs(context, state),
            context.live("alerts", table(context, shown, names) if shown else _nothing(state)),
            components.more(context, after),
        ],
    )


async def names_of(context: PageContext, alerts: Iterable[Alert]) -> Names:
    """Of the endpoints that they are about, by id."""
    about = {alert.subject for alert in alerts if alert.subject.startswith(ids.ENDPOINT)}
    return await context.store.endpoint_names(about) if about else {}


def _verdict(firing: Sequence[Alert], names: Names) -> Safe:
    if not firing:
        return components.verdict("delivered", "Nothing fires.")
    worst = max(firing, key=lambda each: (each.severity.rank, -each.began_at.timestamp()))
    number = f"{components.count(len(firing), 'alert', len(firing) == SHOWN)} {'fires' if len(firing) == 1 else 'fire'}"
    return components.verdict(_SHADES[worst.severity], f"{number}: {_said(worst, names)}.")


def _tabs(context: PageContext, state: str | None) -> Safe:
    named = ((None, "All"), ("firing", "Firing"), ("resolved", "Resolved"))
    links = [(text, context.here(state=each, after=None), each == state) for each, text in named]
    return components.tabs("Which alerts", links)


def _nothing(state: str | None) -> Safe:
    if state == "firing":
        return components.empty("No alert fires now.")
    words = (
        "No alert has fired yet. They are told in the log; to be told elsewhere too, set HOOKLINE_ALERT_WEBHOOK_URL, "
    )
    return components.empty(
        f"{words}HOOKLINE_ALERT_SLACK_URL or HOOKLINE_ALERT_EMAIL, and try it:", "hookline alerts test"
    )


def named(alert: Alert) -> str:
    return rule_of(alert.name).title


def table(context: PageContext, alerts: Sequence[Alert], names: Names, *, brief: bool = False) -> Safe:
    """In brief, of those that fire: without how long they lasted, and without the command."""
    columns = ("Alert", "What", "About", "Since", "Lasted", "Look at it")
    return components.table(
        columns[:4] if brief else columns,
        [_row(context, alert, names)[: 4 if brief else None] for alert in alerts],
        caption="Alerts, newest first",
        keys=[str(alert.id) for alert in alerts],
    )


def _row(context: PageContext, alert: Alert, names: Names) -> list[Child]:
    return [
        _state(alert),
        _said(alert, names, beside=True),
        _subject(context, alert, names),
        components.ago(alert.began_at, context.now),
        _lasted(alert),
        _onward(context, alert) if alert.resolved_at is None else None,
    ]


def _onward(context: PageContext, alert: Alert) -> Safe:
    """The page, where there is one for it, and the command."""
    path = _PAGES.get(alert.name)
    link = None if path is None else tag("div", tag("a", path[1], href=context.link(path[0], app=None)))
    return join(link, tag("code", wording.command(alert)))


def _state(alert: Alert) -> Safe:
    over = alert.resolved_at is not None
    state = components.state("resolved" if over else _SHADES[alert.severity], named(alert))
    return tag("div", state, " ", tag("div", "resolved" if over else alert.severity.value, class_="quiet"))


def _said(alert: Alert, names: Names, *, beside: bool = False) -> str:
    """An endpoint by its URL: nobody knows ids by heart. `beside` what names it already, that is left out."""
    known = names.get(alert.subject)
    if known is None:
        return alert.text
    name = "this endpoint" if beside else f"{components.cut(known.url, MAX_URL)} ({known.app_name})"
    return re.sub(rf"endpoint {re.escape(known.id)} of application \S+", lambda _: name, alert.text)


def _subject(context: PageContext, alert: Alert, names: Names) -> Child:
    """An endpoint of another organization is named, and not linked: its pages are not this viewer's."""
    if not alert.subject.startswith(ids.ENDPOINT):
        return alert.subject or "the deployment"
    known = names.get(alert.subject)
    if known is None:
        return components.ident(alert.subject)
    own = known.org_id == context.org_id
    href = context.link(f"/endpoints/{known.id}") if own and not known.deleted else None
    about = [known.description[:80], known.app_name if own else f"{known.app_name} of {known.org_id}"]
    about += ["deleted"] if known.deleted else []
    below = tag("div", " · ".join(filter(None, about)), class_="quiet")
    return join(components.ident(known.url, href=href, most=MAX_URL), below)


def _lasted(alert: Alert) -> str:
    if alert.resolved_at is None:
        return "fires"
    return lasting(max(0.0, (alert.resolved_at - alert.began_at).total_seconds()))


VIEWS = (View(path="/alerts", show=show, deployment=True),)
ACTIONS: tuple[Action, ...] = ()
