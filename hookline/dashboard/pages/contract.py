"""The delivery contract as a page of its own."""

from __future__ import annotations

from hookline.dashboard import contract
from hookline.dashboard.look import Look
from hookline.dashboard.page import Action, Page, View
from hookline.html import tag


async def show(look: Look) -> Page:
    words = (
        "What you can rely on, and what your server must do. Each endpoint's page has code that verifies what arrives."
    )
    return Page(
        title="The delivery contract",
        rail="endpoints",
        body=[tag("p", words), contract.rules(look), tag("p", tag("a", "Endpoints", href=look.link("/endpoints")))],
        every=None,
    )


VIEWS = (View(path="/contract", show=show, portal=True),)
ACTIONS: tuple[Action, ...] = ()
