"""The page of one application: health of its endpoints, settings, portal links, and deletion.

This module also has the form that creates or edits an application.
"""

from __future__ import annotations

from starlette.responses import RedirectResponse, Response

from hookline.dashboard import components, forms, parsers
from hookline.dashboard.charts import series
from hookline.dashboard.charts.series import Series
from hookline.dashboard.forms import Field, filled, values
from hookline.dashboard.page import Done, Form, Page, get, post
from hookline.dashboard.page_context import PageContext
from hookline.dashboard.pages import endpoints
from hookline.dashboard.pages.endpoints import EndpointsHealth
from hookline.errors import Conflict, HooklineError, InvalidInput
from hookline.model.actors import Scope
from hookline.model.catalogue import Application, ApplicationChange, NewApplication
from hookline.model.dead import DeadFilter, DeadSummary
from hookline.model.depths import Backlog
from hookline.rules.checks.text import lasting
from hookline.services import applications
from hookline.store import MAX_WAITING
from hookline.store import Page as Rows
from hookline.web.html import Child, Safe, tag

LIFETIMES = (("3600", "1 hour"), ("86400", "1 day"), ("604800", "7 days"))


_FIELDS = (
    Field("name", "Name", required=True, maxlength="1024"),
    Field("uid", "Uid", parsers.optional, hint="Your own id for this customer, for use in the API."),
    Field(
        "throttle_rate", "Maximum requests per second, for all endpoints together", parsers.whole, inputmode="numeric"
    ),
    Field("metadata", "Metadata (JSON)", parsers.metadata, type_="textarea", rows="2"),
)


def path(app: Application, rest: str = "") -> str:
    return f"/applications/{app.id}{rest}"


async def find(context: PageContext) -> Application:
    return await context.application(context.path("app_id"))


@get("/applications/{app_id}")
async def show(context: PageContext) -> Page:
    app = await find(context)
    health = await endpoints.read(context, app.no)
    dead = await context.store.repair.dead_summary(DeadFilter(org_id=context.org_id, app_no=app.no))
    did = await series.read(context, app.no)
    numbers = _numbers(context, app, health.backlog, dead, did)
    body: list[Child] = [
        context.live("health", _verdict(context, app, health, dead), numbers),
        context.live("activity", endpoints.activity(context, did)) if health.backlog.lanes else None,
        context.live("endpoints", await _endpoints(context, app, health)),
        _settings(context, app),
        _portal(context, app),
        _danger(context, app),
    ]
    return Page(title=app.name, body=body)


# ── health ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _verdict(context: PageContext, app: Application, health: EndpointsHealth, dead: DeadSummary) -> Safe:
    if not health.backlog.lanes:
        words = "The application has no endpoints, so its messages are not delivered. Add an endpoint below."
        return components.verdict("scheduled", words)
    if not health.unhealthy and dead.dead:
        link = tag("a", "Show the dead letters", href=context.link("/dead-letters", app=app.id))
        letters = components.count(dead.dead, "dead letter", dead.more)
        return components.verdict("dead", f"All endpoints are healthy; {letters} can be replayed. ", link, ".")
    return endpoints.verdict(context, health)


def _numbers(context: PageContext, app: Application, backlog: Backlog, dead: DeadSummary, did: Series) -> Safe:
    letters = components.at_least(dead.dead, dead.more)
    waiting = endpoints.counted(backlog.waiting + backlog.held)
    opened = context.link("/messages", app=app.id, state="open")
    return components.numbers(
        endpoints.success(context, did),
        components.number("delivered", f"{backlog.lanes:,}", "endpoints", href=context.link("/endpoints", app=app.id)),
        components.number("pending", waiting, "deliveries waiting or held", href=opened),
        components.number("dead", letters, "dead letters", href=context.link("/dead-letters", app=app.id)),
    )


async def _endpoints(context: PageContext, app: Application, health: EndpointsHealth) -> Safe:
    add = None
    if context.may_change:
        add = components.link_button(context.link("/endpoints/new", app=app.id), "Add an endpoint", kind="main")
    if not health.backlog.lanes:
        command = f"hookline listen --register {app.uid or app.id} --ping"
        empty = components.empty("No endpoints yet. Create one that prints each message it receives:", command)
        return components.section("Endpoints", empty, aside=add)
    known = {view.endpoint_id for view in health.unhealthy}
    rest = await context.store.history.lane_page(context.org_id, app.no, Rows(limit=endpoints.SHOWN - len(known)))
    listed = [*health.unhealthy, *(view for view in rest if view.endpoint_id not in known)]
    left = health.backlog.lanes - len(listed)
    more = tag("p", tag("a", f"and {left:,} more", href=context.link("/endpoints", app=app.id))) if left > 0 else None
    return components.section("Endpoints", await endpoints.table(context, listed, {}, health), more, aside=add)


def _settings(context: PageContext, app: Application) -> Safe:
    throttle = "none"
    if app.throttle_rate is not None:
        throttle = f"{app.throttle_rate:,} requests per second for all endpoints together"
    metadata = ", ".join(f"{name}: {value}" for name, value in app.metadata.items())
    rows: list[tuple[str, Child]] = [
        ("Id", components.ident(app.id)),
        ("Uid", None if app.uid is None else components.ident(app.uid)),
        ("Throttle", throttle),
        ("Metadata", metadata or None),
        ("Created", components.clock(app.created_at)),
        ("Changed", components.clock(app.updated_at)),
    ]
    edit = components.link_button(context.link(path(app, "/edit")), "Edit") if context.may_change else None
    return components.section("Settings", components.fields(rows), aside=edit)


# ── adding and editing ────────────────────────────────────────────────────────────────────────────────────────────


@get("/applications/new")
async def show_new(context: PageContext) -> Page:
    return _page(context, None, Form({}))


