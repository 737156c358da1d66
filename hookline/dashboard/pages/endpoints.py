"""Endpoints: the sickest first, with what waits behind each and the button that mends it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from hookline import ids
from hookline.dashboard import components, endpoint_health
from hookline.dashboard.charts import figures, series
from hookline.dashboard.charts.series import Series
from hookline.dashboard.endpoint_health import Condition, condition
from hookline.dashboard.page import Action, Page, View
from hookline.dashboard.page_context import PageContext
from hookline.errors import InvalidInput, NotFound
from hookline.model import Backlog, LaneView
from hookline.store.protocols import MAX_LISTED, MAX_WAITING
from hookline.store.protocols import Page as Rows
from hookline.web.html import Child, Safe, join, tag

SHOWN = 50  # on one page; the first one has the sick ones in it, and ...
MAX_SICK = 40  # ... room for others

_STATES = (("", "Any state"), ("sick", "not well"), *endpoint_health.WORDS.items())


class Sight(Struct, frozen=True, kw_only=True):
    """How the endpoints of an organization or an application are: costs the same however many are well."""

    backlog: Backlog
    sick: list[LaneView]  # the sickest first
    more: bool  # there may be more of these
    dead: dict[str, int]  # dead letters that nobody has resolved, by the endpoint's id: of those that were looked at

    @property
    def some_sick(self) -> str:
        return f"{len(self.sick):,}{'+' if self.more else ''}"


async def read(context: PageContext, app_no: int | None) -> Sight:
    troubled = await context.store.troubled(MAX_SICK, org_id=context.org_id, app_no=app_no, counted=MAX_LISTED)
    sick = [each.view for each in troubled if not condition(each.view.lane, context.now).well]
    return Sight(
        backlog=await context.store.backlog(context.org_id, app_no),
        sick=sorted(sick, key=lambda view: endpoint_health.sickest(view, context.now)),
        more=len(troubled) == MAX_SICK,
        dead={each.view.endpoint_id: each.dead for each in troubled if each.dead},
    )


async def show(context: PageContext) -> Page:
    context.check_app()
    sight = await read(context, context.app_no)
    if not sight.backlog.lanes:
        return Page(
            title="Endpoints", rail="endpoints", body=[context.live("endpoints", _none(context)), _contract(context)]
        )
    listed, following = await _listed(context, sight)
    names = await context.names(view.app_id for view in listed)
    rows = await table(context, listed, names, sight) if listed else components.empty("No endpoint is like this.")
    return Page(
        title="Endpoints",
        rail="endpoints",
        body=[
            context.live("health", verdict(context, sight), _numbers(context, sight)),
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
    """Operators have it beside each endpoint, and know it."""
    if not context.viewer.portal:
        return None
    return tag("p", tag("a", "What you can rely on: the delivery contract", href=context.link("/contract")))


def _none(context: PageContext) -> Safe:
    if context.viewer.portal:
        return components.empty(
            "No endpoints yet. An endpoint is a URL of yours to which events are sent.", None, add_link(context)
        )
    return components.empty(
        "No endpoints yet. Make one that prints what arrives:",
        "hookline listen --register demo --ping",
        add_link(context),
    )


# ── which ones ────────────────────────────────────────────────────────────────────────────────────────────────────


def _filters(context: PageContext) -> Safe:
    return components.filters(
        context,
        components.field("q", "Part of its URL, or its id", context.param("q") or "", type_="search"),
        components.choice("state", "State", _STATES, context.param("state") or ""),
    )


async def _listed(context: PageContext, sight: Sight) -> tuple[list[LaneView], str | None]:
    """Those of this page, and where the next one begins. Those that are sick are on the first page, wherever they belong."""
    state, text = _state(context), context.param("q")
    if text is not None and text.startswith(ids.ENDPOINT):
        return _like(context, await _named_by_id(context, text), state), None
    after = context.param("after")
    first = _like(context, sight.sick, state) if text is None and after is None else []
    page = Rows(limit=SHOWN - len(first), iterator=after)
    found = await context.store.lane_page(context.org_id, context.app_no, page, url=(text or "").lower(), state=state)
    following = found[-1].endpoint_id if len(found) == page.limit else None
    known = {view.endpoint_id for view in first}
    return _like(context, [*first, *(view for view in found if view.endpoint_id not in known)], state), following


async def _named_by_id(context: PageContext, endpoint_id: str) -> list[LaneView]:
    try:
        found = await context.endpoint(endpoint_id)
    except NotFound:
        return []
    view = await context.store.lane_view(found.no) if context.app_no in (None, found.app_no) else None
    return [] if view is None else [view]


def _state(context: PageContext) -> str | None:
    state = context.param("state")
    if state is not None and state not in dict(_STATES):
        raise InvalidInput(f"takes one of {', '.join(key for key, _ in _STATES if key)}", field="state")
    return state


def _like(context: PageContext, views: Sequence[LaneView], state: str | None) -> list[LaneView]:
    """Those that are in this state, the sickest first."""
    found = [view for view in views if _is(state, condition(view.lane, context.now))]
    return sorted(found, key=lambda view: endpoint_health.sickest(view, context.now))


def _is(state: str | None, found: Condition) -> bool:
    return state is None or state == found.name or (state == "sick" and not found.well)


# ── what is wrong ─────────────────────────────────────────────────────────────────────────────────────────────────


def verdict(context: PageContext, sight: Sight) -> Safe:
    """How they all are, and the sickest by its name."""
    backlog = sight.backlog
    if not sight.sick and sight.more:
        link = tag("a", "Look at the dead letters", href=context.link("/dead-letters"))
        return components.verdict(
            "dead", f"At least {components.count(MAX_SICK, 'endpoint')} with dead letters. ", link, "."
        )
    if not sight.sick:
        words = "The endpoint is well." if backlog.lanes == 1 else f"All {backlog.lanes:,} endpoints are well."
        return components.verdict("delivered", words)
    worst = _named(context, sight.sick[0])
    if not backlog.held_lanes:
        words = f"{_of(sight.some_sick, backlog.lanes, len(sight.sick))} not well, and still sent to. Look at "
        return components.verdict("scheduled", words, worst, ".")
    many = components.count(backlog.held, "delivery", backlog.held >= MAX_WAITING)
    held = _of(f"{backlog.held_lanes:,}", backlog.lanes, backlog.held_lanes)
    return components.verdict("held", f"{held} held: {many} waiting. Look at ", worst, ".")


def _of(some: str, every: int, many: int) -> str:
    """`1 of 9 endpoints is`"""
    return f"{some} of {components.count(every, 'endpoint')} {'is' if many == 1 else 'are'}"


def _named(context: PageContext, view: LaneView) -> Safe:
    found = condition(view.lane, context.now)
    since = "" if found.since is None else f" for {endpoint_health.ages(found.since, context.now)}"
    link = tag("a", view.url, href=context.link(f"/endpoints/{view.endpoint_id}"))
    return join(link, f" ({found.words}{since})")


def _numbers(context: PageContext, sight: Sight) -> Safe:
    backlog = sight.backlog
    sick = context.here(state="sick", q=None, after=None)
    return components.numbers(
        components.number(
            "delivered", f"{backlog.lanes:,}", "endpoints", href=context.here(state=None, q=None, after=None)
        ),
        components.number("scheduled", sight.some_sick, "not well", href=sick),
        components.number(
            "pending", counted(backlog.waiting), "deliveries waiting", href=context.link("/messages", state="open")
        ),
        components.number("held", counted(backlog.held), "deliveries held", href=sick),
    )


def counted(many: int, most: int = MAX_WAITING) -> str:
    return f"{many:,}{'+' if many >= most else ''}"


# ── the table ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def table(context: PageContext, views: Sequence[LaneView], names: Mapping[str, str], sight: Sight) -> Safe:
    """Of those that are shown on one page, with the names of their applications; what each did is one question for all."""
    numbers = [(view.lane.app_no, view.lane.endpoint_no) for view in views]
    steps = series.few_steps(context.span, context.now)
    did = await context.store.endpoint_activity(
        numbers, steps.since, grain=context.span.grain, first=steps.first, step=steps.length
    )
    return components.table(
        ("Endpoint", "State", "Waiting", context.span.words, "Limits", ""),
        [
            _row(
                context,
                view,
                _who(context, view, names),
                series.laid_out(did.get(view.lane.endpoint_no, []), steps),
                sight.dead.get(view.endpoint_id, 0),
            )
            for view in views
        ],
        caption="Endpoints, the sickest first",
        keys=[view.endpoint_id for view in views],
        numeric=(2,),
    )


def _row(context: PageContext, view: LaneView, who: Safe, did: Series, dead: int) -> list[Child]:
    found = condition(view.lane, context.now)
    error = view.last_error if view.last_error and not found.well else None
    return [
        who,
        join(
            state(context, found),
            tag("div", _short(error), title=error, class_="quiet") if error else None,
            _letters(context, view, dead) if dead else None,
        ),
        _waiting(context, view),
        _did(view, did),
        ", ".join(endpoint_health.limits(view.lane)) or "–",
        mend(context, view.endpoint_id, found),
    ]


def _letters(context: PageContext, view: LaneView, dead: int) -> Safe:
    """One that answers may refuse what it is sent: well, and yet somebody has to look."""
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


def _did(view: LaneView, did: Series) -> Child:
    if not did.attempts:
        return tag("span", "no attempts", class_="quiet")
    line = figures.sparkline(f"Attempts to {view.url}: {did.words}", did.line())
    return join(line, tag("div", f"{series.percent(did.success)} delivered", class_="quiet"))


def _who(context: PageContext, view: LaneView, names: Mapping[str, str]) -> Safe:
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


def mend(context: PageContext, endpoint_id: str, found: Condition) -> Safe | None:
    """The button for what is wrong with it."""
    path = f"/endpoints/{endpoint_id}"
    match found.name:
        case "open" | "half_open":
            return components.button(context, context.link(f"{path}/circuit/close"), "Close circuit", kind="main")
        case "held":
            return components.button(context, context.link(f"{path}/circuit/reset"), "Send again now", kind="main")
        case "paused":
            return components.button(context, context.link(f"{path}/resume"), "Resume", kind="main")
        case "disabled" if context.may_change:
            return components.link_button(context.link(f"{path}/enable"), "Enable…", kind="main")
        case _:
            return None


VIEWS = (View(path="/endpoints", show=show, portal=True),)
ACTIONS: tuple[Action, ...] = ()
