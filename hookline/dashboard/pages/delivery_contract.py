"""The delivery contract as a page of its own."""

from __future__ import annotations

from hookline.dashboard import delivery_contract
from hookline.dashboard.page import Action, Page, View
from hookline.dashboard.page_context import PageContext
from hookline.web.html import tag


async def show(context: PageContext) -> Page:
    words = (
        "What you can rely on, and what your server must do. Each endpoint's page has code that verifies what arrives."
    )
    return Page(
        title="The delivery contract",
        rail="endpoints",
        body=[
            tag("p", words),
            delivery_contract.rules(context),
            tag("p", tag("a", "Endpoints", href=context.link("/endpoints"))),
        ],
        refresh_seconds=None,
    )


VIEWS = (View(path="/contract", show=show, portal=True),)
ACTIONS: tuple[Action, ...] = ()
