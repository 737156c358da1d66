"""The overview, drawn from what `overview.py` has read. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from hookline.dashboard import health, parts, series
from hookline.dashboard.health import Condition, condition
from hookline.dashboard.look import Look
from hookline.dashboard.pages import endpoints, overview_charts
from hookline.dashboard.pages.alerts import Names, named
from hookline.dashboard.pages.alerts import table as alert_table
from hookline.dashboard.series import Series
from hookline.html import Child, Safe, join, tag
from hookline.model import Backlog, Depths, Troubled
from hookline.observe import history
from hookline.observe.alerts.alert import Alert, Severity
from hookline.observe.alerts.alert import Look as Asked
from hookline.observe.history import Work
from hookline.observe.instruments import SECONDS, quantile
from hookline.observe.pulse import Pulse
from hookline.store.base import MOST_WAITING

MOST_TROUBLED = 10  # endpoints that the page names
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
    troubled: list[Troubled]  # the worst first; one more than is shown, if there are more
    fleet: Fleet | None = None  # None: one organization's, or application's
    more_dead: bool = False  # older dead letters were not counted


def body(look: Look, picture: Picture) -> list[Child]:
    told = [look.live("verdict", *verdicts(look, picture)), look.live("numbers", _numbers(look, picture))]
    if not picture.backlog.lanes:
        return [*told, _first_step(look)]
    made = [
        *told,
        look.live("troubled", _troubled(look, picture)),
        look.live("outcomes", overview_charts.outcomes(look, picture.series)),
    ]
    if picture.fleet is None:
        return [*made, look.live("dead", overview_charts.dead_letters(look, picture.dead))]
    return [
        *made,
        look.live("alerts", _alerts(look, picture.fleet)),
        look.live("backlog", overview_charts.backlog(picture.fleet.steps, picture.fleet.looks)),
        look.live("latency", overview_charts.latency(look, picture.fleet.steps)),
        look.live(
            "attempts",
            parts.columns(
                overview_charts.attempts(picture.fleet.steps), overview_charts.dead_letters(look, picture.dead)
            ),
        ),
    ]


def _first_step(look: Look) -> Safe:
    if look.viewer.portal:
        return parts.empty("No endpoints yet. Add the URL that your messages should be sent to.", None, _add(look))
    words = "Make an endpoint that prints what arrives, with a first message for it:"
    return parts.empty(words, FIRST, _add(look))


def _add(look: Look) -> Safe:
    return tag("p", tag("a", "Endpoints", href=look.link("/endpoints")))


# ── what is wrong ─────────────────────────────────────────────────────────────────────────────────────────────────


def verdicts(look: Look, picture: Picture) -> list[Safe]:
    """The worst first; that all is well only where nothing is told."""
    if not picture.backlog.lanes:
        return [parts.verdict("pending", "No endpoints yet: nothing is sent anywhere.")]
    found = [_idle(picture), _held(look, picture), _alarmed(picture), _died(look, picture)]
    told = [each for each in found if each is not None]
    return told or [_failing(look, picture) or _well(look, picture)]


def _idle(picture: Picture) -> Safe | None:
    if picture.fleet is None or picture.fleet.slots:
        return None
    return parts.verdict("dead", "No worker runs, so nothing is sent. Start one: ", tag("code", "hookline serve"))


def _held(look: Look, picture: Picture) -> Safe | None:
    if not picture.backlog.held_lanes:
        return None
    waiting = _counted(picture.backlog.held, "delivery", exact=picture.fleet is not None)
    named = [each for each in picture.troubled if _condition(look, each).held]
    if picture.backlog.held_lanes == 1 and len(named) == 1:
        return parts.verdict("held", *_one(look, named[0]), f"; {waiting} {_wait(picture.backlog.held)}.")
    count = parts.count(picture.backlog.held_lanes, "endpoint")
    behind = "it" if picture.backlog.held_lanes == 1 else "them"
    first = min(named, key=lambda each: endpoints_order(look, each), default=None)  # as in the table below
    begin = (" Begin with ", *_one(look, first), ".") if first else ()
    return parts.verdict("held", f"{count} held back: {waiting} {_wait(picture.backlog.held)} behind {behind}.", *begin)


def _one(look: Look, each: Troubled) -> list[Child]:
    found = _condition(look, each)
    since = f" for {health.ages(found.since, look.now)}" if found.since else ""
    why = f" ({_why(each)})" if each.view.last_error and found.name in ("open", "half_open") else ""
    url = each.view.url if len(each.view.url) <= 60 else f"{each.view.url[:40]}…{each.view.url[-19:]}"
    return [tag("span", url, class_="id"), f": {found.words}{since}{why}"]


def _wait(number: int) -> str:
    return "waits" if number == 1 else "wait"


def _counted(number: int, noun: str, *, exact: bool) -> str:
    return parts.count(number, noun, more=not exact and number >= MOST_WAITING)


def _alarmed(picture: Picture) -> Safe | None:
    """Alerts that tell of more than what the other lines say."""
    told = ("circuit_open", "dead_letters", "dead_letters_growing", "endpoint_failing")
    alerts = [] if picture.fleet is None else [each for each in picture.fleet.alerts if each.name not in told]
    if not alerts:
        return None
    critical = any(each.severity == Severity.CRITICAL for each in alerts)
    names = ", ".join(sorted({named(each).lower() for each in alerts}))
    link = tag("a", f"{parts.count(len(alerts), 'alert')} {'fires' if len(alerts) == 1 else 'fire'}", href="#alerts")
    return parts.verdict("dead" if critical else "scheduled", link, f": {names}.")


def _died(look: Look, picture: Picture) -> Safe | None:
    dead = sum(picture.dead.values())
    if not dead:
        return None
    most = max(picture.dead, key=lambda reason: picture.dead[reason])
    link = tag("a", "Look at them, and replay them", href=look.link("/dead-letters"))
    words = f"{parts.count(dead, 'dead letter', picture.more_dead)}, most of them {most}. "
    if dead == 1:
        link = tag("a", "Look at it, and replay it", href=look.link("/dead-letters"))
        words = f"1 dead letter: {most}. "
    return parts.verdict("dead", words, link, ".")


def _failing(look: Look, picture: Picture) -> Safe | None:
    count = sum(not _condition(look, each).well for each in picture.troubled)
    if not count:
        return None
    more = count > MOST_TROUBLED
    words = parts.count(min(count, MOST_TROUBLED), "endpoint", more)
    return parts.verdict("scheduled", f"{words} failed lately; what failed is tried again.")


def _well(look: Look, picture: Picture) -> Safe:
    delivered = sum(picture.series.delivered)
    words = f"{parts.count(delivered, 'delivery')} arrived" if delivered else "nothing was to be delivered"
    return parts.verdict("delivered", f"All well: {words} in the {look.span.words.lower()}.")


# ── numbers ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _numbers(look: Look, picture: Picture) -> Safe:
    dead = sum(picture.dead.values())
    since = look.span.words.lower()
    made = [
        parts.number(
            "delivered",
            f"{sum(picture.series.delivered):,}",
            f"delivered, {since}",
            href=look.link("/messages", state="delivered"),
        ),
        parts.number(
            "scheduled" if picture.series.failed else "delivered",
            series.percent(picture.series.success),
            "of attempts delivered",
            href=look.link("/endpoints"),
        ),
        _waiting(look, picture),
        parts.number(
            "held", _upto(picture.backlog.held, picture), "held back", href=look.link("/endpoints", state="sick")
        ),
        parts.number(
            "dead", f"{dead:,}{'+' if picture.more_dead else ''}", "dead letters", href=look.link("/dead-letters")
        ),
    ]
    return parts.numbers(*made, *([] if picture.fleet is None else _fleet(picture.fleet)))


def _waiting(look: Look, picture: Picture) -> Safe:
    backlog = picture.backlog
    words = "due now" if picture.fleet is not None else "waiting"
    late = backlog.oldest_due is not None and backlog.oldest_due < look.now
    if backlog.waiting and late and backlog.oldest_due is not None:
        words += f", the oldest for {health.ages(backlog.oldest_due, look.now)}"
    return parts.number("pending", _upto(backlog.waiting, picture), words, href=look.link("/messages", state="open"))


def _upto(number: int, picture: Picture) -> str:
    return f"{number:,}{'+' if picture.fleet is None and number >= MOST_WAITING else ''}"


def _fleet(fleet: Fleet) -> list[Safe]:
    total = history.together(fleet.steps, fleet.steps[0].at)
    slow = quantile(0.95, total.latency, SECONDS) if total.latency else None
    processes = f"{len(fleet.living):,} {'process' if len(fleet.living) == 1 else 'processes'}"
    return [
        parts.number("pending", overview_charts.length(slow), "accepted to delivered, p95", href="#latency"),
        parts.number("pending", f"{fleet.in_flight:,}", f"in flight, of {fleet.slots:,} in {processes}"),
    ]


# ── endpoints that want attention ─────────────────────────────────────────────────────────────────────────────────


def _condition(look: Look, each: Troubled) -> Condition:
    found = condition(each.view.lane, look.now)
    return replace(found, since=each.stopped_at) if found.name in ("paused", "disabled") else found


def _state(look: Look, each: Troubled, found: Condition) -> Safe:
    """One whose circuit is closed may refuse what it is sent, for good; or be well by now, with what died before."""
    if each.dead and not found.held and each.dead_since is not None:
        words = "dead letters" if _answers(each, found) else "deliveries die"
        since = tag("span", "for ", health.ages(each.dead_since, look.now), class_="quiet")
        return join(parts.state("dead", words), " ", since)
    return endpoints.state(look, found)


def _answers(each: Troubled, found: Condition) -> bool:
    """Whether it takes what it is sent: none of its last attempts failed."""
    return found.well and each.view.last_error is None


def _troubled(look: Look, picture: Picture) -> Safe | None:
    unwell = [each for each in picture.troubled if each.dead or not _condition(look, each).well]
    if not unwell:
        return None
    shown = sorted(unwell[:MOST_TROUBLED], key=lambda each: endpoints_order(look, each))
    more = tag("a", "All endpoints that are not well →", href=look.link("/endpoints", state="sick"))
    return parts.section(
        "Endpoints that need attention",
        parts.table(
            ("Endpoint", "State", "Why", "Waiting", "Dead letters", ""),
            [_row(look, each) for each in shown],
            caption="Endpoints that need attention, the worst first",
            keys=[each.view.endpoint_id for each in shown],
            numeric=(3, 4),
        ),
        aside=more if len(unwell) > MOST_TROUBLED or picture.backlog.lanes > 1 else None,
        id_="troubled",
    )


def endpoints_order(look: Look, each: Troubled) -> tuple[bool, int, int, str]:
    """Those that are held, then those behind which most waits."""
    found = _condition(look, each)
    return not found.held, -(each.view.depth + each.dead), found.rank, each.view.endpoint_id


def _row(look: Look, each: Troubled) -> list[Child]:
    own = each.org_id == look.org_id
    found = _condition(look, each)
    dead: Child = _dead(each) if each.dead else "–"
    if each.dead and own:
        dead = tag("a", dead, href=_letters(look, each))
    return [
        _who(look, each, own=own),
        _state(look, each, found),
        "It takes what it is sent now: replay them."
        if each.dead and _answers(each, found)
        else tag("span", _why(each), title=each.view.last_error),
        health.depth(each.view) if each.view.depth else "–",
        dead,
        _mend(look, each, found)
        if own
        else tag("code", f"hookline endpoints show {each.view.endpoint_id} --org {each.org_id}"),
    ]


def _who(look: Look, each: Troubled, *, own: bool) -> Safe:
    """One of another organization is named, and not linked: its pages are not this viewer's."""
    href = look.link(f"/endpoints/{each.view.endpoint_id}") if own else None
    app = each.app_name if own else f"{each.app_name} of {each.org_id}"
    below = None if look.app is not None else tag("div", app, class_="quiet")
    return tag("div", parts.ident(each.view.url, href=href, most=46), below)


def _dead(each: Troubled) -> str:
    return f"{each.dead:,}{'+' if each.dead >= MOST_WAITING else ''}"


def _mend(look: Look, each: Troubled, found: Condition) -> Safe | None:
    if not look.may_change:
        return None
    all_of_it = look.link("/dead-letters/replay", endpoint=each.view.endpoint_id, all="1")
    takes = each.dead and found.name != "disabled"
    replay = parts.link_button(all_of_it, f"Replay {_dead(each)}…") if takes else None
    return parts.actions(endpoints.mend(look, each.view.endpoint_id, found), replay)


def _letters(look: Look, each: Troubled) -> str:
    return look.link("/dead-letters", endpoint=each.view.endpoint_id)


def _why(each: Troubled) -> str:
    text = each.view.last_error or each.view.lane.status.name.lower()
    return text if len(text) <= 80 else f"{text[:79]}…"


# ── alerts ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _alerts(look: Look, fleet: Fleet) -> Safe | None:
    if not fleet.alerts:
        return None
    link = tag("a", "All alerts →", href=look.link("/alerts"))
    return parts.section(
        "Alerts that fire", alert_table(look, fleet.alerts, fleet.names, brief=True), aside=link, id_="alerts"
    )
