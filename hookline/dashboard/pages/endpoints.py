"""The list of endpoints: unhealthy ones first, with their waiting deliveries and a button that fixes the problem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from hookline import ids
from hookline.dashboard import components, endpoint_health
from hookline.dashboard.charts import figures, series
from hookline.dashboard.charts.series import Series, Steps
from hookline.dashboard.endpoint_health import Condition, condition
from hookline.dashboard.page import Page, get
from hookline.dashboard.page_context import PageContext
from hookline.errors import NotFound
from hookline.model.activity import Activity
from hookline.model.depths import Backlog
from hookline.model.lanes import LaneView
from hookline.store import MAX_LISTED, MAX_WAITING
from hookline.store import Page as Rows
from hookline.web.html import Child, Safe, join, tag

FIRST = "hookline listen --register demo --ping"  # creates an endpoint that prints each message it receives
SHOWN = 50  # endpoints on one page
MAX_UNHEALTHY = 40  # maximum number of unhealthy endpoints at the start of the first page

_STATES = (("", "Any state"), ("sick", "unhealthy"), *endpoint_health.WORDS.items())


class EndpointsHealth(Struct, frozen=True, kw_only=True):
    """Health of the endpoints of an organization or application.

    The time to read it does not grow with the number of healthy endpoints.
    """

    backlog: Backlog
    unhealthy: list[LaneView]  # in the order of `endpoint_health.sickest`
    more: bool  # the limit was reached, so there may be more unhealthy endpoints
    dead: dict[str, int]  # unresolved dead letters by endpoint id, for the endpoints that were read

    @property
    def unhealthy_count(self) -> str:
        return components.at_least(len(self.unhealthy), self.more)


async def read(context: PageContext, app_no: int | None) -> EndpointsHealth:
    history, org_id = context.store.history, context.org_id
    unhealthy = await history.unhealthy_lanes(MAX_UNHEALTHY, org_id=org_id, app_no=app_no, counted=MAX_LISTED)
    views = [each.view for each in unhealthy if not condition(each.view.lane, context.now).well]
    return EndpointsHealth(
        backlog=await history.backlog(org_id, app_no),
        unhealthy=sorted(views, key=lambda view: endpoint_health.sickest(view, context.now)),
        more=len(unhealthy) == MAX_UNHEALTHY,
        dead={each.view.endpoint_id: each.dead for each in unhealthy if each.dead},
    )


@get("/endpoints", portal=True)
async def show(context: PageContext) -> Page:
    context.check_app()
    health = await read(context, context.app_no)
    if not health.backlog.lanes:
        body = [context.live("endpoints", _none(context)), _contract(context)]
        return Page(title="Endpoints", body=body)
    listed, following = await _listed(context, health)
    names = await context.names(view.app_id for view in listed)
    rows = await table(context, listed, names, health) if listed else components.empty("No endpoint matches.")
    return Page(
        title="Endpoints",
        body=[
            context.live("health", verdict(context, health), _numbers(context, health)),
            _filters(context),
            context.live("endpoints", rows, components.more(context, following, "More")),
            _contract(context),
        ],
        aside=add_link(context),
    )


def add_link(context: PageContext) -> Safe | None:
    if not context.may_change:
        return None
    return components.link_button(context.link("/endpoints/new"), "Add an endpoint", kind="main")


def _contract(context: PageContext) -> Safe | None:
    """Return a link to the delivery contract, in the portal only. Operators see the contract on an endpoint's page."""
    if not context.viewer.portal:
        return None
    return tag("p", context.anchor("What you can rely on: the delivery contract", "/contract"))


def _none(context: PageContext) -> Safe:
    if context.viewer.portal:
        words, command = "No endpoints yet. An endpoint is your URL that receives events.", None
    else:
        words, command = "No endpoints yet. Create one that prints each message it receives:", FIRST
    return components.empty(words, command, add_link(context))


# ── filter ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _filters(context: PageContext) -> Safe:
    return components.filters(
        context,
        components.field("q", "Id, or part of the URL", context.param("q") or "", type_="search"),
        components.choice("state", "State", _STATES, context.param("state") or ""),
    )


