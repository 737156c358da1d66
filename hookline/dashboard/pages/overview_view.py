"""The overview page as HTML, from the data that `overview.py` reads. Pure."""

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
from hookline.model import Backlog, Depths, UnhealthyLane
from hookline.model.alerts import Alert, EarlierCheck, Severity
from hookline.model.measures import SECONDS, quantile
from hookline.model.pulses import Pulse
from hookline.observe import fleet_history
from hookline.observe.fleet_history import Work
from hookline.store.protocols import MAX_WAITING
from hookline.web.html import Child, Safe, join, tag

MAX_UNHEALTHY = 10  # unhealthy endpoints in the table
FIRST = "hookline listen --register demo --ping"  # creates an endpoint that prints each message it receives


class Fleet(Struct, frozen=True, kw_only=True):
    """Data of the whole deployment, for all organizations together."""

    depths: Depths
    alerts: list[Alert]  # firing alerts
    names: Names  # endpoints that the alerts are about, by id
    living: list[Pulse]  # the last pulse of each live process
    steps: list[Work]  # one for each step of the charts
    checks: Sequence[EarlierCheck]  # earlier backlog checks, oldest first; empty if they do not cover the range

    @property
    def slots(self) -> int:
        return sum(pulse.slots for pulse in self.living)

    @property
    def in_flight(self) -> int:
        return sum(pulse.in_flight for pulse in self.living)


class OverviewData(Struct, frozen=True, kw_only=True):
    series: Series
    backlog: Backlog
    dead: dict[str, int]  # unresolved dead letters by reason
    unhealthy: list[UnhealthyLane]  # the worst first; one more than is shown, if there are more
    fleet: Fleet | None = None  # None: the page is about one organization or application
    more_dead: bool = False  # older dead letters were not counted


def body(context: PageContext, data: OverviewData) -> list[Child]:
    top = [context.live("verdict", *verdicts(context, data)), context.live("numbers", _numbers(context, data))]
    if not data.backlog.lanes:
        return [*top, _first_step(context)]
    made = [
        *top,
        context.live("troubled", _unhealthy_table(context, data)),
        context.live("outcomes", overview_charts.outcomes(context, data.series)),
    ]
    if data.fleet is None:
        return [*made, context.live("dead", overview_charts.dead_letters(context, data.dead))]
    return [
        *made,
        context.live("alerts", _alerts(context, data.fleet)),
        context.live("backlog", overview_charts.backlog(data.fleet.steps, data.fleet.checks)),
        context.live("latency", overview_charts.latency(context, data.fleet.steps)),
        context.live(
            "attempts",
            components.columns(
                overview_charts.attempts(data.fleet.steps), overview_charts.dead_letters(context, data.dead)
            ),
        ),
    ]


def _first_step(context: PageContext) -> Safe:
    if context.viewer.portal:
        return components.empty("No endpoints yet. Add the URL that should receive your messages.", None, _add(context))
    words = "Create an endpoint that prints each message it receives, and send a first message:"
    return components.empty(words, FIRST, _add(context))


def _add(context: PageContext) -> Safe:
    return tag("p", tag("a", "Endpoints", href=context.link("/endpoints")))


# ── summary ──────────────────────────────────────────────────────────────────────────────────────────────────────


def verdicts(context: PageContext, data: OverviewData) -> list[Safe]:
    """Return the problems, the worst first, or one line that everything is healthy."""
    if not data.backlog.lanes:
        return [components.verdict("pending", "No endpoints yet, so nothing is sent.")]
    found = [_no_worker(data), _held_line(context, data), _alerts_line(data), _dead_line(context, data)]
    problems = [each for each in found if each is not None]
    return problems or [_failing_line(context, data) or _healthy_line(context, data)]


def _no_worker(data: OverviewData) -> Safe | None:
    if data.fleet is None or data.fleet.slots:
        return None
    return components.verdict(
        "dead", "No worker is running, so nothing is sent. Start one: ", tag("code", "hookline serve")
    )


