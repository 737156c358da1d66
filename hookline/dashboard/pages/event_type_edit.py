"""Create, edit, archive and restore an event type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from hookline.dashboard import components
from hookline.dashboard.draft_fields import DraftFields
from hookline.dashboard.page import Done, Form, Page, get, post
from hookline.dashboard.page_context import PageContext
from hookline.errors import Busy, Conflict, HooklineError, InvalidInput
from hookline.model import EventType
from hookline.services import event_types
from hookline.services.errors import http_status
from hookline.services.schemas.validate import newest
from hookline.web.html import Child, Safe, tag

NEW = "/new-event-type"  # not below /event-types/, because an event type may be named `new`
FIRST = "1"  # version of the first schema
_FIELDS = {
    "name": "name",
    "description": "description",
    "group_name": "group",
    "feature_flags": "flags",
    "version": "version",
    "schema": "schema",
    "validated": "schema",
}  # form field by the field name in an error


def path(name: str, step: str = "") -> str:
    return f"/event-types/{name}{step}"


def pretty(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


class Draft(Struct, frozen=True, kw_only=True):
    """The values of the form as typed."""

    name: str = ""
    description: str = ""
    group: str = ""
    flags: str = ""
    version: str = FIRST
    schema: str = ""
    deprecated: bool = False
    validated: bool = False
    seen: str = ""  # time of the last change when the form was opened; detects concurrent edits

    @classmethod
    def of(cls, found: EventType) -> Draft:
        version = newest(found.schemas) if found.schemas else FIRST
        return cls(
            name=found.name,
            description=found.description,
            group=found.group_name or "",
            flags=", ".join(found.feature_flags),
            version=version,
            schema=pretty(found.schemas[version]) if found.schemas else "",
            deprecated=found.deprecated,
            validated=found.validated,
            seen=found.updated_at.isoformat(),
        )

    @classmethod
    def from_form(cls, form: Form, name: str) -> Draft:
        return cls(
            name=name,
            description=form.whole("description").replace("\r\n", "\n").strip(),
            group=form.text("group"),
            flags=form.text("flags"),
            version=form.text("version"),
            schema=form.whole("schema").replace("\r\n", "\n").strip(),
            deprecated=form.flag("deprecated"),
            validated=form.flag("validated"),
            seen=form.text("seen"),
        )

    def applied(self, before: EventType) -> EventType:
        """Return the changed event type. `InvalidInput` names the field that is invalid."""
        schemas = self._schemas(before.schemas or {})
        return replace(
            before,
            description=self.description,
            group_name=self.group or None,
            feature_flags=tuple(flag for part in self.flags.split(",") if (flag := part.strip())),
            schemas=schemas or None,
            deprecated=self.deprecated,
            validated=self.validated,
        )

    def _schemas(self, before: Mapping[str, Any]) -> dict[str, Any]:
        """Replace or add the schema of this version, or remove it if the text is empty. Other versions stay."""
        if not self.schema:
            return {version: schema for version, schema in before.items() if version != self.version}
        if not self.version:
            raise InvalidInput("a schema needs a version, such as 1", field="version")
        return {**before, self.version: _read(self.schema)}


def _read(text: str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise InvalidInput(f"is not JSON: {error}", field="schema") from None
    if not isinstance(found, dict):
        raise InvalidInput("must be a JSON object", field="schema")
    return found


# ── adding ────────────────────────────────────────────────────────────────────────────────────────────────────────


@get(NEW)
async def show_new(context: PageContext) -> Page:
    return _page(context, "New event type", NEW, Draft())


@post(NEW)
async def create(context: PageContext, form: Form) -> Done | Page:
    draft = Draft.from_form(form, form.text("name"))
    try:
        now = context.services.wall()
        blank = EventType(org_id=context.org_id, name=draft.name, created_at=now, updated_at=now)
        made = await event_types.create(context.deps, context.caller, draft.applied(blank))
    except (InvalidInput, Conflict, Busy) as error:
        return _page(context, "New event type", NEW, draft, error)
    return Done(to=context.link(path(made.name)), notice=f"{made.name} is added to the catalogue.")


# ── changing ──────────────────────────────────────────────────────────────────────────────────────────────────────


@get("/event-types/{name}/edit")
async def show_edit(context: PageContext) -> Page:
    found = await event_types.find(context.deps, context.caller, context.path("name"))
    return _page(context, f"Edit {found.name}", path(found.name, "/edit"), Draft.of(found))


@post("/event-types/{name}/edit")
async def edit(context: PageContext, form: Form) -> Done | Page:
    found = await event_types.find(context.deps, context.caller, context.path("name"))
    draft = Draft.from_form(form, found.name)

    def decide(seen: EventType) -> EventType:
        if draft.seen != seen.updated_at.isoformat():
            raise Conflict(
                "somebody else changed the event type after you opened this form: compare the values, then save again"
            )
        return draft.applied(seen)

    try:
        await event_types.change(context.deps, context.caller, found.name, decide)
    except (InvalidInput, Conflict, Busy) as error:
        shown = replace(draft, seen=found.updated_at.isoformat())
        return _page(context, f"Edit {found.name}", path(found.name, "/edit"), shown, error)
    return Done(to=context.link(path(found.name)), notice="Saved.")


@post("/event-types/{name}/archive")
async def archive(context: PageContext, _form: Form) -> Done:
    found = await event_types.archive(context.deps, context.caller, context.path("name"))
    notice = "Archived. Endpoints that subscribe to it keep it; no other endpoint can choose it."
    return Done(to=context.link(path(found.name)), notice=notice)


@post("/event-types/{name}/restore")
async def restore(context: PageContext, _form: Form) -> Done:
    found = await event_types.restore(context.deps, context.caller, context.path("name"))
    return Done(to=context.link(path(found.name)), notice="The event type is restored.")


# ── the form ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _page(context: PageContext, title: str, to: str, draft: Draft, error: HooklineError | None = None) -> Page:
    errors = {} if error is None else dict([_field_error(error)])
    message = None if error is None else components.verdict("dead", f"Nothing was saved: {error}")
    body: list[Child] = [message, _form(context, to, draft, errors)]
    return Page(title=title, rail="event-types", body=body, aside=_back(context, to), status=http_status(error))


def _back(context: PageContext, to: str) -> Safe:
    if to == NEW:
        return tag("a", "Back to the event types", href=context.link("/event-types"))
    return tag("a", "Back to the event type", href=context.link(to.removesuffix("/edit")))


def _field_error(error: HooklineError) -> tuple[str, str]:
    """Return the form field that the error is about, and its text."""
    if isinstance(error, InvalidInput):
        about_schemas = error.field.startswith("schemas")
        return ("schema", str(error)) if about_schemas else (_FIELDS.get(error.field, ""), error.words)
    return "name" if isinstance(error, Conflict) else "", str(error)


def _form(context: PageContext, to: str, draft: Draft, errors: Mapping[str, str]) -> Safe:
    field = DraftFields(draft, errors)
    return components.form(
        context,
        context.link(to),
        tag("input", type="hidden", name="seen", value=draft.seen) if draft.seen else _name(draft, errors),
        field(
            "description",
            "Description",
            type_="textarea",
            rows="3",
            hint="For receivers: when the event is sent, and what it means.",
        ),
        field("group", "Group", hint="Groups similar event types, such as orders."),
        field(
            "flags", "Feature flags", hint="Separated by commas, for your own use. The portal shows every event type."
        ),
        field(
            "version",
            "Schema version",
            hint="An existing version is replaced, a new one is added. The highest version is used.",
        ),
        field(
            "schema",
            "JSON Schema",
            type_="textarea",
            rows="16",
            hint="Schema of the payload. Empty: this version is removed.",
            spellcheck="false",
            class_="code",
        ),
        _checkbox("validated", "Refuse messages whose payload does not match the schema", draft.validated),
        _checkbox("deprecated", "Deprecated: new endpoints should not choose it", draft.deprecated),
        tag("button", "Save", class_="button main"),
        class_="stacked",
    )


def _name(draft: Draft, errors: Mapping[str, str]) -> Safe:
    field = DraftFields(draft, errors)
    return field(
        "name",
        "Name",
        hint="For example order.paid. Letters, digits, - _ and . are allowed. You cannot change it later.",
        required=True,
        maxlength="256",
        autofocus=True,
    )


def _checkbox(name: str, words: str, value: bool) -> Safe:
    box = tag("input", type="checkbox", name=name, value="1", checked=value)
    return tag("div", tag("label", box, f" {words}"), class_="field")