async def _listed(context: PageContext, health: EndpointsHealth) -> tuple[list[LaneView], str | None]:
    """Return the endpoints of this page and the position of the next page.

    The first page begins with the unhealthy endpoints.
    """
    state, text = context.choice("state", [key for key, _ in _STATES if key]), context.param("q")
    if text is not None and text.startswith(ids.ENDPOINT):
        return _in_state(context, await _named_by_id(context, text), state), None
    after = context.param("after")
    first = _in_state(context, health.unhealthy, state) if text is None and after is None else []
    page = Rows(limit=SHOWN - len(first), iterator=after)
    url = (text or "").lower()
    found = await context.store.history.lane_page(context.org_id, context.app_no, page, url=url, state=state)
    following = found[-1].endpoint_id if len(found) == page.limit else None
    known = {view.endpoint_id for view in first}
    return _in_state(context, [*first, *(view for view in found if view.endpoint_id not in known)], state), following


async def _named_by_id(context: PageContext, endpoint_id: str) -> list[LaneView]:
    try:
        found = await context.endpoint(endpoint_id)
    except NotFound:
        return []
    view = await context.store.history.lane_view(found.no) if context.app_no in (None, found.app_no) else None
    return [] if view is None else [view]


def _in_state(context: PageContext, views: Sequence[LaneView], state: str | None) -> list[LaneView]:
    """Return the endpoints in this state, or all if `state` is None, in the order of `endpoint_health.sickest`."""

    def matches(view: LaneView) -> bool:
        found = condition(view.lane, context.now)
        return state is None or state == found.name or (state == "sick" and not found.well)

    return sorted(filter(matches, views), key=lambda view: endpoint_health.sickest(view, context.now))


# ── health ───────────────────────────────────────────────────────────────────────────────────────────────────────


def verdict(context: PageContext, health: EndpointsHealth) -> Safe:
    """Summarize the health of all endpoints, and name the worst one."""
    backlog = health.backlog
    if not health.unhealthy and health.more:
        words = f"At least {components.count(MAX_UNHEALTHY, 'endpoint')} with dead letters. "
        return components.verdict("dead", words, context.anchor("Show the dead letters", "/dead-letters"), ".")
    if not health.unhealthy:
        words = "The endpoint is healthy." if backlog.lanes == 1 else f"All {backlog.lanes:,} endpoints are healthy."
        return components.verdict("delivered", words)
    worst = _named(context, health.unhealthy[0])
    if not backlog.held_lanes:
        unhealthy = _of(health.unhealthy_count, backlog.lanes, len(health.unhealthy))
        return components.verdict("scheduled", f"{unhealthy} unhealthy, but still sent to. See ", worst, ".")
    number = components.count(backlog.held, "delivery", backlog.held >= MAX_WAITING)
    held = _of(f"{backlog.held_lanes:,}", backlog.lanes, backlog.held_lanes)
    return components.verdict("held", f"{held} held: {number} waiting. See ", worst, ".")


def _of(some: str, every: int, number: int) -> str:
    """Return a text such as `1 of 9 endpoints is`: `some` is the text "1", and `every` is 9. `number` is the number
    in `some`, and decides between "is" and "are"."""
    return f"{some} of {components.count(every, 'endpoint')} {'is' if number == 1 else 'are'}"


def _named(context: PageContext, view: LaneView) -> Safe:
    found = condition(view.lane, context.now)
    since = "" if found.since is None else f" for {endpoint_health.ages(found.since, context.now)}"
    return join(context.anchor(view.url, f"/endpoints/{view.endpoint_id}"), f" ({found.words}{since})")


def _numbers(context: PageContext, health: EndpointsHealth) -> Safe:
    backlog = health.backlog
    every, unhealthy = (context.here(state=state, q=None, after=None) for state in (None, "sick"))
    waiting = context.link("/messages", state="open")
    return components.numbers(
        components.number("delivered", f"{backlog.lanes:,}", "endpoints", href=every),
        components.number("scheduled", health.unhealthy_count, "unhealthy", href=unhealthy),
        components.number("pending", counted(backlog.waiting), "deliveries waiting", href=waiting),
        components.number("held", counted(backlog.held), "deliveries held", href=unhealthy),
    )


def counted(number: int, limit: int = MAX_WAITING) -> str:
    return components.at_least(number, number >= limit)


def activity(context: PageContext, found: Series) -> Safe:
    """Show the attempts of an endpoint, or of all endpoints of an application, over time."""
    label = f"Attempts {series.rate_words(context.span)}, {context.span.words.lower()}"
    return components.section("Attempts over time", figures.areas(label, found.curves(), found.times))