def _held_line(context: PageContext, data: OverviewData) -> Safe | None:
    if not data.backlog.held_lanes:
        return None
    waiting = _counted(data.backlog.held, "delivery", exact=data.fleet is not None)
    named = [each for each in data.unhealthy if _condition(context, each).held]
    if data.backlog.held_lanes == 1 and len(named) == 1:
        return components.verdict("held", *_named(context, named[0]), f"; {waiting} waiting.")
    count = components.count(data.backlog.held_lanes, "endpoint")
    behind = "it" if data.backlog.held_lanes == 1 else "them"
    first = min(
        named, key=lambda each: endpoints_order(context, each), default=None
    )  # the same order as in the table below
    begin = (" Start with ", *_named(context, first), ".") if first else ()
    return components.verdict("held", f"{count} held: {waiting} waiting for {behind}.", *begin)


def _named(context: PageContext, each: UnhealthyLane) -> list[Child]:
    found = _condition(context, each)
    since = f" for {endpoint_health.ages(found.since, context.now)}" if found.since else ""
    why = f" ({_why(each)})" if each.view.last_error and found.name in ("open", "half_open") else ""
    url = each.view.url if len(each.view.url) <= 60 else f"{each.view.url[:40]}…{each.view.url[-19:]}"
    return [tag("span", url, class_="id"), f": {found.words}{since}{why}"]


def _counted(number: int, noun: str, *, exact: bool) -> str:
    return components.count(number, noun, more=not exact and number >= MAX_WAITING)


def _alerts_line(data: OverviewData) -> Safe | None:
    """Return a line about the firing alerts, without those that the other lines already report."""
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
    link = tag("a", "Show and replay them", href=context.link("/dead-letters"))
    words = f"{components.count(dead, 'dead letter', data.more_dead)}, most of them {main_reason}. "
    if dead == 1:
        link = tag("a", "Show and replay it", href=context.link("/dead-letters"))
        words = f"1 dead letter: {main_reason}. "
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
    dead = sum(data.dead.values())
    since = context.span.words.lower()
    made = [
        components.number(
            "delivered",
            f"{sum(data.series.delivered):,}",
            f"delivered, {since}",
            href=context.link("/messages", state="delivered"),
        ),
        components.number(
            "scheduled" if data.series.failed else "delivered",
            series.percent(data.series.success),
            "of attempts delivered",
            href=context.link("/endpoints"),
        ),
        _waiting(context, data),
        components.number(
            "held", _number(data.backlog.held, data), "held", href=context.link("/endpoints", state="sick")
        ),
        components.number(
            "dead", f"{dead:,}{'+' if data.more_dead else ''}", "dead letters", href=context.link("/dead-letters")
        ),
    ]
    return components.numbers(*made, *([] if data.fleet is None else _fleet(data.fleet)))


def _waiting(context: PageContext, data: OverviewData) -> Safe:
    backlog = data.backlog
    words = "due now" if data.fleet is not None else "waiting"
    late = backlog.oldest_due is not None and backlog.oldest_due < context.now
    if backlog.waiting and late and backlog.oldest_due is not None:
        words += f", the oldest for {endpoint_health.ages(backlog.oldest_due, context.now)}"
    return components.number(
        "pending", _number(backlog.waiting, data), words, href=context.link("/messages", state="open")
    )


def _number(number: int, data: OverviewData) -> str:
    return f"{number:,}{'+' if data.fleet is None and number >= MAX_WAITING else ''}"


def _fleet(fleet: Fleet) -> list[Safe]:
    total = fleet_history.together(fleet.steps, fleet.steps[0].at)
    slow = quantile(0.95, total.latency, SECONDS) if total.latency else None
    processes = f"{len(fleet.living):,} {'process' if len(fleet.living) == 1 else 'processes'}"
    return [
        components.number("pending", overview_charts.length(slow), "accepted to delivered, p95", href="#latency"),
        components.number("pending", f"{fleet.in_flight:,}", f"in flight, of {fleet.slots:,} in {processes}"),
    ]


# ── unhealthy endpoints ──────────────────────────────────────────────────────────────────────────────────────────


def _condition(context: PageContext, each: UnhealthyLane) -> Condition:
    found = condition(each.view.lane, context.now)
    return replace(found, since=each.stopped_at) if found.name in ("paused", "disabled") else found


