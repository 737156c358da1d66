"""Endpoints: the sickest first, with what waits behind each and the button that mends it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from hookline import ids
from hookline.dashboard import charts, health, parts, series
from hookline.dashboard.health import Condition, condition
from hookline.dashboard.look import Look
from hookline.dashboard.page import Action, Page, View
from hookline.dashboard.series import Series
from hookline.errors import InvalidInput, NotFound
from hookline.html import Child, Safe, join, tag
from hookline.model import Backlog, LaneView
from hookline.store.base import MOST_LISTED, MOST_WAITING
from hookline.store.base import Page as Rows

SHOWN = 50  # on one page; the first one has the sick ones in it, and ...
MOST_SICK = 40  # ... room for others

_STATES = (("", "Any state"), ("sick", "not well"), *health.WORDS.items())


class Sight(Struct, frozen=True, kw_only=True):
    """How the endpoints of an organization or an application are: costs the same however many are well."""

    backlog: Backlog
    sick: list[LaneView]  # the sickest first
    more: bool  # there may be more of these
    dead: dict[str, int]  # dead letters that nobody has resolved, by the endpoint's id: of those that were looked at

    @property
    def some_sick(self) -> str:
        return f"{len(self.sick):,}{'+' if self.more else ''}"


async def read(look: Look, app_no: int | None) -> Sight:
    troubled = await look.store.troubled(MOST_SICK, org_id=look.org_id, app_no=app_no, counted=MOST_LISTED)
    sick = [each.view for each in troubled if not condition(each.view.lane, look.now).well]
    return Sight(
        backlog=await look.store.backlog(look.org_id, app_no),
        sick=sorted(sick, key=lambda view: health.sickest(view, look.now)),
        more=len(troubled) == MOST_SICK,
        dead={each.view.endpoint_id: each.dead for each in troubled if each.dead},
    )


async def show(look: Look) -> Page:
    if look.app is None and (ref := look.param("app")) is not None:
        raise NotFound(f"no application {ref!r}")  # never: those of all applications
    sight = await read(look, look.app_no)
    if not sight.backlog.lanes:
        return Page(title="Endpoints", rail="endpoints", body=[look.live("endpoints", _none(look)), _contract(look)])
    listed, following = await _listed(look, sight)
    names = await look.names(view.app_id for view in listed)
    rows = await table(look, listed, names, sight) if listed else parts.empty("No endpoint is like this.")
    return Page(
        title="Endpoints",
        rail="endpoints",
        body=[
            look.live("health", verdict(look, sight), _numbers(look, sight)),
            _filters(look),
            look.live("endpoints", rows, parts.more(look, following, "More")),
            _contract(look),
        ],
        aside=add_link(look),
    )


def add_link(look: Look) -> Safe | None:
    if not look.may_change:
        return None
    return parts.link_button(look.link("/endpoints/new"), "Add an endpoint", kind="main")


def _contract(look: Look) -> Safe | None:
    """Operators have it beside each endpoint, and know it."""
    if not look.viewer.portal:
        return None
    return tag("p", tag("a", "What you can rely on: the delivery contract", href=look.link("/contract")))


def _none(look: Look) -> Safe:
    if look.viewer.portal:
        return parts.empty(
            "No endpoints yet. An endpoint is a URL of yours to which events are sent.", None, add_link(look)
        )
    return parts.empty(
        "No endpoints yet. Make one that prints what arrives:",
        "hookline listen --register demo --ping",
        add_link(look),
    )


# ── which ones ────────────────────────────────────────────────────────────────────────────────────────────────────


def _filters(look: Look) -> Safe:
    return parts.filters(
        look,
        parts.field("q", "Part of its URL, or its id", look.param("q") or "", type_="search"),
        parts.choice("state", "State", _STATES, look.param("state") or ""),
    )


async def _listed(look: Look, sight: Sight) -> tuple[list[LaneView], str | None]:
    """Those of this page, and where the next one begins. Those that are sick are on the first page, wherever they belong."""
    state, text = _state(look), look.param("q")
    if text is not None and text.startswith(ids.ENDPOINT):
        return _like(look, await _named_by_id(look, text), state), None
    after = look.param("after")
    first = _like(look, sight.sick, state) if text is None and after is None else []
    page = Rows(limit=SHOWN - len(first), iterator=after)
    found = await look.store.lane_page(look.org_id, look.app_no, page, url=(text or "").lower(), state=state)
    following = found[-1].endpoint_id if len(found) == page.limit else None
    known = {view.endpoint_id for view in first}
    return _like(look, [*first, *(view for view in found if view.endpoint_id not in known)], state), following


async def _named_by_id(look: Look, endpoint_id: str) -> list[LaneView]:
    try:
        found = await look.endpoint(endpoint_id)
    except NotFound:
        return []
    view = await look.store.lane_view(found.no) if look.app_no in (None, found.app_no) else None
    return [] if view is None else [view]


def _state(look: Look) -> str | None:
    state = look.param("state")
    if state is not None and state not in dict(_STATES):
        raise InvalidInput(f"takes one of {', '.join(key for key, _ in _STATES if key)}", field="state")
    return state


def _like(look: Look, views: Sequence[LaneView], state: str | None) -> list[LaneView]:
    """Those that are in this state, the sickest first."""
    found = [view for view in views if _is(state, condition(view.lane, look.now))]
    return sorted(found, key=lambda view: health.sickest(view, look.now))


def _is(state: str | None, found: Condition) -> bool:
    return state is None or state == found.name or (state == "sick" and not found.well)


# ── what is wrong ─────────────────────────────────────────────────────────────────────────────────────────────────


def verdict(look: Look, sight: Sight) -> Safe:
    """How they all are, and the sickest by its name."""
    backlog = sight.backlog
    if not sight.sick and sight.more:
        link = tag("a", "Look at the dead letters", href=look.link("/dead-letters"))
        return parts.verdict("dead", f"At least {parts.count(MOST_SICK, 'endpoint')} with dead letters. ", link, ".")
    if not sight.sick:
        words = "The endpoint is well." if backlog.lanes == 1 else f"All {backlog.lanes:,} endpoints are well."
        return parts.verdict("delivered", words)
    worst = _named(look, sight.sick[0])
    if not backlog.held_lanes:
        words = f"{_of(sight.some_sick, backlog.lanes, len(sight.sick))} not well, and still sent to. Look at "
        return parts.verdict("scheduled", words, worst, ".")
    many = parts.count(backlog.held, "delivery", backlog.held >= MOST_WAITING)
    held = _of(f"{backlog.held_lanes:,}", backlog.lanes, backlog.held_lanes)
    return parts.verdict("held", f"{held} held: {many} waiting. Look at ", worst, ".")


def _of(some: str, every: int, many: int) -> str:
    """`1 of 9 endpoints is`"""
    return f"{some} of {parts.count(every, 'endpoint')} {'is' if many == 1 else 'are'}"


def _named(look: Look, view: LaneView) -> Safe:
    found = condition(view.lane, look.now)
    since = "" if found.since is None else f" for {health.ages(found.since, look.now)}"
    link = tag("a", view.url, href=look.link(f"/endpoints/{view.endpoint_id}"))
    return join(link, f" ({found.words}{since})")


def _numbers(look: Look, sight: Sight) -> Safe:
    backlog = sight.backlog
    sick = look.here(state="sick", q=None, after=None)
    return parts.numbers(
        parts.number("delivered", f"{backlog.lanes:,}", "endpoints", href=look.here(state=None, q=None, after=None)),
        parts.number("scheduled", sight.some_sick, "not well", href=sick),
        parts.number(
            "pending", counted(backlog.waiting), "deliveries waiting", href=look.link("/messages", state="open")
        ),
        parts.number("held", counted(backlog.held), "deliveries held", href=sick),
    )


def counted(many: int, most: int = MOST_WAITING) -> str:
    return f"{many:,}{'+' if many >= most else ''}"


# ── the table ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def table(look: Look, views: Sequence[LaneView], names: Mapping[str, str], sight: Sight) -> Safe:
    """Of those that are shown on one page, with the names of their applications; what each did is one question for all."""
    numbers = [(view.lane.app_no, view.lane.endpoint_no) for view in views]
    steps = series.few_steps(look.span, look.now)
    did = await look.store.endpoint_activity(
        numbers, steps.since, grain=look.span.grain, first=steps.first, step=steps.length
    )
    return parts.table(
        ("Endpoint", "State", "Waiting", look.span.words, "Limits", ""),
        [
            _row(
                look,
                view,
                _who(look, view, names),
                series.laid_out(did.get(view.lane.endpoint_no, []), steps),
                sight.dead.get(view.endpoint_id, 0),
            )
            for view in views
        ],
        caption="Endpoints, the sickest first",
        keys=[view.endpoint_id for view in views],
        numeric=(2,),
    )


def _row(look: Look, view: LaneView, who: Safe, did: Series, dead: int) -> list[Child]:
    found = condition(view.lane, look.now)
    error = view.last_error if view.last_error and not found.well else None
    return [
        who,
        join(
            state(look, found),
            tag("div", _short(error), title=error, class_="quiet") if error else None,
            _letters(look, view, dead) if dead else None,
        ),
        _waiting(look, view),
        _did(view, did),
        ", ".join(health.limits(view.lane)) or "–",
        mend(look, view.endpoint_id, found),
    ]


def _letters(look: Look, view: LaneView, dead: int) -> Safe:
    """One that answers may refuse what it is sent: well, and yet somebody has to look."""
    words = parts.state("dead", f"{counted(dead, MOST_LISTED)} {'dead letter' if dead == 1 else 'dead letters'}")
    return tag("div", tag("a", words, href=look.link("/dead-letters", endpoint=view.endpoint_id)))


def _waiting(look: Look, view: LaneView) -> Child:
    if not view.depth:
        return "–"
    oldest = (
        None if view.oldest_due is None else tag("div", "oldest ", parts.ago(view.oldest_due, look.now), class_="quiet")
    )
    return join(health.depth(view), oldest)


def _did(view: LaneView, did: Series) -> Child:
    if not did.attempts:
        return tag("span", "no attempts", class_="quiet")
    line = charts.sparkline(f"Attempts to {view.url}: {did.words}", did.line())
    return join(line, tag("div", f"{series.percent(did.success)} delivered", class_="quiet"))


def _who(look: Look, view: LaneView, names: Mapping[str, str]) -> Safe:
    about = [view.description[:80]] if view.description else []
    about += [names[view.app_id]] if view.app_id in names else []
    link = look.link(f"/endpoints/{view.endpoint_id}")
    below = tag("div", " · ".join(about), class_="quiet") if about else None
    return join(parts.ident(view.url, href=link, most=40), below)


def state(look: Look, found: Condition) -> Safe:
    since = (
        None
        if found.since is None
        else join(" ", tag("span", "for ", health.ages(found.since, look.now), class_="quiet"))
    )
    return join(parts.state(found.shade, found.words), since)


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:59]}…"


def mend(look: Look, endpoint_id: str, found: Condition) -> Safe | None:
    """The button for what is wrong with it."""
    path = f"/endpoints/{endpoint_id}"
    match found.name:
        case "open" | "half_open":
            return parts.button(look, look.link(f"{path}/circuit/close"), "Close circuit", kind="main")
        case "held":
            return parts.button(look, look.link(f"{path}/circuit/reset"), "Send again now", kind="main")
        case "paused":
            return parts.button(look, look.link(f"{path}/resume"), "Resume", kind="main")
        case "disabled" if look.may_change:
            return parts.link_button(look.link(f"{path}/enable"), "Enable…", kind="main")
        case _:
            return None


VIEWS = (View(path="/endpoints", show=show, portal=True),)
ACTIONS: tuple[Action, ...] = ()
