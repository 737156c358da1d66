"""The list of applications with their health."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from hookline.dashboard import components, endpoint_health
from hookline.dashboard.page import Page, get
from hookline.dashboard.page_context import PageContext
from hookline.model.catalogue import Application
from hookline.model.lanes import AppHealth
from hookline.store import MAX_LISTED
from hookline.store.plans.names import MAX_SEARCHED
from hookline.web.html import Child, Safe, tag

SHOWN = 50  # applications on one page
MAX_LANES = 200  # endpoints of one application that are checked for its health
MAX_UNHEALTHY = 100  # unhealthy endpoints that are read for the summary at the top


class ApplicationPage(Struct, frozen=True):
    """One page of the list, and the position where the next page begins."""

    rows: Sequence[Application]
    following: str | None = None  # position of the next page; None: this is the last page
    stopped: bool = False  # the search reached its limit before the page was full; `following` continues it


@get("/applications")
async def show(context: PageContext) -> Page:
    text = context.param("q")
    listed = await (_listed(context) if text is None else _search(context, text))
    if not listed.rows and text is None and context.param("after") is None:
        return Page(title="Applications", body=[context.live("applications", _empty(context))])
    no_match = "No match so far." if listed.stopped else "No application has this id, or this text in its name or uid."
    # An application that was not searched yet may match.
    note = tag("p", f"{MAX_SEARCHED:,} applications were searched, and there are more.", class_="quiet")
    field = components.field("q", "Id, or part of the name or uid", text or "", type_="search")
    rows = await _table(context, listed.rows) if listed.rows else components.empty(no_match)
    more = components.more(context, listed.following, "Search the next" if listed.stopped else "More")
    return Page(
        title="Applications",
        body=[
            context.live("health", await _verdict(context)),
            components.filters(context, field),
            context.live("applications", rows, note if listed.stopped else None, more),
        ],
        aside=_add(context),
    )


async def _listed(context: PageContext) -> ApplicationPage:
    """Return one page of all applications."""
    found = await context.store.catalogue.applications(context.org_id, context.rows(SHOWN))
    return ApplicationPage(found[:SHOWN], found[SHOWN - 1].id if len(found) > SHOWN else None)


async def _search(context: PageContext, text: str) -> ApplicationPage:
    """Return the application with this id or uid, and those whose name or uid contains the text.

    No index covers parts of names, so one page searches a limited number of applications.
    """
    first = context.param("after") is None
    one = await context.store.catalogue.application(context.org_id, text) if first else None
    if one is not None and one.id == text:
        return ApplicationPage([one])
    found = await context.store.catalogue.applications_called(context.org_id, text, context.rows(SHOWN))
    matches = found.rows[:SHOWN]
    rows = [*([] if one is None else [one]), *(app for app in matches if one is None or app.id != one.id)]
    last = matches[-1].id if len(found.rows) > SHOWN else None
    return ApplicationPage(rows, found.end or last, stopped=found.end is not None)


def _add(context: PageContext) -> Safe | None:
    if not context.may_change:
        return None
    return components.link_button(context.link("/applications/new"), "Add an application", kind="main")


def _empty(context: PageContext) -> Safe:
    words = "No applications yet. An application is one of your customers. Its endpoints receive its messages."
    return components.empty(words, "hookline listen --register demo --ping", _add(context))


# ── health ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def _verdict(context: PageContext) -> Safe:
    """Count the applications with unhealthy endpoints or, if there are none, those with dead letters."""
    found = await context.store.history.unhealthy_lanes(MAX_UNHEALTHY, org_id=context.org_id, counted=1)
    unhealthy = {each.view.app_id for each in found if not endpoint_health.condition(each.view.lane, context.now).well}
    dead = {each.view.app_id for each in found if each.dead}
    number = components.count(len(unhealthy or dead), "application", len(found) == MAX_UNHEALTHY).capitalize()
    if unhealthy:
        link = context.anchor("Show the endpoints", "/endpoints", state="sick", app=None)
        return components.verdict("held", f"{number} with unhealthy endpoints. ", link, ".")
    if dead:
        link = context.anchor("Show the dead letters", "/dead-letters", app=None)
        return components.verdict("dead", f"{number} with dead letters. ", link, ".")
    return components.verdict("delivered", "All applications are healthy.")


async def _table(context: PageContext, found: Sequence[Application]) -> Safe:
    health = await context.store.history.app_health([app.no for app in found], lanes=MAX_LANES, counted=MAX_LISTED)
    return components.table(
        found,
        (
            ("Application", lambda app: context.anchor(app.name, f"/applications/{app.id}")),
            ("State", lambda app: _state(context, app, health[app.no])),
            ("Dead letters", lambda app: _dead_letters(context, app, health[app.no].dead)),
            ("Throttle", lambda app: "–" if app.throttle_rate is None else f"{app.throttle_rate:,}/s"),
            ("Id", lambda app: components.ident(app.uid or app.id)),
            ("Added", lambda app: components.ago(app.created_at, context.now)),
        ),
        caption="Applications",
        key=lambda app: app.id,
        numeric=("Dead letters",),
    )


def _dead_letters(context: PageContext, app: Application, dead: int) -> Child:
    words = components.at_least(dead, dead == MAX_LISTED)
    return context.anchor(components.state("dead", words), "/dead-letters", app=app.id) if dead else "–"


def _state(context: PageContext, app: Application, health: AppHealth) -> Safe:
    more = health.lanes == MAX_LANES
    if not health.sick and more:
        return tag("a", "show", href=context.link(f"/applications/{app.id}"))
    if not health.sick:
        return components.state("delivered", "healthy")
    words = components.count(health.sick, "unhealthy endpoint", more)
    if health.held:
        words += f", {components.count(health.held, 'delivery', health.held == MAX_LISTED)} held"
    link = context.link("/endpoints", app=app.id, state="sick")
    return tag("a", components.state("held" if health.stopped else "scheduled", words), href=link)