def _state(context: PageContext, each: UnhealthyLane, found: Condition) -> Safe:
    """Return the state. An endpoint with a closed circuit can still have dead letters, from refused or earlier deliveries."""
    if each.dead and not found.held and each.dead_since is not None:
        words = "dead letters" if _succeeds(each, found) else "deliveries failing"
        since = tag("span", "for ", endpoint_health.ages(each.dead_since, context.now), class_="quiet")
        return join(components.state("dead", words), " ", since)
    return endpoints.state(context, found)


def _succeeds(each: UnhealthyLane, found: Condition) -> bool:
    """Whether the last attempt succeeded."""
    return found.well and each.view.last_error is None


def _unhealthy_table(context: PageContext, data: OverviewData) -> Safe | None:
    unhealthy = [each for each in data.unhealthy if each.dead or not _condition(context, each).well]
    if not unhealthy:
        return None
    shown = sorted(unhealthy[:MAX_UNHEALTHY], key=lambda each: endpoints_order(context, each))
    more = tag("a", "All unhealthy endpoints →", href=context.link("/endpoints", state="sick"))
    return components.section(
        "Endpoints that need attention",
        components.table(
            ("Endpoint", "State", "Why", "Waiting", "Dead letters", ""),
            [_row(context, each) for each in shown],
            caption="Endpoints that need attention, the worst first",
            keys=[each.view.endpoint_id for each in shown],
            numeric=(3, 4),
        ),
        aside=more if len(unhealthy) > MAX_UNHEALTHY or data.backlog.lanes > 1 else None,
        id_="troubled",
    )


def endpoints_order(context: PageContext, each: UnhealthyLane) -> tuple[bool, int, int, str]:
    """Sort key: held endpoints first, then those with the most waiting deliveries and dead letters."""
    found = _condition(context, each)
    return not found.held, -(each.view.depth + each.dead), found.rank, each.view.endpoint_id


def _row(context: PageContext, each: UnhealthyLane) -> list[Child]:
    own = each.org_id == context.org_id
    found = _condition(context, each)
    dead: Child = _dead(each) if each.dead else "–"
    if each.dead and own:
        dead = tag("a", dead, href=_letters(context, each))
    return [
        _name(context, each, own=own),
        _state(context, each, found),
        "Recent deliveries succeeded. Replay the dead letters."
        if each.dead and _succeeds(each, found)
        else tag("span", _why(each), title=each.view.last_error),
        endpoint_health.depth(each.view) if each.view.depth else "–",
        dead,
        _buttons(context, each, found)
        if own
        else tag("code", f"hookline endpoints show {each.view.endpoint_id} --org {each.org_id}"),
    ]


def _name(context: PageContext, each: UnhealthyLane, *, own: bool) -> Safe:
    """Name the endpoint. One of another organization gets no link: the viewer may not open its page."""
    href = context.link(f"/endpoints/{each.view.endpoint_id}") if own else None
    app = each.app_name if own else f"{each.app_name} of {each.org_id}"
    below = None if context.app is not None else tag("div", app, class_="quiet")
    return tag("div", components.ident(each.view.url, href=href, most=46), below)


def _dead(each: UnhealthyLane) -> str:
    return f"{each.dead:,}{'+' if each.dead >= MAX_WAITING else ''}"


def _buttons(context: PageContext, each: UnhealthyLane, found: Condition) -> Safe | None:
    if not context.may_change:
        return None
    all_of_it = context.link("/dead-letters/replay", endpoint=each.view.endpoint_id, all="1")
    takes = each.dead and found.name != "disabled"
    replay = components.link_button(all_of_it, f"Replay {_dead(each)}…") if takes else None
    return components.actions(endpoints.fix_button(context, each.view.endpoint_id, found), replay)


def _letters(context: PageContext, each: UnhealthyLane) -> str:
    return context.link("/dead-letters", endpoint=each.view.endpoint_id)


def _why(each: UnhealthyLane) -> str:
    text = each.view.last_error or each.view.lane.status.name.lower()
    return text if len(text) <= 80 else f"{text[:79]}…"


# ── alerts ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _alerts(context: PageContext, fleet: Fleet) -> Safe | None:
    if not fleet.alerts:
        return None
    link = tag("a", "All alerts →", href=context.link("/alerts"))
    return components.section(
        "Firing alerts", alert_table(context, fleet.alerts, fleet.names, brief=True), aside=link, id_="alerts"
    )
