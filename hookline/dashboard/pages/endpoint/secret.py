"""Reveal or rotate the secret of an endpoint.

Both are POSTs, so that no browser history or cache stores the secret.
"""

from __future__ import annotations

from datetime import timedelta

from starlette.responses import RedirectResponse, Response

from hookline.dashboard import components, forms
from hookline.dashboard.page import Form, Page, get, post
from hookline.dashboard.page_context import PageContext, one_of
from hookline.dashboard.pages import delivery_contract
from hookline.dashboard.pages.endpoint.actions import find, ref
from hookline.dashboard.pages.endpoint.controls import path
from hookline.dashboard.pages.endpoint.settings import OVERLAPS
from hookline.model.endpoints import Endpoint
from hookline.services import endpoints
from hookline.web.html import Child, tag


@post("/endpoints/{endpoint_id}/secret", portal=True)
async def reveal(context: PageContext, _form: Form) -> Page:
    found = await endpoints.show_secret(context.deps, context.caller, ref(context))
    words = "Anyone who has this secret can sign messages as this service. Keep it like a password."
    return _secret_page(context, found, words)


@post("/endpoints/{endpoint_id}/secret/rotate", portal=True)
async def rotate(context: PageContext, form: Form) -> Page:
    found, overlap = await find(context), form.text("overlap")
    one_of("overlap", overlap, OVERLAPS)
    if form.text("revision") != str(found.revision):
        return _already_rotated(context, found)
    if overlap == "0" and not form.flag("sure"):
        return _confirm_rotation(context, found)
    until = timedelta(seconds=int(overlap))
    changed = await endpoints.rotate_secret(context.deps, context.caller, ref(context), overlap=until)
    old = f"The old secret also signs {OVERLAPS[overlap]}." if overlap != "0" else "The old secret is no longer used."
    return _secret_page(context, changed, f"The new secret signs from now on. {old}")


def _confirm_rotation(context: PageContext, found: Endpoint) -> Page:
    """Ask for confirmation of a rotation without overlap: Hookline stops signing with the old secret immediately, and
    this cannot be undone."""
    return forms.confirmation(
        context,
        "Rotate the secret at once?",
        "The old secret ends at once. A receiver that uses it refuses every webhook until it gets the new secret.",
        tag("p", "Endpoint ", components.ident(found.url, most=80)),
        to=context.link(path(found, "/secret/rotate")),
        press="Rotate now",
        cancel=context.link(path(found)),
        hidden={"overlap": "0", "revision": str(found.revision), "sure": "1"},
    )


def _already_rotated(context: PageContext, found: Endpoint) -> Page:
    """Refuse to rotate twice.

    A reload repeats the POST, and would replace the secret that the user has just copied.
    """
    words = "The endpoint has changed since you opened its page, so its secret was not rotated again."
    back = components.link_button(context.link(path(found)), "Show the endpoint", kind="main")
    body: list[Child] = [components.verdict("scheduled", words), components.actions(back)]
    return Page(title="Secret of the endpoint", body=body, status=409)


def _secret_page(context: PageContext, found: Endpoint, words: str) -> Page:
    key = endpoints.receiver_key(found)
    body: list[Child] = [
        components.verdict("scheduled", words),
        tag("p", "Endpoint ", components.ident(found.url, href=context.link(path(found)), most=80)),
        components.code(key, name="secret"),
        delivery_contract.section(context, found, key),
        components.actions(components.link_button(context.link(path(found)), "Back to the endpoint")),
    ]
    return Page(title="Secret of the endpoint", body=body)


@get("/endpoints/{endpoint_id}/secret", portal=True)
@get("/endpoints/{endpoint_id}/secret/rotate", portal=True)
async def redirect_to_endpoint(context: PageContext) -> Response:
    """Redirect to the endpoint: a GET of this address, such as a reload, must not show the secret again."""
    return RedirectResponse(context.link(path(await find(context))), 303)
