"""All deliveries of one message, by state: of a message to many endpoints, those that its own page does not tell whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hookline import story
from hookline.dashboard import parts
from hookline.dashboard.look import Look
from hookline.dashboard.page import Action, Page, View
from hookline.dashboard.pages.message_way import RANKS
from hookline.errors import InvalidInput
from hookline.html import Child, Safe, join, tag
from hookline.model import Delivery, EndpointName, Message
from hookline.store.base import after_number

SHOWN = 100  # on one page


async def show(look: Look) -> Page:
    message = await look.message(look.path("message_id"))
    state, after = _state(look), after_number(look.param("after")) or 0
    counted = await look.store.delivery_words(message)
    found = await look.store.deliveries_page(message, state, after=after, limit=SHOWN + 1)
    rows = found[:SHOWN]
    return Page(
        title=f"Deliveries of {message.event_type}",
        rail="messages",
        body=[
            tag("p", "Of the message ", parts.ident(message.id, href=look.link(f"/messages/{message.id}")), "."),
            look.live("states", _tabs(look, Counter(counted), state)),
            look.live(
                "deliveries",
                await table(look, rows) if rows else parts.empty("No delivery is like this."),
                parts.more(look, str(rows[-1].id) if len(found) > SHOWN else None, "More"),
            ),
        ],
    )


def where(look: Look, message: Message, state: str | None = None) -> str:
    return look.link(f"/messages/{message.id}/deliveries", state=state)


def _state(look: Look) -> str | None:
    state = look.param("state")
    if state is not None and state not in RANKS:
        raise InvalidInput(f"takes one of {', '.join(RANKS)}", field="state")
    return state


def _tabs(look: Look, counted: Counter[str], chosen: str | None) -> Safe:
    links = [(f"All {counted.total():,}", look.here(state=None, after=None), chosen is None)]
    links += [
        (f"{counted[state]:,} {state}", look.here(state=state, after=None), state == chosen)
        for state in RANKS
        if counted[state] or state == chosen
    ]
    return parts.tabs("Which deliveries", links)


async def table(look: Look, rows: Sequence[Delivery]) -> Safe:
    known = await look.store.endpoint_names({row.endpoint_id for row in rows})
    return parts.table(
        ("State", "Endpoint", "Attempts", "Due", "Ended"),
        [_row(look, each, known.get(each.endpoint_id)) for each in rows],
        caption="Deliveries of the message",
        keys=[str(each.id) for each in rows],
        numeric=(2,),
    )


def _row(look: Look, each: Delivery, endpoint: EndpointName | None) -> list[Child]:
    due = each.due_at if each.finished_at is None and not each.held else None
    return [
        join(parts.state(story.word(each)), tag("div", each.reason, class_="quiet") if each.reason else None),
        _who(look, each, endpoint),
        f"{each.sent:,}",
        None if due is None else parts.ago(due, look.now),
        None if each.finished_at is None else parts.ago(each.finished_at, look.now),
    ]


def _who(look: Look, each: Delivery, endpoint: EndpointName | None) -> Safe:
    if endpoint is None:
        return parts.ident(each.endpoint_id)
    about = "deleted" if endpoint.deleted else endpoint.description[:80]
    href = None if endpoint.deleted else look.link(f"/endpoints/{endpoint.id}")
    return join(parts.ident(endpoint.url, href=href, most=60), tag("div", about, class_="quiet") if about else None)


VIEWS = (View(path="/messages/{message_id}/deliveries", show=show, portal=True),)
ACTIONS: tuple[Action, ...] = ()
