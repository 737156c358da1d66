"""One application: how its endpoints are, its settings, the link to its portal, and its end."""

from __future__ import annotations

from starlette.responses import RedirectResponse, Response

from hookline.dashboard import charts, parts, series
from hookline.dashboard.look import Look
from hookline.dashboard.page import Action, Done, Form, Page, View
from hookline.dashboard.pages import application_form as drafts
from hookline.dashboard.pages import endpoints
from hookline.dashboard.pages.application_form import Draft
from hookline.dashboard.pages.endpoints import Sight
from hookline.dashboard.series import Series
from hookline.errors import Conflict, HooklineError, InvalidInput
from hookline.html import Child, Safe, tag
from hookline.model import Application, Backlog, DeadFilter, DeadSummary, Scope
from hookline.services import applications
from hookline.store.base import MOST_WAITING
from hookline.store.base import Page as Rows
from hookline.texts import lasting

LIFETIMES = (("3600", "1 hour"), ("86400", "1 day"), ("604800", "7 days"))


def path(app: Application, rest: str = "") -> str:
    return f"/applications/{app.id}{rest}"


async def find(look: Look) -> Application:
    return await look.application(look.path("app_id"))


async def show(look: Look) -> Page:
    app = await find(look)
    sight = await endpoints.read(look, app.no)
    dead = await look.store.dead_summary(DeadFilter(org_id=look.org_id, app_no=app.no))
    since = series.begins(look.span, look.now)
    did = await look.store.activity(since, org_id=look.org_id, app_no=app.no, grain=look.span.grain)
    laid = series.laid_out(did, series.steps(look.span, look.now))
    body: list[Child] = [
        look.live("health", _verdict(look, app, sight, dead), _numbers(look, app, sight.backlog, dead, laid)),
        look.live("activity", _activity(look, laid)) if sight.backlog.lanes else None,
        look.live("endpoints", await _endpoints(look, app, sight)),
        _settings(look, app),
        _portal(look, app),
        _danger(look, app),
    ]
    return Page(title=app.name, rail="applications", body=body)


# ── how it is ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _verdict(look: Look, app: Application, sight: Sight, dead: DeadSummary) -> Safe:
    if not sight.backlog.lanes:
        return parts.verdict("scheduled", "It has no endpoints: its messages go nowhere. Add one below.")
    if not sight.sick and dead.dead:
        link = tag("a", "Look at them", href=look.link("/dead-letters", app=app.id))
        letters = parts.count(dead.dead, "dead letter", dead.more)
        return parts.verdict("dead", f"Its endpoints are well; {letters} can be replayed. ", link, ".")
    return endpoints.verdict(look, sight)


def _numbers(look: Look, app: Application, backlog: Backlog, dead: DeadSummary, did: Series) -> Safe:
    letters = f"{dead.dead:,}{'+' if dead.more else ''}"
    waiting = endpoints.counted(backlog.waiting + backlog.held)
    opened = look.link("/messages", app=app.id, state="open")
    return parts.numbers(
        parts.number(
            "scheduled" if did.failed else "delivered",
            series.percent(did.success),
            f"of attempts delivered, {look.span.words.lower()}",
        ),
        parts.number("delivered", f"{backlog.lanes:,}", "endpoints", href=look.link("/endpoints", app=app.id)),
        parts.number("pending", waiting, "deliveries waiting or held", href=opened),
        parts.number("dead", letters, "dead letters", href=look.link("/dead-letters", app=app.id)),
    )


def _activity(look: Look, did: Series) -> Safe:
    label = f"Attempts {series.rate_words(look.span)}, {look.span.words.lower()}"
    return parts.section("Attempts over time", charts.areas(label, did.curves(), did.times))


async def _endpoints(look: Look, app: Application, sight: Sight) -> Safe:
    add = None
    if look.may_change:
        add = parts.link_button(look.link("/endpoints/new", app=app.id), "Add an endpoint", kind="main")
    if not sight.backlog.lanes:
        command = f"hookline listen --register {app.uid or app.id} --ping"
        empty = parts.empty("No endpoints yet. Make one that prints what arrives:", command)
        return parts.section("Endpoints", empty, aside=add)
    known = {view.endpoint_id for view in sight.sick}
    rest = await look.store.lane_page(look.org_id, app.no, Rows(limit=endpoints.SHOWN - len(known)))
    listed = [*sight.sick, *(view for view in rest if view.endpoint_id not in known)]
    left = sight.backlog.lanes - len(listed)
    more = tag("p", tag("a", f"and {left:,} more", href=look.link("/endpoints", app=app.id))) if left > 0 else None
    return parts.section("Endpoints", await endpoints.table(look, listed, {}, sight), more, aside=add)


def _settings(look: Look, app: Application) -> Safe:
    throttle = (
        "none" if app.throttle_rate is None else f"{app.throttle_rate:,} requests a second, all endpoints together"
    )
    metadata = ", ".join(f"{name}: {value}" for name, value in app.metadata.items())
    rows: list[tuple[str, Child]] = [
        ("Id", parts.ident(app.id)),
        ("Uid", None if app.uid is None else parts.ident(app.uid)),
        ("Throttle", throttle),
        ("Metadata", metadata or None),
        ("Added", parts.clock(app.created_at)),
        ("Changed", parts.clock(app.updated_at)),
    ]
    edit = parts.link_button(look.link(path(app, "/edit")), "Edit") if look.may_change else None
    return parts.section("Settings", parts.fields(rows), aside=edit)


# ── editing ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def show_edit(look: Look) -> Page:
    app = await find(look)
    return _edit_page(look, app, drafts.of(app), None)