@post("/applications/new")
async def create(context: PageContext, form: Form) -> Done | Page:
    try:
        made = await applications.create(context.deps, context.caller, NewApplication(**values(_FIELDS, form)))
    except (InvalidInput, Conflict) as error:
        return _page(context, None, form, error)
    return Done(to=context.link(path(made)), notice="The application is created. Now add an endpoint to it.")


@get("/applications/{app_id}/edit")
async def show_edit(context: PageContext) -> Page:
    app = await find(context)
    return _page(context, app, Form(filled(_FIELDS, app)))


@post("/applications/{app_id}/edit")
async def edit(context: PageContext, form: Form) -> Done | Page:
    app = await find(context)
    try:
        await applications.change(context.deps, context.caller, app.id, ApplicationChange(**values(_FIELDS, form)))
    except (InvalidInput, Conflict) as error:
        return _page(context, app, form, error)
    return Done(to=context.link(path(app)), notice="Saved.")


def _page(context: PageContext, app: Application | None, form: Form, error: HooklineError | None = None) -> Page:
    """Return the page that edits this application, or the page that creates one."""
    errors = forms.field_errors(_FIELDS, error)
    at = None if app is None else path(app)
    fields = (field.draw(form, errors) for field in _FIELDS)
    return forms.edit_page(context, "application", at, *fields, errors=errors, error=error)


# ── portal ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _portal(context: PageContext, app: Application) -> Safe | None:
    if not context.may_change:
        return None
    form = components.form(
        context,
        context.link(path(app, "/portal-link")),
        tag("label", "For ", for_="field-lifetime"),
        components.select("lifetime", LIFETIMES),
        tag("label", tag("input", type="checkbox", name="read_only", value="1"), " read-only"),
        tag("button", "Create a portal link", class_="button"),
        class_="inline",
    )
    revoke = context.link(path(app, "/end-portal"))
    end = components.button(context, revoke, "Revoke all links and sessions", kind="danger")
    words = "A person who opens the link sees only this application: its endpoints, messages and dead letters."
    ends = (
        "Revoking ends every link, its sessions, and every API token of the application at once. API keys stay valid."
    )
    return components.section("Portal", tag("p", words), components.actions(form, end), tag("p", ends, class_="quiet"))


@post("/applications/{app_id}/portal-link")
async def create_link(context: PageContext, form: Form) -> Page:
    typed = form.text("lifetime")
    lifetime = int(typed) if typed in dict(LIFETIMES) else 0
    scope = Scope.READ if form.flag("read_only") else Scope.FULL
    address = context.services.link_address(context.request)
    deps, caller, ref = context.deps, context.caller, context.path("app_id")
    made = await applications.portal_link(deps, caller, ref, address, lifetime=lifetime, scope=scope)
    words = f"The link opens the portal of {made.app.name} for {lasting(lifetime)}. It is not shown again."
    return Page(
        title="Portal link",
        body=[
            components.verdict("scheduled", words),
            components.code(made.url, name="link"),
            tag("p", "Send it to the customer, or use it in an iframe on a site listed in HOOKLINE_PORTAL_ORIGINS."),
            components.actions(components.link_button(context.link(path(made.app)), "Back to the application")),
        ],
    )


@get("/applications/{app_id}/portal-link")
async def redirect_to_application(context: PageContext) -> Response:
    """Redirect to the application: a GET of this address, such as a reload, must not show the portal link again."""
    return RedirectResponse(context.link(path(await find(context))), 303)


@post("/applications/{app_id}/end-portal")
async def revoke_portal(context: PageContext, form: Form) -> Done | Page:
    if not form.flag("sure"):
        return _confirm_revoke(context, await find(context))
    app = await applications.end_portal(context.deps, context.caller, context.path("app_id"))
    notice = "All portal links and API tokens of the application are revoked."
    return Done(to=context.link(path(app)), notice=notice)


def _confirm_revoke(context: PageContext, app: Application) -> Page:
    return forms.confirmation(
        context,
        f"Revoke all links and sessions of {app.name}?",
        "This revokes all portal links, all sessions opened with them, and all API tokens of the application.",
        to=context.link(path(app, "/end-portal")),
        press="Revoke all",
        cancel=context.link(path(app)),
        hidden={"sure": "1"},
    )


# ── deleting ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _danger(context: PageContext, app: Application) -> Safe | None:
    if not context.may_change:
        return None
    delete = components.link_button(context.link(path(app, "/delete")), "Delete…", kind="danger")
    words = " Deletes the application and its endpoints. You cannot undo this."
    return components.section("Delete", tag("p", delete, words))


@get("/applications/{app_id}/delete")
async def show_delete(context: PageContext) -> Page:
    app = await find(context)
    backlog = await context.store.history.backlog(context.org_id, app.no)
    dead = await context.store.repair.dead_summary(DeadFilter(org_id=context.org_id, app_no=app.no))
    waiting = backlog.waiting + backlog.held
    return forms.confirmation(
        context,
        "Delete the application",
        f"Deleting {app.name} deletes {components.count(backlog.lanes, 'endpoint')}, turns "
        f"{components.count(waiting, 'open delivery', waiting >= MAX_WAITING)} into dead letters, and "
        f"{components.count(dead.dead, 'dead letter', dead.more)} can no longer be replayed.",
        tag("p", "Its API keys, tokens and portal links become invalid at once."),
        to=context.link(path(app, "/delete"), app=None),
        press="Delete the application",
        cancel=context.link(path(app)),
    )


@post("/applications/{app_id}/delete")
async def delete(context: PageContext, _form: Form) -> Done:
    await applications.delete(context.deps, context.caller, context.path("app_id"))
    return Done(to=context.link("/applications", app=None), notice="The application is deleted.")
