"""Applications: those that need somebody first, then all of them. And adding one."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from hookline.dashboard import health, parts
from hookline.dashboard.look import Look
from hookline.dashboard.page import Action, Done, Form, Page, View
from hookline.dashboard.pages.application_form import Draft, page, read_draft
from hookline.errors import Conflict, HooklineError, InvalidInput
from hookline.html import Child, Safe, tag
from hookline.model import AppHealth, Application
from hookline.services import applications
from hookline.store.base import MOST_LISTED
from hookline.store.base import Page as Rows
from hookline.store.names import LOOKED

SHOWN = 50  # on one page
MOST_LANES = 200  # endpoints of one application that are looked at, and ...
MOST_TROUBLED = 100  # ... of all applications, to see who needs somebody


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


async def show(look: Look) -> Page:
    text = look.param("q")
    listed = await (_listed(look) if text is None else _called(look, text))
    if not listed.rows and text is None and look.param("after") is None:
        return Page(title="Applications", rail="applications", body=[look.live("applications", _none(look))])
    rows = await _table(look, listed.rows) if listed.rows else _nothing(listed)
    return Page(
        title="Applications",
        rail="applications",
        body=[
            look.live("health", _verdict(look, await _troubles(look))),
            parts.filters(look, parts.field("q", "Part of its name or uid, or its id", text or "", type_="search")),
            look.live("applications", rows, _further(listed), parts.more(look, listed.following, _more_words(listed))),
        ],
        aside=_add(look),
    )


async def _listed(look: Look) -> Listed:
    """One more than is shown is asked for, to know whether there are others."""
    found = await look.store.applications(look.org_id, Rows(limit=SHOWN + 1, iterator=look.param("after")))
    return Listed(found[:SHOWN], found[SHOWN - 1].id if len(found) > SHOWN else None)


async def _called(look: Look, text: str) -> Listed:
    """The one that has this id or uid, and those with a part of it in their name: no index has these, so that one page looks
    through a bounded number of applications."""
    after = look.param("after")
    one = await look.store.application(look.org_id, text) if after is None else None
    if one is not None and one.id == text:
        return Listed([one])
    found = await look.store.applications_called(look.org_id, text, Rows(limit=SHOWN + 1, iterator=after))
    called = found.rows[:SHOWN]
    rows = [*([] if one is None else [one]), *(app for app in called if one is None or app.id != one.id)]
    whole = called[-1].id if len(found.rows) > SHOWN else None
    return Listed(rows, found.end or whole, stopped=found.end is not None)


def _nothing(listed: Listed) -> Safe:
    return parts.empty("None so far." if listed.stopped else "No application has this id, or this in its name or uid.")


def _further(listed: Listed) -> Safe | None:
    """No silent end: it may be among those that were not looked at."""
    words = f"{LOOKED:,} applications were looked through, and there are more."
    return tag("p", words, class_="quiet") if listed.stopped else None


def _more_words(listed: Listed) -> str:
    return "Look through the next" if listed.stopped else "More"


def _add(look: Look) -> Safe | None:
    if not look.may_change:
        return None
    return parts.link_button(look.link("/applications/new"), "Add an application", kind="main")


def _none(look: Look) -> Safe:
    words = "No applications yet. An application is one customer of yours; its endpoints get its messages."
    return parts.empty(words, "hookline listen --register demo --ping", _add(look))


# ── what is wrong ─────────────────────────────────────────────────────────────────────────────────────────────────


async def _troubles(look: Look) -> Troubles:
    found = await look.store.troubled(MOST_TROUBLED, org_id=look.org_id, counted=1)
    sick = {each.view.app_id for each in found if not health.condition(each.view.lane, look.now).well}
    dying = {each.view.app_id for each in found if each.dead}
    return Troubles(len(sick), len(dying), len(found) == MOST_TROUBLED)


def _verdict(look: Look, troubles: Troubles) -> Safe:
    if troubles.sick:
        link = tag("a", "Look at the endpoints", href=look.link("/endpoints", state="sick", app=None))
        return parts.verdict("held", f"{_many(troubles.sick, troubles)} with endpoints that are not well. ", link, ".")
    if troubles.dying:
        link = tag("a", "Look at them", href=look.link("/dead-letters", app=None))
        return parts.verdict("dead", f"{_many(troubles.dying, troubles)} with dead letters. ", link, ".")
    return parts.verdict("delivered", "All applications are well.")


def _many(applications: int, troubles: Troubles) -> str:
    words = parts.count(applications, "application", troubles.more)
    return f"{words[0].upper()}{words[1:]}"


async def _table(look: Look, found: Sequence[Application]) -> Safe:
    how = await look.store.app_health([app.no for app in found], lanes=MOST_LANES, counted=MOST_LISTED)
    return parts.table(
        ("Application", "State", "Dead letters", "Throttle", "Id", "Added"),
        [_row(look, app, how[app.no]) for app in found],
        caption="Applications",
        keys=[app.id for app in found],
        numeric=(2,),
    )


def _row(look: Look, app: Application, how: AppHealth) -> list[Child]:
    dead: Child = "–"
    if how.dead:
        words = f"{how.dead:,}{'+' if how.dead == MOST_LISTED else ''}"
        dead = tag("a", parts.state("dead", words), href=look.link("/dead-letters", app=app.id))
    return [
        tag("a", app.name, href=look.link(f"/applications/{app.id}")),
        _state(look, app, how),
        dead,
        "–" if app.throttle_rate is None else f"{app.throttle_rate:,}/s",
        parts.ident(app.uid or app.id),
        parts.ago(app.created_at, look.now),
    ]


def _state(look: Look, app: Application, how: AppHealth) -> Safe:
    more = how.lanes == MOST_LANES
    if not how.sick and more:
        return tag("a", "look", href=look.link(f"/applications/{app.id}"))
    if not how.sick:
        return parts.state("delivered", "well")
    words = f"{parts.count(how.sick, 'endpoint', more)} not well"
    if how.held:
        words += f", {parts.count(how.held, 'delivery', how.held == MOST_LISTED)} held"
    link = look.link("/endpoints", app=app.id, state="sick")
    return tag("a", parts.state("held" if how.stopped else "scheduled", words), href=link)


# ── adding ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def show_new(look: Look) -> Page:
    return _new_page(look, Draft(), None)


def _new_page(look: Look, draft: Draft, error: HooklineError | None) -> Page:
    back = tag("a", "Back to the applications", href=look.link("/applications"))
    return page(look, "Add an application", "/applications/new", "Add the application", draft, error, back)


async def create(look: Look, form: Form) -> Done | Page:
    draft = read_draft(form)
    try:
        made = await applications.create(look.deps, look.by, draft.new())
    except (InvalidInput, Conflict) as error:
        return _new_page(look, draft, error)
    return Done(to=look.link(f"/applications/{made.id}"), notice="The application is there. Add an endpoint to it.")


VIEWS = (View(path="/applications", show=show), View(path="/applications/new", show=show_new))
ACTIONS = (Action(path="/applications/new", do=create),)
