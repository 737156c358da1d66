"""The overview, drawn from what `overview.py` has read. Pure."""

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
from hookline.dashboard.pages.alerts import Names, named
from hookline.dashboard.pages.alerts import table as alert_table
from hookline.model import Backlog, Depths, UnhealthyLane
from hookline.model.alerts import Alert, Severity
from hookline.model.alerts import EarlierCheck as Asked
from hookline.model.measures import SECONDS, quantile
from hookline.model.pulses import Pulse
from hookline.observe import fleet_history
from hookline.observe.fleet_history import Work
from hookline.store.protocols import MAX_WAITING
from hookline.web.html import Child, Safe, join, tag

MAX_TROUBLED = 10  # endpoints that the page names
FIRST = "hookline listen --register demo --ping"  # an endpoint that prints what arrives


class Fleet(Struct, frozen=True, kw_only=True):
    """What is known of the deployment alone, all organizations together."""

    depths: Depths
    alerts: list[Alert]  # that fire
    names: Names  # of the endpoints that these are about
    living: list[Pulse]  # the last of each process
    steps: list[Work]  # one for each of the chart
    looks: Sequence[Asked]  # earlier backlogs, oldest first; none where they do not reach as far as the chart

    @property
    def slots(self) -> int:
        return sum(pulse.slots for pulse in self.living)

    @property
    def in_flight(self) -> int:
        return sum(pulse.in_flight for pulse in self.living)


class Picture(Struct, frozen=True, kw_only=True):
    series: Series
    backlog: Backlog
    dead: dict[str, int]  # dead letters that nobody has resolved, by reason
    troubled: list[UnhealthyLane]  # the worst first; one more than is shown, if there are more
    fleet: Fleet | None = None  # None: one organization's, or application's
    more_dead: bool = False  # older dead letters were not counted


def body(context: PageContext, picture: Picture) -> list[Child]:
    told = [context.live("verdict", *verdicts(context, picture)), context.live("numbers", _numbers(context, picture))]
    if not picture.backlog.lanes:
        return [*told, _first_step(context)]
    made = [
        *told,
        context.live("troubled", _troubled(context, picture)),
        context.live("outcomes", overview_charts.outcomes(context, picture.series)),
    ]
    if picture.fleet is None:
        return [*made, context.live("dead", overview_charts.dead_letters(context, picture.dead))]
    return [
        *made,
        context.live("alerts", _alerts(context, picture.fleet)),
        context.live("backlog", overview_charts.backlog(picture.fleet.steps, picture.fleet.looks)),
        context.live("latency", overview_charts.latency(context, picture.fleet.steps)),
        context.live(
            "attempts",
            components.columns(
                overview_charts.attempts(picture.fleet.steps), overview_charts.dead_letters(context, picture.dead)
            ),
        ),
    ]


def _first_step(context: PageContext) -> Safe:
    if context.viewer.portal:
        return components.empty(
            "No endpoints yet. Add the URL that your messages should be sent to.", None, _add(context)
        )
    words = "Make an endpoint that prints what arrives, with a first message for it:"
    return components.empty(words, FIRST, _add(context))


def _add(context: PageContext) -> Safe:
    return tag("p", tag("a", "Endpoints", href=context.link("/endpoints")))


# ── what is wrong ─────────────────────────────────────────────────────────────────────────────────────────────────


def verdicts(context: PageContext, picture: Picture) -> list[Safe]:
    """The worst first; that all is well only where nothing is told."""
    if not picture.backlog.lanes:
        return [components.verdict("pending", "No endpoints yet: nothing is sent anywhere.")]
    found = [_idle(picture), _held(context, picture), _alarmed(picture), _died(context, picture)]
    told = [each for each in found if each is not None]
    return told or [_failing(context, picture) or _well(context, picture)]


def _idle(picture: Picture) -> Safe | None:
    if picture.fleet is None or picture.fleet.slots:
        return None
    return components.verdict("dead", "No worker runs, so nothing is sent. Start one: ", tag("code", "hookline serve"))


def _held(context: PageContext, picture: Picture) -> Safe | None:
    if not picture.backlog.held_lanes:
        return None
    waiting = _counted(picture.backlog.held, "delivery", exact=picture.fleet is not None)
    named = [each for each in picture.troubled if _condition(context, each).held]
    if picture.backlog.held_lanes == 1 and len(named) == 1:
        return components.verdict("held", *_one(context, named[0]), f"; {waiting} {_wait(picture.backlog.held)}.")
    count = components.count(picture.backlog.held_lanes, "endpoint")
    behind = "it" if picture.backlog.held_lanes == 1 else "them"
    first = min(named, key=lambda each: endpoints_order(context, each), default=None)  # as in the table below
    begin = (" Begin with ", *_one(context, first), ".") if first else ()
    return components.verdict(
        "held", f"{count} held back: {waiting} {_wait(picture.backlog.held)} behind {behind}.", *begin
    )


