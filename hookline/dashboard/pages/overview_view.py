"""The overview page as HTML, from the data that `overview.py` reads."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from hookline.dashboard import components, endpoint_health
from hookline.dashboard.charts import series
from hookline.dashboard.charts.series import Series
from hookline.dashboard.endpoint_health import Condition, condition
from hookline.dashboard.page_context import PageContext
from hookline.dashboard.pages import endpoints, overview_charts
from hookline.dashboard.pages.alerts import Names, title
from hookline.dashboard.pages.alerts import table as alert_table
from hookline.model.alerts import Alert, EarlierCheck, Severity
from hookline.model.depths import Backlog, Depths
from hookline.model.lanes import UnhealthyLane
from hookline.model.measures import SECONDS, quantile
from hookline.model.pulses import Pulse
from hookline.observe.fleet_history import charted
from hookline.store import MAX_WAITING
from hookline.web.html import Child, Safe, tag

MAX_UNHEALTHY = 10  # unhealthy endpoints in the table


class Fleet(Struct, frozen=True, kw_only=True):
    """Data of the whole deployment, for all organizations together."""

    depths: Depths
    alerts: list[Alert]  # firing alerts
    names: Names  # names of the endpoints that the alerts are about, by id
    living: list[Pulse]  # the last pulse of each live process
    steps: list[Pulse]  # one pulse for each step of the charts
    checks: Sequence[EarlierCheck]  # earlier backlog checks, oldest first; empty if they do not cover the charts

    @property
    def slots(self) -> int:
        return sum(pulse.slots for pulse in self.living)


class OverviewData(Struct, frozen=True, kw_only=True):
    series: Series
    backlog: Backlog
    dead: dict[str, int]  # unresolved dead letters by reason
    unhealthy: list[UnhealthyLane]  # the worst first; one extra if there are more than the page shows
    fleet: Fleet | None = None  # None: the page is about one organization or application
    more_dead: bool = False  # older dead letters were not counted


def body(context: PageContext, data: OverviewData) -> list[Child]:
    live, fleet = context.live, data.fleet
    made: list[Child] = [live("verdict", *verdicts(context, data)), live("numbers", _numbers(context, data))]
    if not data.backlog.lanes:
        return [*made, _first_step(context)]
    made.append(live("unhealthy", _unhealthy_table(context, data)))
    made.append(live("outcomes", overview_charts.outcomes(context, data.series)))
    dead = overview_charts.dead_letters(context, data.dead)
    if fleet is None:
        return [*made, live("dead", dead)]
    return [
        *made,
        live("alerts", _alerts(context, fleet)),
        live("backlog", overview_charts.backlog(fleet.steps, fleet.checks)),
        live("latency", overview_charts.latency(context, fleet.steps)),
        live("attempts", components.columns(overview_charts.attempts(fleet.steps), dead)),
    ]


def _first_step(context: PageContext) -> Safe:
    link = tag("p", context.anchor("Endpoints", "/endpoints"))
    if context.viewer.portal:
        return components.empty("No endpoints yet. Add the URL that should receive your messages.", None, link)
    words = "Create an endpoint that prints each message it receives, and send a first message:"
    return components.empty(words, endpoints.FIRST, link)


# ── summary ──────────────────────────────────────────────────────────────────────────────────────────────────────


def verdicts(context: PageContext, data: OverviewData) -> list[Safe]:
    """Return the problems, the worst first. Without problems, return one line about the state of the endpoints."""
    if not data.backlog.lanes:
        return [components.verdict("pending", "No endpoints yet, so nothing is sent.")]
    found = [_no_worker(data), _held_line(context, data), _alerts_line(data), _dead_line(context, data)]
    problems = [each for each in found if each is not None]
    return problems or [_failing_line(context, data) or _healthy_line(context, data)]


def _no_worker(data: OverviewData) -> Safe | None:
    if data.fleet is None or data.fleet.slots:
        return None
    words = "No worker is running, so nothing is sent. Start one: "
    return components.verdict("dead", words, tag("code", "hookline serve"))


def _held_line(context: PageContext, data: OverviewData) -> Safe | None:
    if not data.backlog.held_lanes:
        return None
    more = data.fleet is None and data.backlog.held >= MAX_WAITING
    waiting = components.count(data.backlog.held, "delivery", more)
    named = [each for each in data.unhealthy if _condition(context, each).held]
    if data.backlog.held_lanes == 1 and len(named) == 1:
        return components.verdict("held", *_named(context, named[0]), f"; {waiting} waiting.")
    count = components.count(data.backlog.held_lanes, "endpoint")
    behind = "it" if data.backlog.held_lanes == 1 else "them"
    # Name the endpoint that is first in the table below.
    first = min(named, key=lambda each: endpoints_order(context, each), default=None)
    begin = (" Start with ", *_named(context, first), ".") if first else ()
    return components.verdict("held", f"{count} held: {waiting} waiting for {behind}.", *begin)


def _named(context: PageContext, each: UnhealthyLane) -> list[Child]:
    found = _condition(context, each)
    since = f" for {endpoint_health.ages(found.since, context.now)}" if found.since else ""
    why = f" ({_why(each)})" if each.view.last_error and found.name in ("open", "half_open") else ""
    url = each.view.url if len(each.view.url) <= 60 else f"{each.view.url[:40]}…{each.view.url[-19:]}"
    return [tag("span", url, class_="id"), f": {found.words}{since}{why}"]


def _alerts_line(data: OverviewData) -> Safe | None:
    """Return a line about the firing alerts, without those that other lines at the top of the page already report."""
    reported = ("circuit_open", "dead_letters", "dead_letters_growing", "endpoint_failing")
    alerts = [] if data.fleet is None else [each for each in data.fleet.alerts if each.name not in reported]
    if not alerts:
        return None
    critical = any(each.severity == Severity.CRITICAL for each in alerts)
    names = ", ".join(sorted({title(each).lower() for each in alerts}))
    link = tag("a", f"{components.count(len(alerts), 'alert')} firing", href="#alerts")
    return components.verdict("dead" if critical else "scheduled", link, f": {names}.")


def _dead_line(context: PageContext, data: OverviewData) -> Safe | None:
    dead = sum(data.dead.values())
    if not dead:
        return None
    main_reason = max(data.dead, key=lambda reason: data.dead[reason])
    counted = components.count(dead, "dead letter", data.more_dead)
    words = f"1 dead letter: {main_reason}. " if dead == 1 else f"{counted}, most of them {main_reason}. "
    link = context.anchor(f"Show and replay {'it' if dead == 1 else 'them'}", "/dead-letters")
    return components.verdict("dead", words, link, ".")


def _failing_line(context: PageContext, data: OverviewData) -> Safe | None:
    count = sum(not _condition(context, each).well for each in data.unhealthy)
    if not count:
        return None
    more = count > MAX_UNHEALTHY
    words = components.count(min(count, MAX_UNHEALTHY), "endpoint", more)
    return components.verdict("scheduled", f"{words} failed recently. Failed deliveries are retried.")


def _healthy_line(context: PageContext, data: OverviewData) -> Safe:
    delivered = sum(data.series.delivered)
    words = f"{components.count(delivered, 'delivery')} succeeded" if delivered else "no deliveries"
    return components.verdict("delivered", f"Healthy: {words} in the {context.span.words.lower()}.")


# ── numbers ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _numbers(context: PageContext, data: OverviewData) -> Safe:
    def number(shade: str, value: str, words: str, path: str, **query: str) -> Safe:
        return components.number(shade, value, words, href=context.link(path, **query))

    def counted(value: int) -> str:
        return components.at_least(value, data.fleet is None and value >= MAX_WAITING)

    found, dead = data.series, components.at_least(sum(data.dead.values()), data.more_dead)
    delivered, since = f"{sum(found.delivered):,}", context.span.words.lower()
    shade, success = "scheduled" if found.failed else "delivered", series.percent(found.success)
    return components.numbers(
        number("delivered", delivered, f"delivered, {since}", "/messages", state="delivered"),
        number(shade, success, "of attempts delivered", "/endpoints"),
        number("pending", counted(data.backlog.waiting), _waiting_words(context, data), "/messages", state="open"),
        number("held", counted(data.backlog.held), "held", "/endpoints", state="sick"),
        number("dead", dead, "dead letters", "/dead-letters"),
        *([] if data.fleet is None else _fleet(data.fleet)),
    )


def _waiting_words(context: PageContext, data: OverviewData) -> str:
    oldest, words = data.backlog.oldest_due, "waiting" if data.fleet is None else "due now"
    if not data.backlog.waiting or oldest is None or oldest >= context.now:
        return words
    return f"{words}, the oldest for {endpoint_health.ages(oldest, context.now)}"


def _fleet(fleet: Fleet) -> list[Safe]:
    total = charted(fleet.steps, fleet.steps[0].at)
    slow = quantile(0.95, total.latency, SECONDS) if total.latency else None
    in_flight = sum(pulse.in_flight for pulse in fleet.living)
    processes = f"{len(fleet.living):,} {'process' if len(fleet.living) == 1 else 'processes'}"
    return [
        components.number("pending", overview_charts.length(slow), "accepted to delivered, p95", href="#latency"),
        components.number("pending", f"{in_flight:,}", f"in flight, of {fleet.slots:,} in {processes}"),
    ]


# ── unhealthy endpoints ──────────────────────────────────────────────────────────────────────────────────────────


def _condition(context: PageContext, each: UnhealthyLane) -> Condition:
    found = condition(each.view.lane, context.now)
    return replace(found, since=each.stopped_at) if found.name in ("paused", "disabled") else found


def _state(context: PageContext, each: UnhealthyLane) -> Safe:
    """Show the state of an endpoint that needs attention.

    An endpoint with a closed circuit can still have dead letters: deliveries that it refused, or that died earlier.
    """
    found = _condition(context, each)
    if each.dead and not found.held and each.dead_since is not None:
        words = "dead letters" if _succeeds(each, found) else "deliveries failing"
        return endpoints.stated(context, "dead", words, each.dead_since)
    return endpoints.state(context, found)


def _succeeds(each: UnhealthyLane, found: Condition) -> bool:
    """Return whether the endpoint is healthy and its last attempt succeeded."""
    return found.well and each.view.last_error is None


def _unhealthy_table(context: PageContext, data: OverviewData) -> Safe | None:
    unhealthy = [each for each in data.unhealthy if each.dead or not _condition(context, each).well]
    if not unhealthy:
        return None
    shown = sorted(unhealthy[:MAX_UNHEALTHY], key=lambda each: endpoints_order(context, each))
    table = components.table(
        shown,
        (
            ("Endpoint", lambda each: _name(context, each)),
            ("State", lambda each: _state(context, each)),
            ("Why", lambda each: _why_cell(context, each)),
            ("Waiting", lambda each: endpoint_health.depth(each.view) if each.view.depth else "–"),
            ("Dead letters", lambda each: _dead_cell(context, each)),
            ("", lambda each: _next_step(context, each)),
        ),
        caption="Endpoints that need attention, the worst first",
        key=lambda each: each.view.endpoint_id,
        numeric=("Waiting", "Dead letters"),
    )
    every = context.anchor("All unhealthy endpoints →", "/endpoints", state="sick")
    more = every if len(unhealthy) > MAX_UNHEALTHY or data.backlog.lanes > 1 else None
    return components.section("Endpoints that need attention", table, aside=more, id_="unhealthy")


def endpoints_order(context: PageContext, each: UnhealthyLane) -> tuple[bool, int, int, str]:
    """Sort key: first the endpoints to which nothing is sent (`held`), then those with the most waiting deliveries and
    dead letters."""
    found = _condition(context, each)
    return not found.held, -(each.view.depth + each.dead), found.rank, each.view.endpoint_id


def _name(context: PageContext, each: UnhealthyLane) -> Safe:
    """Name the endpoint. An endpoint of another organization gets no link: the viewer may not open its page."""
    own = each.org_id == context.org_id
    href = context.link(f"/endpoints/{each.view.endpoint_id}") if own else None
    app = each.app_name if own else f"{each.app_name} of {each.org_id}"
    below = None if context.app is not None else tag("div", app, class_="quiet")
    return tag("div", components.ident(each.view.url, href=href, most=46), below)


def _why_cell(context: PageContext, each: UnhealthyLane) -> Child:
    if each.dead and _succeeds(each, _condition(context, each)):
        return "Recent deliveries succeeded. Replay the dead letters."
    return tag("span", _why(each), title=each.view.last_error)


def _why(each: UnhealthyLane) -> str:
    return components.clip(each.view.last_error or each.view.lane.status.name.lower(), 80)


def _dead_cell(context: PageContext, each: UnhealthyLane) -> Child:
    if not each.dead:
        return "–"
    number = endpoints.counted(each.dead)
    own = each.org_id == context.org_id
    return context.anchor(number, "/dead-letters", endpoint=each.view.endpoint_id) if own else number


def _next_step(context: PageContext, each: UnhealthyLane) -> Safe | None:
    """Return the buttons that fix the endpoint and replay its dead letters; None if the viewer may change nothing. For
    an endpoint of another organization, return the command that shows it."""
    endpoint_id, found = each.view.endpoint_id, _condition(context, each)
    if each.org_id != context.org_id:
        return tag("code", f"hookline endpoints show {endpoint_id} --org {each.org_id}")
    if not context.may_change:
        return None
    all_of_it = context.link("/dead-letters/replay", endpoint=endpoint_id, all="1")
    replay = components.link_button(all_of_it, f"Replay {endpoints.counted(each.dead)}…")
    can_replay = each.dead and found.name != "disabled"
    return components.actions(endpoints.fix_button(context, endpoint_id, found), replay if can_replay else None)


# ── alerts ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _alerts(context: PageContext, fleet: Fleet) -> Safe | None:
    if not fleet.alerts:
        return None
    table = alert_table(context, fleet.alerts, fleet.names, brief=True)
    return components.section("Firing alerts", table, aside=context.anchor("All alerts →", "/alerts"), id_="alerts")
