"""One application: how its endpoints are, its settings, the link to its portal, and its end."""

from __future__ import annotations

from starlette.responses import RedirectResponse, Response

from hookline.dashboard import components
from hookline.dashboard.charts import figures, series
from hookline.dashboard.charts.series import Series
from hookline.dashboard.page import Action, Done, Form, Page, View
from hookline.dashboard.page_context import PageContext
from hookline.dashboard.pages import application_form as drafts
from hookline.dashboard.pages import endpoints
from hookline.dashboard.pages.application_form import Draft
from hookline.dashboard.pages.endpoints import Sight
from hookline.errors import Conflict, HooklineError, InvalidInput
from hookline.model import Application, Backlog, DeadFilter, DeadSummary, Scope
from hookline.rules.checks.text import lasting
from hookline.services import applications
from hookline.store.protocols import MAX_WAITING
from hookline.store.protocols import Page as Rows
from hookline.web.html import Child, Safe, tag

LIFETIMES = (("3600", "1 hour"), ("86400", "1 day"), ("604800", "7 days"))


def path(app: Application, rest: str = "") -> str:
    return f"/applications/{app.id}{rest}"


async def find(context: PageContext) -> Application:
    return await context.application(context.path("app_id"))


async def show(context: PageContext) -> Page:
    app = await find(context)
    sight = await endpoints.read(context, app.no)
    dead = await context.store.dead_summary(DeadFilter(org_id=context.org_id, app_no=app.no))
    since = series.begins(context.span, context.now)
    did = await context.store.activity(since, org_id=context.org_id, app_no=app.no, grain=context.span.grain)
    laid = series.laid_out(did, series.steps(context.span, context.now))
    body: list[Child] = [
        context.live("health", _verdict(context, app, sight, dead), _numbers(context, app, sight.backlog, dead, laid)),
        context.live("activity", _activity(context, laid)) if sight.backlog.lanes else None,
        context.live("endpoints", await _endpoints(context, app, sight)),
        _settings(context, app),
        _portal(context, app),
        _danger(context, app),
    ]
    return Page(title=app.name, rail="applications", body=body)


# ── how it is ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _verdict(context: PageContext, app: Application, sight: Sight, dead: DeadSummary) -> Safe:
    if not sight.backlog.lanes:
        return components.verdict("scheduled", "It has no endpoints: its messages go nowhere. Add one below.")
    if not sight.sick and dead.dead:
        link = tag("a", "Look at them", href=context.link("/dead-letters", app=app.id))
        letters = components.count(dead.dead, "dead letter", dead.more)
        return components.verdict("dead", f"Its endpoints are well; {letters} can be replayed. ", link, ".")
    return endpoints.verdict(context, sight)


def _numbers(context: PageContext, app: Application, backlog: Backlog, dead: DeadSummary, did: Series) -> Safe:
    letters = f"{dead.dead:,}{'+' if dead.more else ''}"
    waiting = endpoints.counted(backlog.waiting + backlog.held)
    opened = context.link("/messages", app=app.id, state="open")
    return components.numbers(
        components.number(
            "scheduled" if did.failed else "delivered",
            series.percent(did.success),
            f"of attempts delivered, {context.span.words.lower()}",
        ),
        components.number("delivered", f"{backlog.lanes:,}", "endpoints", href=context.link("/endpoints", app=app.id)),
        components.number("pending", waiting, "deliveries waiting or held", href=opened),
        components.number("dead", letters, "dead letters", href=context.link("/dead-letters", app=app.id)),
    )


def _activity(context: PageContext, did: Series) -> Safe:
    label = f"Attempts {series.rate_words(context.span)}, {context.span.words.lower()}"
    return components.section("Attempts over time", figures.areas(label, did.curves(), did.times))


async def _endpoints(context: PageContext, app: Application, sight: Sight) -> Safe:
    add = None
    if context.may_change:
        add = components.link_button(context.link("/endpoints/new", app=app.id), "Add an endpoint", kind="main")
    if not sight.backlog.lanes:
        command = f"hookline listen --register {app.uid or app.id} --ping"
        empty = components.empty("No endpoints yet. Make one that prints what arrives:", command)
        return components.section("Endpoints", empty, aside=add)
    known = {view.endpoint_id for view in sight.sick}
    rest = await context.store.lane_page(context.org_id, app.no, Rows(limit=endpoints.SHOWN - len(known)))
    listed = [*sight.sick, *(view for view in rest if view.endpoint_id not in known)]
    left = sight.backlog.lanes - len(listed)
    more = tag("p", tag("a", f"and {left:,} more", href=context.link("/endpoints", app=app.id))) if left > 0 else None
    return components.section("Endpoints", await endpoints.table(context, listed, {}, sight), more, aside=add)


def _settings(context: PageContext, app: Application) -> Safe:
    throttle = (
        "none" if app.throttle_rate is None else f"{app.throttle_rate:,} requests a second, all endpoints together"
    )
    metadata = ", ".join(f"{name}: {value}" for name, value in app.metadata.items())
    rows: list[tuple[str, Child]] = [
        ("Id", components.ident(app.id)),
        ("Uid", None if app.uid is None else components.ident(app.uid)),
        ("Throttle", throttle),
        ("Metadata", metadata or None),
        ("Added", components.clock(app.created_at)),
        ("Changed", components.clock(app.updated_at)),
    ]
    edit = components.link_button(context.link(path(app, "/edit")), "Edit") if context.may_change else None
    return components.section("Settings", components.fields(rows), aside=edit)