def _edit_page(look: Look, app: Application, draft: Draft, error: HooklineError | None) -> Page:
    back = tag("a", "Back to the application", href=look.link(path(app)))
    return drafts.page(look, "Edit the application", path(app, "/edit"), "Save", draft, error, back)


async def edit(look: Look, form: Form) -> Done | Page:
    draft = drafts.read_draft(form)
    try:
        changed = await applications.change(look.deps, look.by, look.path("app_id"), draft.change())
    except (InvalidInput, Conflict) as error:
        return _edit_page(look, await find(look), draft, error)
    return Done(to=look.link(path(changed)), notice="Saved.")


# ── its portal ────────────────────────────────────────────────────────────────────────────────────────────────────


def _portal(look: Look, app: Application) -> Safe | None:
    if not look.may_change:
        return None
    options = (tag("option", words, value=key) for key, words in LIFETIMES)
    form = parts.form(
        look,
        look.link(path(app, "/portal-link")),
        tag("label", "For ", for_="field-lifetime"),
        tag("select", *options, name="lifetime", id="field-lifetime"),
        tag("label", tag("input", type="checkbox", name="read_only", value="1"), " may only look"),
        tag("button", "Make a link to its portal", class_="button"),
        class_="inline",
    )
    end = parts.button(look, look.link(path(app, "/end-portal")), "End all links and sessions", kind="danger")
    words = "Whoever opens the link sees this application and nothing else: its endpoints, messages and dead letters."
    ends = "Ending them takes back every link with its sessions, and every API token of the application, at once. API keys stay."
    return parts.section("Portal", tag("p", words), parts.actions(form, end), tag("p", ends, class_="quiet"))


async def make_link(look: Look, form: Form) -> Page:
    typed = form.text("lifetime")
    lifetime = int(typed) if typed in dict(LIFETIMES) else 0
    scope = Scope.READ if form.flag("read_only") else Scope.FULL
    address = look.services.link_address(look.request)
    made = await applications.portal_link(
        look.deps, look.by, look.path("app_id"), address, lifetime=lifetime, scope=scope
    )
    words = f"Opens the portal of {made.app.name} for {lasting(lifetime)}. It is not shown again."
    return Page(
        title="Link to the portal",
        rail="applications",
        body=[
            parts.verdict("scheduled", words),
            parts.code(made.url, name="link"),
            tag("p", "Send it to the customer, or put it in an iframe of a site in HOOKLINE_PORTAL_ORIGINS."),
            parts.actions(parts.link_button(look.link(path(made.app)), "Back to the application")),
        ],
        every=None,
    )


async def hidden(look: Look) -> Response:
    """Whoever comes back to the address without asking again: the link is not shown."""
    return RedirectResponse(look.link(path(await find(look))), 303)


async def end_portal(look: Look, form: Form) -> Done | Page:
    if not form.flag("sure"):
        return _asked(look, await find(look))
    app = await applications.end_portal(look.deps, look.by, look.path("app_id"))
    notice = "Every link to its portal, and every token of the application, is void."
    return Done(to=look.link(path(app)), notice=notice)


def _asked(look: Look, app: Application) -> Page:
    words = "Every link to its portal, every session that was begun with one, and every API token of the application ends now."
    end = parts.button(look, look.link(path(app, "/end-portal")), "End them all", kind="danger", hidden={"sure": "1"})
    back = parts.link_button(look.link(path(app)), "Go back")
    body: list[Child] = [parts.verdict("dead", words), parts.actions(end, back)]
    return Page(title=f"End all links and sessions of {app.name}?", rail="applications", body=body, every=None)


# ── its end ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _danger(look: Look, app: Application) -> Safe | None:
    if not look.may_change:
        return None
    delete = parts.link_button(look.link(path(app, "/delete")), "Delete…", kind="danger")
    return parts.section("End it", tag("p", delete, " With its endpoints, for good."))


async def show_delete(look: Look) -> Page:
    app = await find(look)
    backlog = await look.store.backlog(look.org_id, app.no)
    dead = await look.store.dead_summary(DeadFilter(org_id=look.org_id, app_no=app.no))
    waiting = backlog.waiting + backlog.held
    body: list[Child] = [
        parts.verdict(
            "dead",
            f"Deleting {app.name} deletes {parts.count(backlog.lanes, 'endpoint')}, turns "
            f"{parts.count(waiting, 'open delivery', waiting >= MOST_WAITING)} into dead letters, and "
            f"{parts.count(dead.dead, 'dead letter', dead.more)} can no longer be replayed.",
        ),
        tag("p", "Its API keys, tokens and portal links end at once."),
        parts.actions(
            parts.button(look, look.link(path(app, "/delete"), app=None), "Delete the application", kind="danger"),
            parts.link_button(look.link(path(app)), "Keep it"),
        ),
    ]
    return Page(title="Delete the application", rail="applications", body=body, every=None)


async def delete(look: Look, _form: Form) -> Done:
    await applications.delete(look.deps, look.by, look.path("app_id"))
    return Done(to=look.link("/applications", app=None), notice="The application is deleted.")


_ONE = "/applications/{app_id}"

VIEWS = (
    View(path=_ONE, show=show),
    View(path=f"{_ONE}/edit", show=show_edit),
    View(path=f"{_ONE}/delete", show=show_delete),
    View(path=f"{_ONE}/portal-link", show=hidden),
)
ACTIONS = (
    Action(path=f"{_ONE}/edit", do=edit),
    Action(path=f"{_ONE}/portal-link", do=make_link),
    Action(path=f"{_ONE}/end-portal", do=end_portal),
    Action(path=f"{_ONE}/delete", do=delete),
)
