"""Applications: those that need somebody first, then all of them. And adding one."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from hookline.dashboard import components, endpoint_health
from hookline.dashboard.page import Action, Done, Form, Page, View
from hookline.dashboard.page_context import PageContext
from hookline.dashboard.pages.application_form import Draft, page, read_draft
from hookline.errors import Conflict, HooklineError, InvalidInput
from hookline.model import AppHealth, Application
from hookline.services import applications
from hookline.store.plans.names import LOOKED
from hookline.store.protocols import MAX_LISTED
from hookline.store.protocols import Page as Rows
from hookline.web.html import Child, Safe, tag

SHOWN = 50  # on one page
MAX_LANES = 200  # endpoints of one application that are looked at, and ...
MAX_TROUBLED = 100  # ... of all applications, to see who needs somebody


class Listed(Struct, frozen=True):
    """A page of them, and where the next one begins."""

    rows: Sequence[Application]
    following: str | None = None
    stopped: bool = False  # the search has stopped before a page was full: `following` goes on


class Troubles(Struct, frozen=True):
    """Of all applications: how many have something wrong, as far as was looked."""

    sick: int  # with endpoints that are not well
    dying: int  # with dead letters
    more: bool  # than were looked at


async def show(context: PageContext) -> Page:
    text = context.param("q")
    listed = await (_listed(context) if text is None else _called(context, text))
    if not listed.rows and text is None and context.param("after") is None:
        return Page(title="Applications", rail="applications", body=[context.live("applications", _none(context))])
    rows = await _table(context, listed.rows) if listed.rows else _nothing(listed)
    return Page(
        title="Applications",
        rail="applications",
        body=[
            context.live("health", _verdict(context, await _troubles(context))),
            components.filters(
                context, components.field("q", "Part of its name or uid, or its id", text or "", type_="search")
            ),
            context.live(
                "applications", rows, _further(listed), components.more(context, listed.following, _more_words(listed))
            ),
        ],
        aside=_add(context),
    )


async def _listed(context: PageContext) -> Listed:
    """One more than is shown is asked for, to know whether there are others."""
    found = await context.store.applications(context.org_id, Rows(limit=SHOWN + 1, iterator=context.param("after")))
    return Listed(found[:SHOWN], found[SHOWN - 1].id if len(found) > SHOWN else None)


async def _called(context: PageContext, text: str) -> Listed:
    """The one that has this id or uid, and those with a part of it in their name: no index has these, so that one page looks
    through a bounded number of applications."""
    after = context.param("after")
    one = await context.store.application(context.org_id, text) if after is None else None
    if one is not None and one.id == text:
        return Listed([one])
    found = await context.store.applications_called(context.org_id, text, Rows(limit=SHOWN + 1, iterator=after))
    called = found.rows[:SHOWN]
    rows = [*([] if one is None else [one]), *(app for app in called if one is None or app.id != one.id)]
    whole = called[-1].id if len(found.rows) > SHOWN else None
    return Listed(rows, found.end or whole, stopped=found.end is not None)


def _nothing(listed: Listed) -> Safe:
    return components.empty(
        "None so far." if listed.stopped else "No application has this id, or this in its name or uid."
    )


def _further(listed: Listed) -> Safe | None:
    """No silent end: it may be among those that were not looked at."""
    words = f"{LOOKED:,} applications were looked through, and there are more."
    return tag("p", words, class_="quiet") if listed.stopped else None


def _more_words(listed: Listed) -> str:
    return "Look through the next" if listed.stopped else "More"


def _add(context: PageContext) -> Safe | None:
    if not context.may_change:
        return None
    return components.link_button(context.link("/applications/new"), "Add an application", kind="main")


def _none(context: PageContext) -> Safe:
    words = "No applications yet. An application is one customer of yours; its endpoints get its messages."
    return components.empty(words, "hookline listen --register demo --ping", _add(context))


# ── what is wrong ─────────────────────────────────────────────────────────────────────────────────────────────────


async def _troubles(context: PageContext) -> Troubles:
    found = await context.store.troubled(MAX_TROUBLED, org_id=context.org_id, counted=1)
    sick = {each.view.app_id for each in found if not endpoint_health.condition(each.view.lane, context.now).well}
    dying = {each.view.app_id for each in found if each.dead}
    return Troubles(len(sick), len(dying), len(found) == MAX_TROUBLED)


def _verdict(context: PageContext, troubles: Troubles) -> Safe:
    if troubles.sick:
        link = tag("a", "Look at the endpoints", href=context.link("/endpoints", state="sick", app=None))
        return components.verdict(
            "held", f"{_many(troubles.sick, troubles)} with endpoints that are not well. ", link, "."
        )
    if troubles.dying:
        link = tag("a", "Look at them", href=context.link("/dead-letters", app=None))
        return components.verdict("dead", f"{_many(troubles.dying, troubles)} with dead letters. ", link, ".")
    return components.verdict("delivered", "All applications are well.")


def _many(applications: int, troubles: Troubles) -> str:
    words = components.count(applications, "application", troubles.more)
    return f"{words[0].upper()}{words[1:]}"


async def _table(context: PageContext, found: Sequence[Application]) -> Safe:
    how = await context.store.app_health([app.no for app in found], lanes=MAX_LANES, counted=MAX_LISTED)
    return components.table(
        ("Application", "State", "Dead letters", "Throttle", "Id", "Added"),
        [_row(context, app, how[app.no]) for app in found],
        caption="Applications",
        keys=[app.id for app in found],
        numeric=(2,),
    )


def _row(context: PageContext, app: Application, how: AppHealth) -> list[Child]:
    dead: Child = "–"
    if how.dead:
        words = f"{how.dead:,}{'+' if how.dead == MAX_LISTED else ''}"
        dead = tag("a", components.state("dead", words), href=context.link("/dead-letters", app=app.id))
    return [
        tag("a", app.name, href=context.link(f"/applications/{app.id}")),
        _state(context, app, how),
        dead,
        "–" if app.throttle_rate is None else f"{app.throttle_rate:,}/s",
        components.ident(app.uid or app.id),
        components.ago(app.created_at, context.now),
    ]


def _state(context: PageContext, app: Application, how: AppHealth) -> Safe:
    more = how.lanes == MAX_LANES
    if not how.sick and more:
        return tag("a", "look", href=context.link(f"/applications/{app.id}"))
    if not how.sick:
        return components.state("delivered", "well")
    words = f"{components.count(how.sick, 'endpoint', more)} not well"
    if how.held:
        words += f", {components.count(how.held, 'delivery', how.held == MAX_LISTED)} held"
    link = context.link("/endpoints", app=app.id, state="sick")
    return tag("a", components.state("held" if how.stopped else "scheduled", words), href=link)


# ── adding ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def show_new(context: PageContext) -> Page:
    return _new_page(context, Draft(), None)


def _new_page(context: PageContext, draft: Draft, error: HooklineError | None) -> Page:
    back = tag("a", "Back to the applications", href=context.link("/applications"))
    return page(context, "Add an application", "/applications/new", "Add the application", draft, error, back)


async def create(context: PageContext, form: Form) -> Done | Page:
    draft = read_draft(form)
    try:
        made = await applications.create(context.deps, context.caller, draft.new())
    except (InvalidInput, Conflict) as error:
        return _new_page(context, draft, error)
    return Done(to=context.link(f"/applications/{made.id}"), notice="The application is there. Add an endpoint to it.")


VIEWS = (View(path="/applications", show=show), View(path="/applications/new", show=show_new))
ACTIONS = (Action(path="/applications/new", do=create),)
