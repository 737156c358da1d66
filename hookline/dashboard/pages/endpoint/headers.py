"""An endpoint's own headers: receivers let us in by some of them, so that those are never shown again."""

from __future__ import annotations

from collections.abc import Sequence

from hookline.api.routes.endpoints import merged
from hookline.dashboard import components
from hookline.dashboard.page import Action, Done, Form, Page, View
from hookline.dashboard.page_context import PageContext
from hookline.dashboard.pages.endpoint.actions import done, find
from hookline.dashboard.pages.endpoint.controls import back, path
from hookline.errors import Conflict, InvalidInput
from hookline.model import Endpoint, EndpointChange
from hookline.rules.guard import is_sensitive
from hookline.services import manage
from hookline.web.html import Child, Safe, tag

BLANK = 3  # lines to add some
MAX_LINES = 20  # that are read

Line = tuple[str, str]  # name and value


async def show(context: PageContext) -> Page:
    return _page(context, manage.check_opened(await find(context)), [], None)


def _page(context: PageContext, found: Endpoint, typed: Sequence[Line], error: str | None) -> Page:
    body: list[Child] = [
        components.verdict("dead", error) if error else None,
        tag("p", "Sent with each request to ", components.ident(found.url, href=context.link(path(found)), most=80)),
        components.form(
            context,
            context.link(path(found, "/headers")),
            _kept(found),
            tag("fieldset", tag("legend", "Add, or replace"), *_blank(typed)),
            components.actions(tag("button", "Save", class_="button main")),
            class_="fill",
        ),
    ]
    return Page(
        title="Headers",
        rail="endpoints",
        body=body,
        aside=back(context, found),
        every=None,
        status=422 if error else 200,
    )


def _kept(found: Endpoint) -> Safe:
    if not found.headers:
        return tag("p", "It has no headers of its own.", class_="quiet")
    rows = [
        [
            tag("code", name),
            tag("span", "not shown", class_="quiet") if is_sensitive(name) else tag("code", value),
            tag("label", tag("input", type="checkbox", name="remove", value=name), f" Remove {name}"),
        ]
        for name, value in found.headers.items()
    ]
    return components.table(("Name", "Value", ""), rows, caption="Headers", keys=list(found.headers))


def _blank(typed: Sequence[Line]) -> list[Safe]:
    lines = [*typed, *[("", "")] * max(1, BLANK - len(typed))]
    return [
        tag(
            "div",
            components.field(f"name_{at}", "Name", name, autocomplete="off"),
            components.field(f"value_{at}", "Value", value, autocomplete="off"),
            class_="pair",
        )
        for at, (name, value) in enumerate(lines)
    ]


async def save(context: PageContext, form: Form) -> Done | Page:
    found, typed = await find(context), _typed(form)

    def decide(current: Endpoint) -> EndpointChange:
        given: dict[str, str | None] = dict.fromkeys(form.texts("remove"))
        given |= dict(typed)
        return EndpointChange(headers=merged(manage.check_opened(current).headers, given))

    if any(not name for name, _ in typed):
        return _page(context, found, typed, "One of them has a value and no name.")
    try:
        await manage.change_endpoint(context.store, context.services.guard, found, decide)
    except (InvalidInput, Conflict) as error:
        return _page(context, found, typed, str(error))
    asked = {name.lower() for name in form.texts("remove")}
    names = ", ".join([name for name, _ in typed] + [f"-{name}" for name in found.headers if name.lower() in asked])
    return done(context, found, "Saved.", names[:500])


def _typed(form: Form) -> list[Line]:
    lines = ((form.text(f"name_{at}"), form.text(f"value_{at}")) for at in range(MAX_LINES))
    return [line for line in lines if any(line)]


_PATH = "/endpoints/{endpoint_id}/headers"

VIEWS = (View(path=_PATH, show=show, portal=True),)
ACTIONS = (Action(path=_PATH, do=save, name="endpoint.headers", portal=True),)
