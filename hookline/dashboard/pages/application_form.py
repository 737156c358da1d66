"""The form that creates or edits an application."""

from __future__ import annotations

from hookline.dashboard import forms, parsers
from hookline.dashboard.forms import Field, filled, values
from hookline.dashboard.page import Done, Form, Page, get, post
from hookline.dashboard.page_context import PageContext
from hookline.errors import Conflict, HooklineError, InvalidInput
from hookline.model.catalogue import Application, ApplicationChange, NewApplication
from hookline.services import applications

FIELDS = (
    Field("name", "Name", required=True, maxlength="1024"),
    Field("uid", "Uid", parsers.optional, hint="Your own id for this customer, for use in the API."),
    Field(
        "throttle_rate", "Maximum requests per second, for all endpoints together", parsers.whole, inputmode="numeric"
    ),
    Field("metadata", "Metadata (JSON)", parsers.metadata, type_="textarea", rows="2"),
)


@get("/applications/new")
async def show_new(context: PageContext) -> Page:
    return _page(context, None, Form({}))


@post("/applications/new")
async def create(context: PageContext, form: Form) -> Done | Page:
    try:
        made = await applications.create(context.deps, context.caller, NewApplication(**values(FIELDS, form)))
    except (InvalidInput, Conflict) as error:
        return _page(context, None, form, error)
    notice = "The application is created. Now add an endpoint to it."
    return Done(to=context.link(f"/applications/{made.id}"), notice=notice)


@get("/applications/{app_id}/edit")
async def show_edit(context: PageContext) -> Page:
    app = await context.application(context.path("app_id"))
    return _page(context, app, Form(filled(FIELDS, app)))


@post("/applications/{app_id}/edit")
async def edit(context: PageContext, form: Form) -> Done | Page:
    app = await context.application(context.path("app_id"))
    try:
        await applications.change(context.deps, context.caller, app.id, ApplicationChange(**values(FIELDS, form)))
    except (InvalidInput, Conflict) as error:
        return _page(context, app, form, error)
    return Done(to=context.link(f"/applications/{app.id}"), notice="Saved.")


def _page(context: PageContext, app: Application | None, form: Form, error: HooklineError | None = None) -> Page:
    """Return the page that edits this application, or the page that creates one."""
    errors = forms.field_errors(FIELDS, error)
    if app is None:
        title, to, press = "Add an application", "/applications/new", "Add the application"
        back = ("/applications", "Back to the applications")
    else:
        title, to, press = "Edit the application", f"/applications/{app.id}/edit", "Save"
        back = (f"/applications/{app.id}", "Back to the application")
    return forms.page(
        context,
        title,
        to,
        *(field.draw(form, errors) for field in FIELDS),
        back=back,
        press=press,
        error=error,
        message="" if errors or error is None else str(error),
    )