# ── editing ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def show_edit(context: PageContext) -> Page:
    app = await find(context)
    return _edit_page(context, app, drafts.of(app), None)


def _edit_page(context: PageContext, app: Application, draft: Draft, error: HooklineError | None) -> Page:
    back = tag("a", "Back to the application", href=context.link(path(app)))
    return drafts.page(context, "Edit the application", path(app, "/edit"), "Save", draft, error, back)


async def edit(context: PageContext, form: Form) -> Done | Page:
    draft = drafts.read_draft(form)
    try:
        changed = await applications.change(context.deps, context.caller, context.path("app_id"), draft.change())
    except (InvalidInput, Conflict) as error:
        return _edit_page(context, await find(context), draft, error)
    return Done(to=context.link(path(changed)), notice="Saved.")


# ── its portal ────────────────────────────────────────────────────────────────────────────────────────────────────


def _portal(context: PageContext, app: Application) -> Safe | None:
    if not context.may_change:
        return None
    options = (tag("option", words, value=key) for key, words in LIFETIMES)
    form = components.form(
        context,
        context.link(path(app, "/portal-link")),
        tag("label", "For ", for_="field-lifetime"),
        tag("select", *options, name="lifetime", id="field-lifetime"),
        tag("label", tag("input", type="checkbox", name="read_only", value="1"), " may only look"),
        tag("button", "Make a link to its portal", class_="button"),
        class_="inline",
    )
    end = components.button(
        context, context.link(path(app, "/end-portal")), "End all links and sessions", kind="danger"
    )
    words = "Whoever opens the link sees this application and nothing else: its endpoints, messages and dead letters."
    ends = "Ending them takes back every link with its sessions, and every API token of the application, at once. API keys stay."
    return components.section("Portal", tag("p", words), components.actions(form, end), tag("p", ends, class_="quiet"))


async def make_link(context: PageContext, form: Form) -> Page:
    typed = form.text("lifetime")
    lifetime = int(typed) if typed in dict(LIFETIMES) else 0
    scope = Scope.READ if form.flag("read_only") else Scope.FULL
    address = context.services.link_address(context.request)
    made = await applications.portal_link(
        context.deps, context.caller, context.path("app_id"), address, lifetime=lifetime, scope=scope
    )
    words = f"Opens the portal of {made.app.name} for {lasting(lifetime)}. It is not shown again."
    return Page(
        title="Link to the portal",
        rail="applications",
        body=[
            components.verdict("scheduled", words),
            components.code(made.url, name="link"),
            tag("p", "Send it to the customer, or put it in an iframe of a site in HOOKLINE_PORTAL_ORIGINS."),
            components.actions(components.link_button(context.link(path(made.app)), "Back to the application")),
        ],
        refresh_seconds=None,
    )


async def hidden(context: PageContext) -> Response:
    """Whoever comes back to the address without asking again: the link is not shown."""
    return RedirectResponse(context.link(path(await find(context))), 303)


async def end_portal(context: PageContext, form: Form) -> Done | Page:
    if not form.flag("sure"):
        return _asked(context, await find(context))
    app = await applications.end_portal(context.deps, context.caller, context.path("app_id"))
    notice = "Every link to its portal, and every token of the application, is void."
    return Done(to=context.link(path(app)), notice=notice)


def _asked(context: PageContext, app: Application) -> Page:
    words = "Every link to its portal, every session that was begun with one, and every API token of the application ends now."
    end = components.button(
        context, context.link(path(app, "/end-portal")), "End them all", kind="danger", hidden={"sure": "1"}
    )
    back = components.link_button(context.link(path(app)), "Go back")
    body: list[Child] = [components.verdict("dead", words), components.actions(end, back)]
    return Page(
        title=f"End all links and sessions of {app.name}?", rail="applications", body=body, refresh_seconds=None
    )


# ── its end ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _danger(context: PageContext, app: Application) -> Safe | None:
    if not context.may_change:
        return None
    delete = components.link_button(context.link(path(app, "/delete")), "Delete…", kind="danger")
    return components.section("End it", tag("p", delete, " With its endpoints, for good."))


async def show_delete(context: PageContext) -> Page:
    app = await find(context)
    backlog = await context.store.backlog(context.org_id, app.no)
    dead = await context.store.dead_summary(DeadFilter(org_id=context.org_id, app_no=app.no))
    waiting = backlog.waiting + backlog.held
    body: list[Child] = [
        components.verdict(
            "dead",
            f"Deleting {app.name} deletes {components.count(backlog.lanes, 'endpoint')}, turns "
            f"{components.count(waiting, 'open delivery', waiting >= MAX_WAITING)} into dead letters, and "
            f"{components.count(dead.dead, 'dead letter', dead.more)} can no longer be replayed.",
        ),
        tag("p", "Its API keys, tokens and portal links end at once."),
        components.actions(
            components.button(
                context, context.link(path(app, "/delete"), app=None), "Delete the application", kind="danger"
            ),
            components.link_button(context.link(path(app)), "Keep it"),
        ),
    ]
    return Page(title="Delete the application", rail="applications", body=body, refresh_seconds=None)


async def delete(context: PageContext, _form: Form) -> Done:
    await applications.delete(context.deps, context.caller, context.path("app_id"))
    return Done(to=context.link("/applications", app=None), notice="The application is deleted.")


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
