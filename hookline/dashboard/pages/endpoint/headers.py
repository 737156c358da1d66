"""The page that edits the custom headers of an endpoint. Values that may be credentials are never shown again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hookline.dashboard import components, forms
from hookline.dashboard.page import Done, Form, Page, get, post
from hookline.dashboard.page_context import PageContext
from hookline.dashboard.pages.endpoint.actions import find, ref
from hookline.dashboard.pages.endpoint.controls import path
from hookline.errors import Conflict, HooklineError, InvalidInput
from hookline.model.endpoints import Endpoint
from hookline.rules.redaction import is_sensitive
from hookline.services import endpoints
from hookline.web.html import Safe, tag

BLANK = 3  # empty lines for new headers
MAX_LINES = 20  # lines read from the form

Line = tuple[str, str]  # name and value of a header


@get("/endpoints/{endpoint_id}/headers", portal=True)
async def show(context: PageContext) -> Page:
    return _page(context, endpoints.check_opened(await find(context)), [], None)


def _page(context: PageContext, found: Endpoint, typed: Sequence[Line], error: HooklineError | None) -> Page:
    return forms.page(
        context,
        "Headers",
        path(found, "/headers"),
        tag("p", "Sent with each request to ", components.ident(found.url, href=context.link(path(found)), most=80)),
        _current(found),
        tag("fieldset", tag("legend", "Add or replace"), *_lines(typed)),
        back=(path(found), "Back to the endpoint"),
        error=error,
        message=str(error or ""),
    )


def _current(found: Endpoint) -> Safe:
    if not found.headers:
        return tag("p", "The endpoint has no custom headers.", class_="quiet")
    hidden = tag("span", "not shown", class_="quiet")

    def remove(name: str) -> Safe:
        return tag("label", tag("input", type="checkbox", name="remove", value=name), f" Remove {name}")

    return components.table(
        found.headers,
        (
            ("Name", lambda name: tag("code", name)),
            ("Value", lambda name: hidden if is_sensitive(name) else tag("code", found.headers[name])),
            ("", remove),
        ),
        caption="Headers",
        key=str,
    )


def _lines(typed: Sequence[Line]) -> Iterator[Safe]:
    lines = [*typed, *[("", "")] * max(1, BLANK - len(typed))]
    for at, (name, value) in enumerate(lines):
        name_field = components.field(f"name_{at}", "Name", name, autocomplete="off")
        value_field = components.field(f"value_{at}", "Value", value, autocomplete="off")
        yield tag("div", name_field, value_field, class_="pair")


@post("/endpoints/{endpoint_id}/headers", portal=True)
async def save(context: PageContext, form: Form) -> Done | Page:
    typed = _typed(form)
    changes: dict[str, str | None] = {**dict.fromkeys(form.values("remove")), **dict(typed)}
    try:
        changed = await endpoints.set_headers(context.deps, context.caller, ref(context), changes, merge=True)
    except (InvalidInput, Conflict) as error:
        return _page(context, await find(context), typed, error)
    return Done(to=context.link(path(changed)), notice="Saved.")


def _typed(form: Form) -> list[Line]:
    lines = ((form.text(f"name_{at}"), form.text(f"value_{at}")) for at in range(MAX_LINES))
    return [line for line in lines if any(line)]
