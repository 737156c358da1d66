"""The list of all deliveries of one message, filtered by state. The message page shows only the first of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from hookline.dashboard import components
from hookline.dashboard.page import Page, get
from hookline.dashboard.page_context import PageContext
from hookline.dashboard.pages.message.delivery import RANKS
from hookline.model.deliveries import Delivery
from hookline.model.endpoints import EndpointName
from hookline.model.messages import Message
from hookline.services import explain
from hookline.store import after_number
from hookline.web.html import Child, Safe, join, tag

SHOWN = 100  # deliveries on one page


@get("/messages/{message_id}/deliveries", portal=True)
async def show(context: PageContext) -> Page:
    message = await context.message(context.path("message_id"))
    state, after = context.choice("state", RANKS), after_number(context.param("after")) or 0
    counts = Counter(await context.store.history.delivery_words(message))
    tabs = {"": f"All {counts.total():,}"}
    tabs |= {each: f"{counts[each]:,} {each}" for each in RANKS if counts[each] or each == state}
    found = await context.store.history.deliveries_page(message, state, after=after, limit=SHOWN + 1)
    rows = found[:SHOWN]
    listed = await table(context, rows) if rows else components.empty("No delivery matches.")
    more = components.more(context, str(rows[-1].id) if len(found) > SHOWN else None, "More")
    return Page(
        title=f"Deliveries of {message.event_type}",
        body=[
            tag("p", "Message ", components.ident(message.id, href=context.link(f"/messages/{message.id}")), "."),
            context.live("states", components.filter_tabs(context, "Which deliveries", "state", tabs, state)),
            context.live("deliveries", listed, more),
        ],
    )


def list_link(context: PageContext, message: Message, state: str | None = None) -> str:
    return context.link(f"/messages/{message.id}/deliveries", state=state)


async def table(context: PageContext, rows: Sequence[Delivery]) -> Safe:
    known = await context.store.catalogue.endpoint_names({row.endpoint_id for row in rows})

    def ago(at: datetime | None) -> Child:
        return None if at is None else components.ago(at, context.now)

    return components.table(
        rows,
        (
            ("State", lambda each: join(components.state(explain.word(each)), components.below(each.reason))),
            ("Endpoint", lambda each: _endpoint(context, each, known.get(each.endpoint_id))),
            ("Attempts", lambda each: f"{each.sent:,}"),
            ("Due", lambda each: ago(each.due_at) if each.finished_at is None and not each.held else None),
            ("Ended", lambda each: ago(each.finished_at)),
        ),
        caption="Deliveries of the message",
        key=lambda each: str(each.id),
        numeric=("Attempts",),
    )


def _endpoint(context: PageContext, each: Delivery, endpoint: EndpointName | None) -> Safe:
    if endpoint is None:
        return components.ident(each.endpoint_id)
    about = components.below("deleted" if endpoint.deleted else endpoint.description[:80])
    href = None if endpoint.deleted else context.link(f"/endpoints/{endpoint.id}")
    return join(components.ident(endpoint.url, href=href, most=60), about)
