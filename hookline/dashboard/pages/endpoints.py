"""The list of endpoints: unhealthy ones first, with their waiting deliveries and a button that fixes the problem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from hookline import ids
from hookline.dashboard import components, endpoint_health
from hookline.dashboard.charts import figures, series
from hookline.dashboard.charts.series import Series
from hookline.dashboard.endpoint_health import Condition, condition
from hookline.dashboard.page import Page, get
from hookline.dashboard.page_context import PageContext
from hookline.errors import InvalidInput, NotFound
from hookline.model import Backlog, LaneView
from hookline.store.protocols import MAX_LISTED, MAX_WAITING
from hookline.store.protocols import Page as Rows
from hookline.web.html import Child, Safe, join, tag

SHOWN = 50  # endpoints on one page
MAX_UNHEALTHY = 40  # unhealthy endpoints read for the first page; the rest of that page shows others

_STATES = (("", "Any state"), ("sick", "unhealthy"), *endpoint_health.WORDS.items())


class EndpointsHealth(Struct, frozen=True, kw_only=True):
    """Health of the endpoints of an organization or application. Reading it does not depend on the number of healthy ones."""

    backlog: Backlog
    unhealthy: list[LaneView]  # the worst first
    more: bool  # there may be more unhealthy endpoints: the limit was reached
    dead: dict[str, int]  # unresolved dead letters by endpoint id, for the endpoints that were read

    @property
    def unhealthy_count(self) -> str:
        return f"{len(self.unhealthy):,}{'+' if self.more else ''}"


async def read(context: PageContext, app_no: int | None) -> EndpointsHealth:
    unhealthy = await context.store.history.unhealthy_lanes(
        MAX_UNHEALTHY, org_id=context.org_id, app_no=app_no, counted=MAX_LISTED
    )
    views = [each.view for each in unhealthy if not condition(each.view.lane, context.now).well]
    return EndpointsHealth(
        backlog=await context.store.history.backlog(context.org_id, app_no),
        unhealthy=sorted(views, key=lambda view: endpoint_health.sickest(view, context.now)),
        more=len(unhealthy) == MAX_UNHEALTHY,
        dead={each.view.endpoint_id: each.dead for each in unhealthy if each.dead},
    )


@get("/endpoints", portal=True)
async def show(context: PageContext) -> Page:
    context.check_app()
    health = await read(context, context.app_no)
    if not health.backlog.lanes:
        return Page(title="Endpoints", body=[context.live("endpoints", _none(context)), _contract(context)])
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
    """Link to the delivery contract in the portal. Operators see it on the page of each endpoint."""
    if not context.viewer.portal:
        return None
    return tag("p", tag("a", "What you can rely on: the delivery contract", href=context.link("/contract")))


def _none(context: PageContext) -> Safe:
    if context.viewer.portal:
        return components.empty(
            "No endpoints yet. An endpoint is your URL that receives events.", None, add_link(context)
        )
    return components.empty(
        "No endpoints yet. Create one that prints each message it receives:",
        "hookline listen --register demo --ping",
        add_link(context),
    )


# ── filter ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _filters(context: PageContext) -> Safe:
    return components.filters(
        context,
        components.field("q", "Id, or part of the URL", context.param("q") or "", type_="search"),
        components.choice("state", "State", _STATES, context.param("state") or ""),
    )


async def _listed(context: PageContext, health: EndpointsHealth) -> tuple[list[LaneView], str | None]:
    """Return the endpoints of this page and the position of the next page. The first page begins with the unhealthy ones."""
    state, text = _state(context), context.param("q")
    if text is not None and text.startswith(ids.ENDPOINT):
        return _in_state(context, await _named_by_id(context, text), state), None
    after = context.param("after")
    first = _in_state(context, health.unhealthy, state) if text is None and after is None else []
    page = Rows(limit=SHOWN - len(first), iterator=after)
    found = await context.store.history.lane_page(
        context.org_id, context.app_no, page, url=(text or "").lower(), state=state
    )
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


def _state(context: PageContext) -> str | None:
    state = context.param("state")
    if state is not None and state not in dict(_STATES):
        raise InvalidInput(f"takes one of {', '.join(key for key, _ in _STATES if key)}", field="state")
    return state


def _in_state(context: PageContext, views: Sequence[LaneView], state: str | None) -> list[LaneView]:
    """Return the endpoints in this state, the worst first."""
    found = [view for view in views if _is(state, condition(view.lane, context.now))]
    return sorted(found, key=lambda view: endpoint_health.sickest(view, context.now))


def _is(state: str | None, found: Condition) -> bool:
    return state is None or state == found.name or (state == "sick" and not found.well)


# ── health ───────────────────────────────────────────────────────────────────────────────────────────────────────


def verdict(context: PageContext, health: EndpointsHealth) -> Safe:
    """Summarize the health of all endpoints, and name the worst one."""
    backlog = health.backlog
    if not health.unhealthy and health.more:
        link = tag("a", "Show the dead letters", href=context.link("/dead-letters"))
        return components.verdict(
            "dead", f"At least {components.count(MAX_UNHEALTHY, 'endpoint')} with dead letters. ", link, "."
        )
    if not health.unhealthy:
        words = "The endpoint is healthy." if backlog.lanes == 1 else f"All {backlog.lanes:,} endpoints are healthy."
        return components.verdict("delivered", words)
    worst = _named(context, health.unhealthy[0])
    if not backlog.held_lanes:
        words = (
            f"{_of(health.unhealthy_count, backlog.lanes, len(health.unhealthy))} unhealthy, but still sent to. See "
        )
        return components.verdict("scheduled", words, worst, ".")
    number = components.count(backlog.held, "delivery", backlog.held >= MAX_WAITING)
    held = _of(f"{backlog.held_lanes:,}", backlog.lanes, backlog.held_lanes)
    return components.verdict("held", f"{held} held: {number} waiting. See ", worst, ".")


def _of(some: str, every: int, number: int) -> str:
    """Return a text such as `1 of 9 endpoints is`."""
    return f"{some} of {components.count(every, 'endpoint')} {'is' if number == 1 else 'are'}"


def _named(context: PageContext, view: LaneView) -> Safe:
    found = condition(view.lane, context.now)
    since = "" if found.since is None else f" for {endpoint_health.ages(found.since, context.now)}"
    link = tag("a", view.url, href=context.link(f"/endpoints/{view.endpoint_id}"))
    return join(link, f" ({found.words}{since})")


def _numbers(context: PageContext, health: EndpointsHealth) -> Safe:
    backlog = health.backlog
    unhealthy = context.here(state="sick", q=None, after=None)
    return components.numbers(
        components.number(
            "delivered", f"{backlog.lanes:,}", "endpoints", href=context.here(state=None, q=None, after=None)
        ),
        components.number("scheduled", health.unhealthy_count, "unhealthy", href=unhealthy),
        components.number(
            "pending", counted(backlog.waiting), "deliveries waiting", href=context.link("/messages", state="open")
        ),
        components.number("held", counted(backlog.held), "deliveries held", href=unhealthy),
    )


def counted(number: int, limit: int = MAX_WAITING) -> str:
    return f"{number:,}{'+' if number >= limit else ''}"


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
    return components.table(
        ("Endpoint", "State", "Waiting", context.span.words, "Limits", ""),
        [
            _row(
                context,
                view,
                _name(context, view, names),
                series.laid_out(activity.get(view.lane.endpoint_no, []), steps),
                health.dead.get(view.endpoint_id, 0),
            )
            for view in views
        ],
        caption="Endpoints, the worst first",
        keys=[view.endpoint_id for view in views],
        numeric=(2,),
    )


def _row(context: PageContext, view: LaneView, name: Safe, activity: Series, dead: int) -> list[Child]:
    found = condition(view.lane, context.now)
    error = view.last_error if view.last_error and not found.well else None
    return [
        name,
        join(
            state(context, found),
            tag("div", _short(error), title=error, class_="quiet") if error else None,
            _letters(context, view, dead) if dead else None,
        ),
        _waiting(context, view),
        _activity(view, activity),
        ", ".join(endpoint_health.limits(view.lane)) or "–",
        fix_button(context, view.endpoint_id, found),
    ]


def _letters(context: PageContext, view: LaneView, dead: int) -> Safe:
    """Link to the dead letters. A healthy endpoint can have some too: it may refuse single messages."""
    words = components.state("dead", f"{counted(dead, MAX_LISTED)} {'dead letter' if dead == 1 else 'dead letters'}")
    return tag("div", tag("a", words, href=context.link("/dead-letters", endpoint=view.endpoint_id)))


def _waiting(context: PageContext, view: LaneView) -> Child:
    if not view.depth:
        return "–"
    oldest = (
        None
        if view.oldest_due is None
        else tag("div", "oldest ", components.ago(view.oldest_due, context.now), class_="quiet")
    )
    return join(endpoint_health.depth(view), oldest)


def _activity(view: LaneView, activity: Series) -> Child:
    if not activity.attempts:
        return tag("span", "no attempts", class_="quiet")
    line = figures.sparkline(f"Attempts to {view.url}: {activity.words}", activity.line())
    return join(line, tag("div", f"{series.percent(activity.success)} delivered", class_="quiet"))


def _name(context: PageContext, view: LaneView, names: Mapping[str, str]) -> Safe:
    about = [view.description[:80]] if view.description else []
    about += [names[view.app_id]] if view.app_id in names else []
    link = context.link(f"/endpoints/{view.endpoint_id}")
    below = tag("div", " · ".join(about), class_="quiet") if about else None
    return join(components.ident(view.url, href=link, most=40), below)


def state(context: PageContext, found: Condition) -> Safe:
    since = (
        None
        if found.since is None
        else join(" ", tag("span", "for ", endpoint_health.ages(found.since, context.now), class_="quiet"))
    )
    return join(components.state(found.shade, found.words), since)


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:59]}…"


def fix_button(context: PageContext, endpoint_id: str, found: Condition) -> Safe | None:
    """Return the button that fixes the problem of the endpoint, if there is one."""
    path = f"/endpoints/{endpoint_id}"
    match found.name:
        case "open" | "half_open":
            return components.button(context, context.link(f"{path}/circuit/close"), "Close circuit", kind="main")
        case "held":
            return components.button(context, context.link(f"{path}/circuit/reset"), "Continue now", kind="main")
        case "paused":
            return components.button(context, context.link(f"{path}/resume"), "Resume", kind="main")
        case "disabled" if context.may_change:
            return components.link_button(context.link(f"{path}/enable"), "Enable…", kind="main")
        case _:
            return None