def _one(context: PageContext, each: UnhealthyLane) -> list[Child]:
    found = _condition(context, each)
    since = f" for {endpoint_health.ages(found.since, context.now)}" if found.since else ""
    why = f" ({_why(each)})" if each.view.last_error and found.name in ("open", "half_open") else ""
    url = each.view.url if len(each.view.url) <= 60 else f"{each.view.url[:40]}…{each.view.url[-19:]}"
    return [tag("span", url, class_="id"), f": {found.words}{since}{why}"]


def _wait(number: int) -> str:
    return "waits" if number == 1 else "wait"


def _counted(number: int, noun: str, *, exact: bool) -> str:
    return components.count(number, noun, more=not exact and number >= MAX_WAITING)


def _alarmed(picture: Picture) -> Safe | None:
    """Alerts that tell of more than what the other lines say."""
    told = ("circuit_open", "dead_letters", "dead_letters_growing", "endpoint_failing")
    alerts = [] if picture.fleet is None else [each for each in picture.fleet.alerts if each.name not in told]
    if not alerts:
        return None
    critical = any(each.severity == Severity.CRITICAL for each in alerts)
    names = ", ".join(sorted({named(each).lower() for each in alerts}))
    link = tag(
        "a", f"{components.count(len(alerts), 'alert')} {'fires' if len(alerts) == 1 else 'fire'}", href="#alerts"
    )
    return components.verdict("dead" if critical else "scheduled", link, f": {names}.")


def _died(context: PageContext, picture: Picture) -> Safe | None:
    dead = sum(picture.dead.values())
    if not dead:
        return None
    most = max(picture.dead, key=lambda reason: picture.dead[reason])
    link = tag("a", "Look at them, and replay them", href=context.link("/dead-letters"))
    words = f"{components.count(dead, 'dead letter', picture.more_dead)}, most of them {most}. "
    if dead == 1:
        link = tag("a", "Look at it, and replay it", href=context.link("/dead-letters"))
        words = f"1 dead letter: {most}. "
    return components.verdict("dead", words, link, ".")


def _failing(context: PageContext, picture: Picture) -> Safe | None:
    count = sum(not _condition(context, each).well for each in picture.troubled)
    if not count:
        return None
    more = count > MAX_TROUBLED
    words = components.count(min(count, MAX_TROUBLED), "endpoint", more)
    return components.verdict("scheduled", f"{words} failed lately; what failed is tried again.")


def _well(context: PageContext, picture: Picture) -> Safe:
    delivered = sum(picture.series.delivered)
    words = f"{components.count(delivered, 'delivery')} arrived" if delivered else "nothing was to be delivered"
    return components.verdict("delivered", f"All well: {words} in the {context.span.words.lower()}.")


# ── numbers ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _numbers(context: PageContext, picture: Picture) -> Safe:
    dead = sum(picture.dead.values())
    since = context.span.words.lower()
    made = [
        components.number(
            "delivered",
            f"{sum(picture.series.delivered):,}",
            f"delivered, {since}",
            href=context.link("/messages", state="delivered"),
        ),
        components.number(
            "scheduled" if picture.series.failed else "delivered",
            series.percent(picture.series.success),
            "of attempts delivered",
            href=context.link("/endpoints"),
        ),
        _waiting(context, picture),
        components.number(
            "held", _upto(picture.backlog.held, picture), "held back", href=context.link("/endpoints", state="sick")
        ),
        components.number(
            "dead", f"{dead:,}{'+' if picture.more_dead else ''}", "dead letters", href=context.link("/dead-letters")
        ),
    ]
    return components.numbers(*made, *([] if picture.fleet is None else _fleet(picture.fleet)))


def _waiting(context: PageContext, picture: Picture) -> Safe:
    backlog = picture.backlog
    words = "due now" if picture.fleet is not None else "waiting"
    late = backlog.oldest_due is not None and backlog.oldest_due < context.now
    if backlog.waiting and late and backlog.oldest_due is not None:
        words += f", the oldest for {endpoint_health.ages(backlog.oldest_due, context.now)}"
    return components.number(
        "pending", _upto(backlog.waiting, picture), words, href=context.link("/messages", state="open")
    )


def _upto(number: int, picture: Picture) -> str:
    return f"{number:,}{'+' if picture.fleet is None and number >= MAX_WAITING else ''}"


