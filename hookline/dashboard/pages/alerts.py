"""The alerts page: alerts of the deployment, firing and resolved."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from hookline import ids
from hookline.dashboard import components
from hookline.dashboard.page import Page, get
from hookline.dashboard.page_context import PageContext
from hookline.model.alerts import Alert, AlertName, Severity
from hookline.model.endpoints import EndpointName
from hookline.rules.alerts import wording
from hookline.rules.alerts.conditions import rule_of
from hookline.rules.checks.text import lasting
from hookline.store import Page as Rows
from hookline.web.html import Child, Safe, join, tag

SHOWN = 50
MAX_URL = 46  # maximum characters of a URL in the table
_SHADES = {Severity.CRITICAL: "dead", Severity.WARNING: "scheduled"}
_STATES = {"firing": True, "resolved": False}
_TABS = {"": "All", "firing": "Firing", "resolved": "Resolved"}
_DEAD_LETTERS = (AlertName.DEAD_LETTERS, AlertName.DEAD_LETTERS_GROWING)
_ENDPOINTS = (AlertName.BACKLOG, AlertName.BACKLOG_GROWING, AlertName.RETRIES_FAILING, AlertName.LAST_ATTEMPTS)
_PAGES: dict[str, tuple[str, str]] = {
    **dict.fromkeys(_DEAD_LETTERS, ("/dead-letters", "Dead letters")),
    **dict.fromkeys(_ENDPOINTS, ("/endpoints", "Endpoints")),
}

Names = Mapping[str, EndpointName]


@get("/alerts", deployment=True)
async def show(context: PageContext) -> Page:
    state, page = context.choice("state", _STATES), context.rows(SHOWN)
    firing = await context.store.monitoring.alerts(Rows(limit=SHOWN), firing=True)
    found = await context.store.monitoring.alerts(page, firing=None if state is None else _STATES[state])
    shown = found[:SHOWN]
    names = await names_of(context, [*firing, *shown])
    return Page(
        title="Alerts",
        body=[
            context.live("verdict", _verdict(firing, names)),
            components.filter_tabs(context, "Which alerts", "state", _TABS, state),
            context.live("alerts", table(context, shown, names) if shown else _empty(state)),
            components.more(context, str(shown[-1].id) if len(found) > SHOWN else None),
        ],
    )


async def names_of(context: PageContext, alerts: Iterable[Alert]) -> Names:
    """Return the `EndpointName` of each endpoint that an alert is about, by endpoint id."""
    about = {alert.subject for alert in alerts if alert.subject.startswith(ids.ENDPOINT)}
    return await context.store.catalogue.endpoint_names(about) if about else {}


def _verdict(firing: Sequence[Alert], names: Names) -> Safe:
    if not firing:
        return components.verdict("delivered", "No alert is firing.")
    worst = max(firing, key=lambda each: (each.severity.rank, -each.began_at.timestamp()))
    number = components.count(len(firing), "alert", len(firing) == SHOWN)
    return components.verdict(_SHADES[worst.severity], f"{number} firing: {_text(worst, names)}.")


def _empty(state: str | None) -> Safe:
    if state == "firing":
        return components.empty("No alert is firing.")
    return components.empty(
        "No alert has fired yet. Alerts are written to the log. To get them elsewhere too, set "
        "HOOKLINE_ALERT_WEBHOOK_URL, HOOKLINE_ALERT_SLACK_URL or HOOKLINE_ALERT_EMAIL, and send a test alert:",
        "hookline alerts test",
    )


def title(alert: Alert) -> str:
    return rule_of(alert.name).title


def table(context: PageContext, alerts: Sequence[Alert], names: Names, *, brief: bool = False) -> Safe:
    """Return a table of alerts. `brief` leaves out the columns with the duration and the next step."""
    return components.table(
        alerts,
        (
            ("Alert", _state),
            ("What", lambda alert: _text(alert, names, short=True)),
            ("About", lambda alert: _subject(context, alert, names)),
            ("Since", lambda alert: components.ago(alert.began_at, context.now)),
            None if brief else ("Duration", _duration),
            None if brief else ("Next step", lambda alert: _next_step(context, alert)),
        ),
        caption="Alerts, newest first",
        key=lambda alert: str(alert.id),
    )


def _next_step(context: PageContext, alert: Alert) -> Safe | None:
    """Return the command that shows more about a firing alert, after a link to a page about it if such a page exists.

    Return None for a resolved alert.
    """
    if alert.resolved_at is not None:
        return None
    path = _PAGES.get(alert.name)
    link = None if path is None else tag("div", context.anchor(path[1], path[0], app=None))
    return join(link, tag("code", wording.command(alert)))


def _state(alert: Alert) -> Safe:
    over = alert.resolved_at is not None
    state = components.state("resolved" if over else _SHADES[alert.severity], title(alert))
    return tag("div", state, " ", tag("div", "resolved" if over else alert.severity.value, class_="quiet"))


def _text(alert: Alert, names: Names, *, short: bool = False) -> str:
    """Return the text of the alert, with the URL of its endpoint and the name of its application instead of their ids.

    If `short` is True, the text says "this endpoint" instead of the URL and the name.
    """
    known = names.get(alert.subject)
    if known is None:
        return alert.text
    name = "this endpoint" if short else f"{components.cut(known.url, MAX_URL)} ({known.app_name})"
    return re.sub(rf"endpoint {re.escape(known.id)} of application \S+", lambda _: name, alert.text)


def _subject(context: PageContext, alert: Alert, names: Names) -> Child:
    """Name the subject of the alert.

    An endpoint of another organization gets no link, because the viewer is not allowed to open its page.
    """
    if not alert.subject.startswith(ids.ENDPOINT):
        return alert.subject or "the deployment"
    known = names.get(alert.subject)
    if known is None:
        return components.ident(alert.subject)
    own = known.org_id == context.org_id
    href = context.link(f"/endpoints/{known.id}") if own and not known.deleted else None
    app = known.app_name if own else f"{known.app_name} of {known.org_id}"
    below = components.below(known.description[:80], app, "deleted" if known.deleted else None)
    return join(components.ident(known.url, href=href, most=MAX_URL), below)


def _duration(alert: Alert) -> str:
    if alert.resolved_at is None:
        return "firing"
    return lasting(max(0.0, (alert.resolved_at - alert.began_at).total_seconds()))
