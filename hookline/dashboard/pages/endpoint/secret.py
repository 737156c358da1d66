"""The secret of an endpoint: revealed by a POST, so that no history and no cache has it, and noted who asked."""

from __future__ import annotations

from datetime import timedelta

from starlette.responses import RedirectResponse, Response

from hookline.dashboard import components, delivery_contract
from hookline.dashboard.page import Action, Form, Page, View
from hookline.dashboard.page_context import PageContext
from hookline.dashboard.pages.endpoint.actions import find, ref
from hookline.dashboard.pages.endpoint.controls import path
from hookline.dashboard.pages.endpoint.settings import OVERLAPS
from hookline.errors import InvalidInput
from hookline.model import Endpoint
from hookline.services import endpoints
from hookline.web.html import Child, tag


async def reveal(context: PageContext, _form: Form) -> Page:
    found = await endpoints.show_secret(context.deps, context.caller, ref(context))
    return _shown(context, found, "Whoever has it can sign in our name: keep it as a password.")


async def rotate(context: PageContext, form: Form) -> Page:
    found, overlap = await find(context), form.text("overlap")
    if overlap not in dict(OVERLAPS):
        raise InvalidInput(f"takes one of {', '.join(key for key, _ in OVERLAPS)}", field="overlap")
    if form.text("revision") != str(found.revision):
        return _not_again(context, found)
    if overlap == "0" and not form.flag("sure"):
        return _asked(context, found)
    changed = await endpoints.rotate_secret(
        context.deps, context.caller, ref(context), overlap=timedelta(seconds=int(overlap))
    )
    kept = f"The old one signs beside it {dict(OVERLAPS)[overlap]}." if overlap != "0" else "The old one is void."
    return _shown(context, changed, f"The new secret signs from now on. {kept}")


def _asked(context: PageContext, found: Endpoint) -> Page:
    """Nobody can take it back: before, not after."""
    words = (
        "The old secret will be void at once: a receiver that has it refuses every webhook until it has the new one."
    )
    kept = {"overlap": "0", "revision": str(found.revision), "sure": "1"}
    go = components.button(
        context, context.link(path(found, "/secret/rotate")), "Rotate it now", kind="danger", hidden=kept
    )
    back = components.link_button(context.link(path(found)), "Go back")
    body: list[Child] = [
        components.verdict("dead", words),
        tag("p", "Of ", components.ident(found.url, most=80)),
        components.actions(go, back),
    ]
    return Page(title="Rotate the secret at once?", rail="endpoints", body=body, refresh_seconds=None)


def _not_again(context: PageContext, found: Endpoint) -> Page:
    """What a rotation shows is the answer to a POST: whoever reloads it would rotate again, and void what they have copied."""
    words = "The endpoint has changed since you looked at it, so its secret was not rotated again."
    back = components.link_button(context.link(path(found)), "Look at the endpoint", kind="main")
    body: list[Child] = [components.verdict("scheduled", words), components.actions(back)]
    return Page(title="Secret of the endpoint", rail="endpoints", body=body, refresh_seconds=None, status=409)


def _shown(context: PageContext, found: Endpoint, words: str) -> Page:
    key = endpoints.receiver_key(found)
    body: list[Child] = [
        components.verdict("scheduled", words),
        tag("p", "Of ", components.ident(found.url, href=context.link(path(found)), most=80)),
        components.code(key, name="secret"),
        delivery_contract.section(context, found, key),
        components.actions(components.link_button(context.link(path(found)), "Back to the endpoint")),
    ]
    return Page(title="Secret of the endpoint", rail="endpoints", body=body, refresh_seconds=None)


async def hidden(context: PageContext) -> Response:
    """Whoever comes back to the address without asking again: it is not shown."""
    return RedirectResponse(context.link(path(await find(context))), 303)


_ONE = "/endpoints/{endpoint_id}"

VIEWS = (
    View(path=f"{_ONE}/secret", show=hidden, portal=True),
    View(path=f"{_ONE}/secret/rotate", show=hidden, portal=True),
)
ACTIONS = (
    Action(path=f"{_ONE}/secret", do=reveal, portal=True),
    Action(path=f"{_ONE}/secret/rotate", do=rotate, portal=True),
)
