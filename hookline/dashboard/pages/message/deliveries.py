"""The list of all deliveries of one message, filtered by state. The message page shows only the first of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hookline.dashboard import components
from hookline.dashboard.field_parser import one_of
from hookline.dashboard.page import Page, get
from hookline.dashboard.page_context import PageContext
from hookline.dashboard.pages.message.delivery import RANKS
from hookline.model import Delivery, EndpointName, Message
from hookline.services import explain
from hookline.store.protocols import after_number
from hookline.web.html import Child, Safe, join, tag

SHOWN = 100  # deliveries on one page


@get("/messages/{message_id}/deliveries", portal=True)
async def show(context: PageContext) -> Page:
    message = await context.message(context.path("message_id"))
    state, after = _state(context), after_number(context.param("after")) or 0
    counts = await context.store.history.delivery_words(message)
    found = await context.store.history.deliveries_page(message, state, after=after, limit=SHOWN + 1)
    rows = found[:SHOWN]
    return Page(
        title=f"Deliveries of {message.event_type}",
        body=[
            tag("p", "Message ", components.ident(message.id, href=context.link(f"/messages/{message.id}")), "."),
            context.live("states", _tabs(context, Counter(counts), state)),
            context.live(
                "deliveries",
                await table(context, rows) if rows else components.empty("No delivery matches."),
                components.more(context, str(rows[-1].id) if len(found) > SHOWN else None, "More"),
            ),
        ],
    )


def list_link(context: PageContext, message: Message, state: str | None = None) -> str:
    return context.link(f"/messages/{message.id}/deliveries", state=state)


def _state(context: PageContext) -> str | None:
    state = context.param("state")
    return None if state is None else one_of("state", state, RANKS)


def _tabs(context: PageContext, counts: Counter[str], chosen: str | None) -> Safe:
    links = [(f"All {counts.total():,}", context.here(state=None, after=None), chosen is None)]
    links += [
        (f"{counts[state]:,} {state}", context.here(state=state, after=None), state == chosen)
        for state in RANKS
        if counts[state] or state == chosen
    ]
    return components.tabs("Which deliveries", links)


async def table(context: PageContext, rows: Sequence[Delivery]) -> Safe:
    known = await context.store.catalogue.endpoint_names({row.endpoint_id for row in rows})
    return components.table(
        ("State", "Endpoint", "Attempts", "Due", "Ended"),
        [_row(context, each, known.get(each.endpoint_id)) for each in rows],
        caption="Deliveries of the message",
        keys=[str(each.id) for each in rows],
        numeric=(2,),
    )


def _row(context: PageContext, each: Delivery, endpoint: EndpointName | None) -> list[Child]:
    due = each.due_at if each.finished_at is None and not each.held else None
    return [
        join(components.state(explain.word(each)), tag("div", each.reason, class_="quiet") if each.reason else None),
        _endpoint(context, each, endpoint),
        f"{each.sent:,}",
        None if due is None else components.ago(due, context.now),
        None if each.finished_at is None else components.ago(each.finished_at, context.now),
    ]


def _endpoint(context: PageContext, each: Delivery, endpoint: EndpointName | None) -> Safe:
    if endpoint is None:
        return components.ident(each.endpoint_id)
    about = "deleted" if endpoint.deleted else endpoint.description[:80]
    href = None if endpoint.deleted else context.link(f"/endpoints/{endpoint.id}")
    return join(
        components.ident(endpoint.url, href=href, most=60), tag("div", about, class_="quiet") if about else None
    )
