"""An endpoint's own headers: receivers let us in by some of them, so that those are never shown again."""

from __future__ import annotations

from collections.abc import Sequence

from hookline.dashboard import parts
from hookline.dashboard.look import Look
from hookline.dashboard.page import Action, Done, Form, Page, View
from hookline.dashboard.pages.endpoint_actions import find, ref
from hookline.dashboard.pages.endpoint_controls import back, path
from hookline.errors import Conflict, HooklineError, InvalidInput
from hookline.flow.guard import is_sensitive
from hookline.html import Child, Safe, tag
from hookline.model import Endpoint
from hookline.services import endpoints
from hookline.services.errors import http_status

BLANK = 3  # lines to add some
MOST_LINES = 20  # that are read

Line = tuple[str, str]  # name and value


async def show(look: Look) -> Page:
    return _page(look, endpoints.check_opened(await find(look)), [], None)


def _page(look: Look, found: Endpoint, typed: Sequence[Line], error: HooklineError | None) -> Page:
    body: list[Child] = [
        parts.verdict("dead", str(error)) if error else None,
        tag("p", "Sent with each request to ", parts.ident(found.url, href=look.link(path(found)), most=80)),
        parts.form(
            look,
            look.link(path(found, "/headers")),
            _kept(found),
            tag("fieldset", tag("legend", "Add, or replace"), *_blank(typed)),
            parts.actions(tag("button", "Save", class_="button main")),
            class_="fill",
        ),
    ]
    return Page(
        title="Headers",
        rail="endpoints",
        body=body,
        aside=back(look, found),
        every=None,
        status=http_status(error),
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
    return parts.table(("Name", "Value", ""), rows, caption="Headers", keys=list(found.headers))


def _blank(typed: Sequence[Line]) -> list[Safe]:
    lines = [*typed, *[("", "")] * max(1, BLANK - len(typed))]
    return [
        tag(
            "div",
            parts.field(f"name_{at}", "Name", name, autocomplete="off"),
            parts.field(f"value_{at}", "Value", value, autocomplete="off"),
            class_="pair",
        )
        for at, (name, value) in enumerate(lines)
    ]


async def save(look: Look, form: Form) -> Done | Page:
    typed = _typed(form)
    removed: dict[str, str | None] = dict.fromkeys(form.texts("remove"))
    try:
        changed = await endpoints.set_headers(look.deps, look.by, ref(look), removed | dict(typed), merge=True)
    except (InvalidInput, Conflict) as error:
        return _page(look, await find(look), typed, error)
    return Done(to=look.link(path(changed)), notice="Saved.")


def _typed(form: Form) -> list[Line]:
    lines = ((form.text(f"name_{at}"), form.text(f"value_{at}")) for at in range(MOST_LINES))
    return [line for line in lines if any(line)]


_PATH = "/endpoints/{endpoint_id}/headers"

VIEWS = (View(path=_PATH, show=show, portal=True),)
ACTIONS = (Action(path=_PATH, do=save, portal=True),)
