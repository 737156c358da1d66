"""The page with the delivery contract."""

from __future__ import annotations

from hookline.dashboard import delivery_contract
from hookline.dashboard.page import Page, get
from hookline.dashboard.page_context import PageContext
from hookline.web.html import tag


@get("/contract", portal=True)
async def show(context: PageContext) -> Page:
    words = "What you can rely on, and what your server must do. The page of each endpoint has code that verifies signatures."
    return Page(
        title="The delivery contract",
        rail="endpoints",
        body=[
            tag("p", words),
            delivery_contract.rules(context),
            tag("p", tag("a", "Endpoints", href=context.link("/endpoints"))),
        ],
    )
