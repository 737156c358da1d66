"""Create, edit, archive and restore an event type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from hookline.dashboard import forms, parsers
from hookline.dashboard.forms import Checkbox, Field, filled, values
from hookline.dashboard.page import Done, Form, Page, get, post
from hookline.dashboard.page_context import PageContext
from hookline.errors import Busy, Conflict, HooklineError, InvalidInput
from hookline.model.catalogue import EventType
from hookline.services import event_types
from hookline.services.schemas.validate import newest
from hookline.web.html import tag

NEW = "/new-event-type"  # not below /event-types/, because an event type may be named `new`
FIRST = "1"  # version of the first schema
OVERTAKEN = "somebody else changed the event type after you opened this form: compare the values, then save again"
ARCHIVED = "Archived. Endpoints that subscribe to it keep it; no other endpoint can choose it."


def path(name: str, step: str = "") -> str:
    return f"/event-types/{name}{step}"


def pretty(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _flags(_name: str, typed: str) -> tuple[str, ...]:
    return tuple(flag for part in typed.split(",") if (flag := part.strip()))


def _schema(name: str, typed: str) -> dict[str, Any] | None:
    if not typed:
        return None
    try:
        found = msgspec.json.decode(typed)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise InvalidInput(f"is not JSON: {error}", field=name) from None
    if not isinstance(found, dict):
        raise InvalidInput("must be a JSON object", field=name)
    return found


_NAME = Field(
    "name",
    "Name",
    hint="For example order.paid. Letters, digits, - _ and . are allowed. You cannot change it later.",
    required=True,
    maxlength="256",
    autofocus=True,
)
_ABOUT = (
    Field(
        "description",
        "Description",
        type_="textarea",
        rows="3",
        hint="For receivers: when the event is sent, and what it means.",
    ),
    Field("group_name", "Group", parsers.optional, hint="Groups similar event types, such as orders."),
    Field(
        "feature_flags",
        "Feature flags",
        _flags,
        hint="Separated by commas, for your own use. The portal shows every event type.",
    ),
)
_VERSION = Field(
    "version",
    "Schema version",
    hint="An existing version is replaced, a new one is added. The highest version is used.",
)
_SCHEMA = Field(
    "schema",
    "JSON Schema",
    _schema,
    type_="textarea",
    rows="16",
    hint="Schema of the payload. Empty: this version is removed.",
    spellcheck="false",
    class_="code",
)
_SETTINGS = (
    Checkbox("validated", "Refuse messages whose payload does not match the schema"),
    Checkbox("deprecated", "Deprecated: new endpoints should not choose it"),
)


def _filled(found: EventType) -> Form:
    version = newest(found.schemas) if found.schemas else FIRST
    schema = pretty(found.schemas[version]) if found.schemas else ""
    return Form(filled((*_ABOUT, *_SETTINGS), found) | {"version": [version], "schema": [schema]})


def _applied(form: Form, before: EventType) -> EventType:
    """Return the changed event type. Raise `InvalidInput` for an invalid field."""
    schemas = _schemas(form, before.schemas or {})
    return replace(before, **values((*_ABOUT, *_SETTINGS), form), schemas=schemas or None)


def _schemas(form: Form, before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schemas by version, with the change in the form.

    The schema in the form replaces or adds the schema of the form's version. If it is empty, that version is removed.
    """
    version, schema = _VERSION.value(form), _SCHEMA.value(form)
    if schema is None:
        return {each: kept for each, kept in before.items() if each != version}
    if not version:
        raise InvalidInput("a schema needs a version, such as 1", field="version")
    return {**before, version: schema}


# ── adding ────────────────────────────────────────────────────────────────────────────────────────────────────────


@get(NEW)
async def show_new(context: PageContext) -> Page:
    return _page(context, None, Form({"version": [FIRST]}))


@post(NEW)
async def create(context: PageContext, form: Form) -> Done | Page:
    now = context.services.wall()
    blank = EventType(org_id=context.org_id, name=form.text("name"), created_at=now, updated_at=now)
    try:
        made = await event_types.create(context.deps, context.caller, _applied(form, blank))
    except (InvalidInput, Conflict, Busy) as error:
        return _page(context, None, form, error)
    return Done(to=context.link(path(made.name)), notice=f"{made.name} is added to the catalogue.")


# ── changing ──────────────────────────────────────────────────────────────────────────────────────────────────────


@get("/event-types/{name}/edit")
async def show_edit(context: PageContext) -> Page:
    found = await event_types.find(context.deps, context.caller, context.path("name"))
    return _page(context, found, _filled(found))


@post("/event-types/{name}/edit")
async def edit(context: PageContext, form: Form) -> Done | Page:
    found = await event_types.find(context.deps, context.caller, context.path("name"))

    def decide(current: EventType) -> EventType:
        if form.text("seen") != current.updated_at.isoformat():
            raise Conflict(OVERTAKEN)
        return _applied(form, current)

    try:
        await event_types.change(context.deps, context.caller, found.name, decide)
    except (InvalidInput, Conflict, Busy) as error:
        return _page(context, found, form, error)
    return Done(to=context.link(path(found.name)), notice="Saved.")


@post("/event-types/{name}/archive")
async def archive(context: PageContext, _form: Form) -> Done:
    found = await event_types.archive(context.deps, context.caller, context.path("name"))
    return Done(to=context.link(path(found.name)), notice=ARCHIVED)


@post("/event-types/{name}/restore")
async def restore(context: PageContext, _form: Form) -> Done:
    found = await event_types.restore(context.deps, context.caller, context.path("name"))
    return Done(to=context.link(path(found.name)), notice="The event type is restored.")


# ── the form ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _page(context: PageContext, found: EventType | None, form: Form, error: HooklineError | None = None) -> Page:
    """Return the page that edits this event type, or the page that creates one."""
    errors = _errors(error)
    if found is None:
        title, to, back = "New event type", NEW, ("/event-types", "Back to the event types")
        first = _NAME.draw(form, errors)
    else:
        title, to = f"Edit {found.name}", path(found.name, "/edit")
        back = (path(found.name), "Back to the event type")
        first = tag("input", type="hidden", name="seen", value=found.updated_at.isoformat())
    return forms.page(
        context,
        title,
        to,
        first,
        *(field.draw(form, errors) for field in (*_ABOUT, _VERSION, _SCHEMA, *_SETTINGS)),
        back=back,
        error=error,
        message="" if error is None else f"Nothing was saved: {error}",
        rail="event-types",
    )


def _errors(error: HooklineError | None) -> dict[str, str]:
    """Return the error text by the name of the field that shows it."""
    match error:
        case InvalidInput() if error.field.startswith("schemas"):
            return {"schema": str(error)}
        case InvalidInput():
            return {"schema" if error.field == "validated" else error.field: error.words}
        case Conflict():
            return {"name": str(error)}
        case _:
            return {}