def success(context: PageContext, found: Series) -> Safe:
    """Show the percentage of the attempts that delivered, for the numbers at the top of a page."""
    shade = "scheduled" if found.failed else "delivered"
    words = f"of attempts delivered, {context.span.words.lower()}"
    return components.number(shade, series.percent(found.success), words)


# ── the table ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def table(
    context: PageContext, views: Sequence[LaneView], names: Mapping[str, str], health: EndpointsHealth
) -> Safe:
    """Return the table of these endpoints. The activity of all of them is read with one query."""
    numbers = [(view.lane.app_no, view.lane.endpoint_no) for view in views]
    steps = series.few_steps(context.span, context.now)
    activity = await context.store.monitoring.endpoint_activity(
        numbers, steps.since, grain=context.span.grain, first=steps.first, step=steps.length
    )

    def name(view: LaneView) -> Safe:
        link = context.link(f"/endpoints/{view.endpoint_id}")
        below = components.below(view.description[:80], names.get(view.app_id))
        return join(components.ident(view.url, href=link, most=40), below)

    def fix(view: LaneView) -> Safe | None:
        return fix_button(context, view.endpoint_id, condition(view.lane, context.now))

    return components.table(
        views,
        (
            ("Endpoint", name),
            ("State", lambda view: _problems(context, view, health.dead.get(view.endpoint_id, 0))),
            ("Waiting", lambda view: _waiting(context, view)),
            (context.span.words, lambda view: _activity(view, activity.get(view.lane.endpoint_no, []), steps)),
            ("Limits", lambda view: ", ".join(endpoint_health.limits(view.lane)) or "–"),
            ("", fix),
        ),
        caption="Endpoints, the worst first",
        key=lambda view: view.endpoint_id,
        numeric=("Waiting",),
    )


def _problems(context: PageContext, view: LaneView, dead: int) -> Safe:
    """Return the state, the last error, and a link to the dead letters.

    A healthy endpoint can have dead letters too.
    """
    found, error, letters = condition(view.lane, context.now), None, None
    if view.last_error and not found.well:
        error = tag("div", components.clip(view.last_error, 60), title=view.last_error, class_="quiet")
    if dead:
        words = f"{counted(dead, MAX_LISTED)} {'dead letter' if dead == 1 else 'dead letters'}"
        link = context.anchor(components.state("dead", words), "/dead-letters", endpoint=view.endpoint_id)
        letters = tag("div", link)
    return join(state(context, found), error, letters)


def _waiting(context: PageContext, view: LaneView) -> Child:
    if not view.depth or view.oldest_due is None:
        return endpoint_health.depth(view) if view.depth else "–"
    oldest = tag("div", "oldest ", components.ago(view.oldest_due, context.now), class_="quiet")
    return join(endpoint_health.depth(view), oldest)


def _activity(view: LaneView, found: Sequence[Activity], steps: Steps) -> Child:
    activity = series.laid_out(found, steps)
    if not activity.attempts:
        return tag("span", "no attempts", class_="quiet")
    line = figures.sparkline(f"Attempts to {view.url}: {activity.words}", activity.line())
    return join(line, components.below(f"{series.percent(activity.success)} delivered"))


def state(context: PageContext, found: Condition) -> Safe:
    return stated(context, found.shade, found.words, found.since)


def stated(context: PageContext, shade: str, words: str, since: datetime | None) -> Safe:
    """Show a state, and how long it has lasted."""
    state = components.state(shade, words)
    if since is None:
        return state
    return join(state, " ", tag("span", "for ", endpoint_health.ages(since, context.now), class_="quiet"))


def fix_button(context: PageContext, endpoint_id: str, found: Condition) -> Safe | None:
    """Return the button that fixes the problem of the endpoint. None: no button fixes this condition."""
    path = f"/endpoints/{endpoint_id}"
    if found.name == "disabled" and context.may_change:
        return components.link_button(context.link(f"{path}/enable"), "Enable…", kind="main")
    if found.name not in _FIXES:
        return None
    action, words = _FIXES[found.name]
    return components.button(context, context.link(f"{path}/{action}"), words, kind="main")


_FIXES = {
    "open": ("circuit/close", "Close circuit"),
    "half_open": ("circuit/close", "Close circuit"),
    "held": ("circuit/reset", "Continue now"),
    "paused": ("resume", "Resume"),
}
