"""The secret of an endpoint: revealed by a POST, so that no history and no cache has it, and noted who asked."""

from __future__ import annotations

from datetime import timedelta

from starlette.responses import RedirectResponse, Response

from hookline.dashboard import contract, parts
from hookline.dashboard.look import Look
from hookline.dashboard.page import Action, Form, Page, View
from hookline.dashboard.pages.endpoint_actions import find, ref
from hookline.dashboard.pages.endpoint_controls import path
from hookline.dashboard.pages.endpoint_settings import OVERLAPS
from hookline.errors import InvalidInput
from hookline.html import Child, tag
from hookline.model import Endpoint
from hookline.services import endpoints


async def reveal(look: Look, _form: Form) -> Page:
    found = await endpoints.show_secret(look.deps, look.by, ref(look))
    return _shown(look, found, "Whoever has it can sign in our name: keep it as a password.")


async def rotate(look: Look, form: Form) -> Page:
    found, overlap = await find(look), form.text("overlap")
    if overlap not in dict(OVERLAPS):
        raise InvalidInput(f"takes one of {', '.join(key for key, _ in OVERLAPS)}", field="overlap")
    if form.text("revision") != str(found.revision):
        return _not_again(look, found)
    if overlap == "0" and not form.flag("sure"):
        return _asked(look, found)
    changed = await endpoints.rotate_secret(look.deps, look.by, ref(look), overlap=timedelta(seconds=int(overlap)))
    kept = f"The old one signs beside it {dict(OVERLAPS)[overlap]}." if overlap != "0" else "The old one is void."
    return _shown(look, changed, f"The new secret signs from now on. {kept}")


def _asked(look: Look, found: Endpoint) -> Page:
    """Nobody can take it back: before, not after."""
    words = (
        "The old secret will be void at once: a receiver that has it refuses every webhook until it has the new one."
    )
    kept = {"overlap": "0", "revision": str(found.revision), "sure": "1"}
    go = parts.button(look, look.link(path(found, "/secret/rotate")), "Rotate it now", kind="danger", hidden=kept)
    back = parts.link_button(look.link(path(found)), "Go back")
    body: list[Child] = [
        parts.verdict("dead", words),
        tag("p", "Of ", parts.ident(found.url, most=80)),
        parts.actions(go, back),
    ]
    return Page(title="Rotate the secret at once?", rail="endpoints", body=body, every=None)


def _not_again(look: Look, found: Endpoint) -> Page:
    """What a rotation shows is the answer to a POST: whoever reloads it would rotate again, and void what they have copied."""
    words = "The endpoint has changed since you looked at it, so its secret was not rotated again."
    back = parts.link_button(look.link(path(found)), "Look at the endpoint", kind="main")
    body: list[Child] = [parts.verdict("scheduled", words), parts.actions(back)]
    return Page(title="Secret of the endpoint", rail="endpoints", body=body, every=None, status=409)


def _shown(look: Look, found: Endpoint, words: str) -> Page:
    key = endpoints.receiver_key(found)
    body: list[Child] = [
        parts.verdict("scheduled", words),
        tag("p", "Of ", parts.ident(found.url, href=look.link(path(found)), most=80)),
        parts.code(key, name="secret"),
        contract.section(look, found, key),
        parts.actions(parts.link_button(look.link(path(found)), "Back to the endpoint")),
    ]
    return Page(title="Secret of the endpoint", rail="endpoints", body=body, every=None)


async def hidden(look: Look) -> Response:
    """Whoever comes back to the address without asking again: it is not shown."""
    return RedirectResponse(look.link(path(await find(look))), 303)


_ONE = "/endpoints/{endpoint_id}"

VIEWS = (
    View(path=f"{_ONE}/secret", show=hidden, portal=True),
    View(path=f"{_ONE}/secret/rotate", show=hidden, portal=True),
)
ACTIONS = (
    Action(path=f"{_ONE}/secret", do=reveal, portal=True),
    Action(path=f"{_ONE}/secret/rotate", do=rotate, portal=True),
)
