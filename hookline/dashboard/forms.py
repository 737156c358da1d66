"""Forms declared as lists of fields. A field has a label, its HTML, and a parser that converts its text to a value.

A `Form` has the texts of the fields. The texts come from a stored object or from a posted form. `Field.draw` does not
need to know which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from hookline.dashboard import components
from hookline.dashboard.page import Form, Page
from hookline.dashboard.page_context import PageContext, one_of
from hookline.dashboard.parsers import text
from hookline.errors import AboutField, HooklineError
from hookline.services.errors import http_status
from hookline.store import Page as Rows
from hookline.web.html import Child, Safe, tag

MAX_APPS = 250  # maximum applications in the drop-down list; if there are more, users can type an id


# ── fields ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Field:
    """A text field, or a drop-down list if it has options.

    The value of a drop-down list is the chosen option, or None for the empty option.
    """

    def __init__(
        self,
        name: str,  # the field's name in errors of the services; `policy.cap` is the field `cap` of `policy`
        label: str,
        parse: Callable[[str, str], Any] = text,  # called with the name and the text of the field
        *,
        options: Mapping[Any, str] | None = None,  # the label of each value; a value is a text or a member of an enum
        **attributes: Any,  # passed to `components.field`
    ) -> None:
        self.name, self.label, self.attributes = name, label, attributes
        self.options = options
        self._parse = parse
        self.input_name = name.replace(".", "_")
        self.attribute = name.rpartition(".")[2]

    def typed(self, form: Form) -> str:
        return form.text(self.input_name).replace("\r\n", "\n")

    def value(self, form: Form) -> Any:
        if self.options is not None:
            return one_of(self.name, self.typed(form), self.options) or None
        return self._parse(self.name, self.typed(form))

    def draw(self, form: Form, errors: Mapping[str, str]) -> Safe:
        if self.options is not None:
            return components.choice(self.input_name, self.label, self.options.items(), self.typed(form))
        error = errors.get(self.name)
        return components.field(self.input_name, self.label, self.typed(form), error=error, **self.attributes)


class Checkbox(Field):
    def value(self, form: Form) -> bool:
        return form.flag(self.input_name)

    def draw(self, form: Form, _errors: Mapping[str, str]) -> Safe:
        box = tag("input", type="checkbox", name=self.input_name, value="1", checked=self.value(form))
        return tag("div", tag("label", box, f" {self.label}"), class_="field")


def values(fields: Iterable[Field], form: Form) -> dict[str, Any]:
    """Return a dict from `Field.attribute` to the value of the field. Raise `InvalidInput` for an invalid field."""
    return {field.attribute: field.value(form) for field in fields}


def filled(fields: Iterable[Field], found: object) -> dict[str, list[str]]:
    """Return the text of each field by its input name. The texts come from the attributes of `found`."""
    return {field.input_name: [_as_text(getattr(found, field.attribute))] for field in fields}


def _as_text(value: Any) -> str:
    match value:
        case bool():
            return "1" if value else ""
        case str() | int():
            return str(value)
        case float():
            return f"{value:.10g}"
        case tuple():
            return ", ".join(map(_as_text, value))
        case dict() if value:
            return msgspec.json.encode(value).decode()
        case _:
            return ""


# ── pages ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def field_errors(fields: Iterable[Field], error: HooklineError | None) -> dict[str, str]:
    """Return the error text by field name. The result is empty if none of the fields can show the error."""
    names = {field.name for field in fields if field.options is None}
    return {error.field: error.words} if isinstance(error, AboutField) and error.field in names else {}


def page(
    context: PageContext,
    title: str,
    to: str,
    *fields: Child,
    back: tuple[str, str],
    press: str = "Save",
    error: Exception | None = None,
    message: str = "",
    rail: str | None = None,
) -> Page:
    """Return the page of a form that posts to the path `to`.

    `back` is the path and the text of the link beside the title.
    """
    form = components.form(context, context.link(to), *fields, components.actions(components.submit(press)))
    return Page(
        title=title,
        body=[components.verdict("dead", message) if message else None, form],
        aside=tag("a", back[1], href=context.link(back[0])),
        status=http_status(error),
        rail=rail,
    )


def edit_page(
    context: PageContext, noun: str, at: str | None, *fields: Child, errors: Mapping[str, str], error: Exception | None
) -> Page:
    """Return the page that edits the object at the path `at`, or the page that adds one if `at` is None.

    The `error` is shown above the form if `errors` does not show it beside a field.
    """
    if at is None:
        title, to, press = f"Add an {noun}", f"/{noun}s/new", f"Add the {noun}"
        back = (f"/{noun}s", f"Back to the {noun}s")
    else:
        title, to, press = f"Edit the {noun}", f"{at}/edit", "Save"
        back = (at, f"Back to the {noun}")
    message = "" if errors or error is None else str(error)
    return page(context, title, to, *fields, back=back, press=press, error=error, message=message)


def confirmation(
    context: PageContext,
    title: str,
    consequence: str,
    *details: Child,
    to: str,
    press: str,
    cancel: str,
    hidden: Mapping[str, str] | None = None,
) -> Page:
    """Return a page that asks before an action that cannot be undone. `to` and `cancel` come from `context.link`."""
    button = components.button(context, to, press, kind="danger", hidden=hidden)
    buttons = components.actions(button, components.link_button(cancel, "Cancel"))
    return Page(title=title, body=[components.verdict("dead", consequence), *details, buttons])


async def application_field(
    context: PageContext, name: str, chosen: str, *, nothing: str, hint: str = "", error: str | None = None
) -> Safe:
    """Return the field that chooses an application. `nothing` is the text of the empty option."""
    apps = await context.store.catalogue.applications(context.org_id, Rows(limit=MAX_APPS + 1))
    options, more = [(app.id, app.name) for app in apps[:MAX_APPS]], len(apps) > MAX_APPS
    return components.chooser(name, "Application", options, chosen, more=more, nothing=nothing, hint=hint, error=error)
