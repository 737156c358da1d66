"""Applications: those that need somebody first, then all of them. And adding one."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from hookline import manage
from hookline.dashboard import health, parts
from hookline.dashboard.look import Look
from hookline.dashboard.page import Action, Done, Form, Page, View
from hookline.dashboard.pages.application_form import Draft, fields, read_draft
from hookline.errors import Conflict, InvalidInput
from hookline.html import Child, Safe, tag
from hookline.model import Application
from hookline.store.base import Page as Rows

SHOWN = 50  # on one page
MOST_TROUBLED = 100  # endpoints that are looked at for those that need somebody


class Trouble(Struct, kw_only=True):
    """What is wrong in one application."""

    sick: int = 0
    stopped: bool = False  # to one of them nothing is sent
    held: int = 0  # deliveries
    more: bool = False  # than were counted
    dead: int = 0


class Troubles(Struct, frozen=True):
    """By the application's id."""

    found: dict[str, Trouble]
    more: bool  # than were looked at: who is not among them need not be well


async def show(look: Look) -> Page:
    ref = look.param("q")
    found = await _listed(look, ref)
    if not found and ref is None and look.param("after") is None:
        return Page(title="Applications", rail="applications", body=[look.live("applications", _none(look))])
    following = found[SHOWN - 1].id if len(found) > SHOWN else None
    troubles = await _troubles(look)
    rows = _table(look, found[:SHOWN], troubles) if found else parts.empty("No application has this id or uid.")
    return Page(
        title="Applications",
        rail="applications",
        body=[
            look.live("health", _verdict(look, troubles)),
            parts.filters(look, parts.field("q", "Id or uid", ref or "", type_="search")),
            look.live("applications", rows, parts.more(look, following, "More")),
        ],
        aside=_add(look),
    )


async def _listed(look: Look, ref: str | None) -> list[Application]:
    """One more than is shown, to know whether there are others."""
    if ref is not None:
        one = await look.store.application(look.org_id, ref)
        return [] if one is None else [one]
    return await look.store.applications(look.org_id, Rows(limit=SHOWN + 1, iterator=look.param("after")))


def _add(look: Look) -> Safe | None:
    if not look.may_change:
        return None
    return parts.link_button(look.link("/applications/new"), "Add an application", kind="main")


def _none(look: Look) -> Safe:
    words = "No applications yet. An application is one customer of yours; its endpoints get its messages."
    return parts.empty(words, "hookline listen --register demo --ping", _add(look))


# ── what is wrong ─────────────────────────────────────────────────────────────────────────────────────────────────


async def _troubles(look: Look) -> Troubles:
    """One question, however many applications there are."""
    found: dict[str, Trouble] = {}
    troubled = await look.store.troubled(MOST_TROUBLED, org_id=look.org_id)
    for each in troubled:
        one = found.setdefault(each.view.app_id, Trouble())
        how = health.condition(each.view.lane, look.now)
        one.sick += not how.well
        one.dead += each.dead
        if how.held:
            one.stopped = True
            one.held += each.view.depth
            one.more = one.more or health.is_more(each.view)
    return Troubles(found, len(troubled) == MOST_TROUBLED)


def _verdict(look: Look, troubles: Troubles) -> Safe:
    sick = sum(bool(one.sick) for one in troubles.found.values())
    dead = sum(bool(one.dead) for one in troubles.found.values())
    if sick:
        link = tag("a", "Look at the endpoints", href=look.link("/endpoints", state="sick", app=None))
        return parts.verdict("held", f"{_many(sick, troubles)} with endpoints that are not well. ", link, ".")
    if dead:
        link = tag("a", "Look at them", href=look.link("/dead-letters", app=None))
        return parts.verdict("dead", f"{_many(dead, troubles)} with dead letters. ", link, ".")
    return parts.verdict("delivered", "All applications are well.")


def _many(applications: int, troubles: Troubles) -> str:
    words = parts.count(applications, "application", troubles.more)
    return f"{words[0].upper()}{words[1:]}"


def _table(look: Look, found: Sequence[Application], troubles: Troubles) -> Safe:
    return parts.table(
        ("Application", "State", "Dead letters", "Throttle", "Id", "Added"),
        [_row(look, app, troubles) for app in found],
        caption="Applications",
        keys=[app.id for app in found],
        numeric=(2,),
    )


def _row(look: Look, app: Application, troubles: Troubles) -> list[Child]:
    trouble = troubles.found.get(app.id, Trouble())
    dead: Child = "–"
    if trouble.dead:
        dead = tag("a", parts.state("dead", f"{trouble.dead:,}"), href=look.link("/dead-letters", app=app.id))
    return [
        tag("a", app.name, href=look.link(f"/applications/{app.id}")),
        _state(look, app, trouble, troubles.more),
        dead,
        "–" if app.throttle_rate is None else f"{app.throttle_rate:,}/s",
        parts.ident(app.uid or app.id),
        parts.ago(app.created_at, look.now),
    ]


def _state(look: Look, app: Application, trouble: Trouble, more: bool) -> Safe:
    """`more`: there are more troubles than were looked at, and some may be this application's."""
    if not trouble.sick and more:
        return tag("a", "look", href=look.link(f"/applications/{app.id}"))
    if not trouble.sick:
        return parts.state("delivered", "well")
    words = f"{parts.count(trouble.sick, 'endpoint', more)} not well"
    if trouble.held:
        words += f", {parts.count(trouble.held, 'delivery', trouble.more)} held"
    link = look.link("/endpoints", app=app.id, state="sick")
    return tag("a", parts.state("held" if trouble.stopped else "scheduled", words), href=link)


# ── adding ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def show_new(look: Look) -> Page:
    return _new_page(look, Draft(), None)


def _new_page(look: Look, draft: Draft, error: str | None) -> Page:
    form = parts.form(
        look,
        look.link("/applications/new"),
        *fields(draft, error),
        parts.actions(tag("button", "Add the application", class_="button main")),
        class_="fill",
    )
    return Page(title="Add an application", rail="applications", body=[form], every=None, status=422 if error else 200)


async def create(look: Look, form: Form) -> Done | Page:
    draft = read_draft(form)
    try:
        await manage.open_organization(look.store, look.org_id, await look.store.now())
        made = await manage.add_application(look.store, look.org_id, draft.new())
    except (InvalidInput, Conflict) as error:
        return _new_page(look, draft, str(error))
    return Done(
        to=look.link(f"/applications/{made.id}"),
        notice="The application is there. Add an endpoint to it.",
        subject=made.id,
        detail=made.name[:200],
        app_id=made.id,
    )


VIEWS = (View(path="/applications", show=show), View(path="/applications/new", show=show_new))
ACTIONS = (Action(path="/applications/new", do=create, name="application.create"),)