def _fleet(fleet: Fleet) -> list[Safe]:
    total = fleet_history.together(fleet.steps, fleet.steps[0].at)
    slow = quantile(0.95, total.latency, SECONDS) if total.latency else None
    processes = f"{len(fleet.living):,} {'process' if len(fleet.living) == 1 else 'processes'}"
    return [
        components.number("pending", overview_charts.length(slow), "accepted to delivered, p95", href="#latency"),
        components.number("pending", f"{fleet.in_flight:,}", f"in flight, of {fleet.slots:,} in {processes}"),
    ]


# ── endpoints that want attention ─────────────────────────────────────────────────────────────────────────────────


def _condition(context: PageContext, each: UnhealthyLane) -> Condition:
    found = condition(each.view.lane, context.now)
    return replace(found, since=each.stopped_at) if found.name in ("paused", "disabled") else found


def _state(context: PageContext, each: UnhealthyLane, found: Condition) -> Safe:
    """One whose circuit is closed may refuse what it is sent, for good; or be well by now, with what died before."""
    if each.dead and not found.held and each.dead_since is not None:
        words = "dead letters" if _answers(each, found) else "deliveries die"
        since = tag("span", "for ", endpoint_health.ages(each.dead_since, context.now), class_="quiet")
        return join(components.state("dead", words), " ", since)
    return endpoints.state(context, found)


def _answers(each: UnhealthyLane, found: Condition) -> bool:
    """Whether it takes what it is sent: none of its last attempts failed."""
    return found.well and each.view.last_error is None


def _troubled(context: PageContext, picture: Picture) -> Safe | None:
    unwell = [each for each in picture.troubled if each.dead or not _condition(context, each).well]
    if not unwell:
        return None
    shown = sorted(unwell[:MAX_TROUBLED], key=lambda each: endpoints_order(context, each))
    more = tag("a", "All endpoints that are not well →", href=context.link("/endpoints", state="sick"))
    return components.section(
        "Endpoints that need attention",
        components.table(
            ("Endpoint", "State", "Why", "Waiting", "Dead letters", ""),
            [_row(context, each) for each in shown],
            caption="Endpoints that need attention, the worst first",
            keys=[each.view.endpoint_id for each in shown],
            numeric=(3, 4),
        ),
        aside=more if len(unwell) > MAX_TROUBLED or picture.backlog.lanes > 1 else None,
        id_="troubled",
    )


def endpoints_order(context: PageContext, each: UnhealthyLane) -> tuple[bool, int, int, str]:
    """Those that are held, then those behind which most waits."""
    found = _condition(context, each)
    return not found.held, -(each.view.depth + each.dead), found.rank, each.view.endpoint_id


def _row(context: PageContext, each: UnhealthyLane) -> list[Child]:
    own = each.org_id == context.org_id
    found = _condition(context, each)
    dead: Child = _dead(each) if each.dead else "–"
    if each.dead and own:
        dead = tag("a", dead, href=_letters(context, each))
    return [
        _who(context, each, own=own),
        _state(context, each, found),
        "It takes what it is sent now: replay them."
        if each.dead and _answers(each, found)
        else tag("span", _why(each), title=each.view.last_error),
        endpoint_health.depth(each.view) if each.view.depth else "–",
        dead,
        _mend(context, each, found)
        if own
        else tag("code", f"hookline endpoints show {each.view.endpoint_id} --org {each.org_id}"),
    ]


def _who(context: PageContext, each: UnhealthyLane, *, own: bool) -> Safe:
    """One of another organization is named, and not linked: its pages are not this viewer's."""
    href = context.link(f"/endpoints/{each.view.endpoint_id}") if own else None
    app = each.app_name if own else f"{each.app_name} of {each.org_id}"
    below = None if context.app is not None else tag("div", app, class_="quiet")
    return tag("div", components.ident(each.view.url, href=href, most=46), below)


def _dead(each: UnhealthyLane) -> str:
    return f"{each.dead:,}{'+' if each.dead >= MAX_WAITING else ''}"


def _mend(context: PageContext, each: UnhealthyLane, found: Condition) -> Safe | None:
    if not context.may_change:
        return None
    all_of_it = context.link("/dead-letters/replay", endpoint=each.view.endpoint_id, all="1")
    takes = each.dead and found.name != "disabled"
    replay = components.link_button(all_of_it, f"Replay {_dead(each)}…") if takes else None
    return components.actions(endpoints.mend(context, each.view.endpoint_id, found), replay)


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
        "Alerts that fire", alert_table(context, fleet.alerts, fleet.names, brief=True), aside=link, id_="alerts"
    )
