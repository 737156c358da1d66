"""One message: its whole life on one page, and what can be done with it."""

from __future__ import annotations

from collections import Counter

from hookline import story
from hookline.dashboard import exchange, parts
from hookline.dashboard.look import Look
from hookline.dashboard.page import Action, Page, View
from hookline.dashboard.pages import message_deliveries as deliveries
from hookline.dashboard.pages import message_way as way
from hookline.dashboard.pages.message_way import Shown
from hookline.dashboard.scales import length
from hookline.html import Child, Safe, join, tag
from hookline.model import Message
from hookline.states import OPEN
from hookline.story import Story
from hookline.tracecontext import trace_id

MOST_TOLD = 12  # deliveries that are told whole; the others are a line each
MOST_LISTED = 25  # of these; all of them are on a page of their own
MOVING, STILL = 3.0, 15.0  # seconds between two looks, while it is under way and afterwards


async def show(look: Look) -> Page:
    message = await look.message(look.path("message_id"))
    told = await story.read(look.store, message, look.org_id, most=MOST_TOLD, content=False)
    shown = await _shown(look, told)
    states = Counter(each.state for each in shown)  # in the order in which they matter
    states.update(told.untold)
    under_way = any(each.way.delivery.state in OPEN for each in shown)
    return Page(
        title=message.event_type,
        rail="messages",
        body=[
            look.live("head", verdict(look, told, shown, states), _numbers(look, told, shown, states)),
            await _fields(look, told),
            look.live(
                "deliveries",
                *(way.section(look, each, alone=len(shown) == 1) for each in shown),
                await _beyond(look, told),
            ),
            _payload(look, message),
            _more(look, told),
        ],
        every=MOVING if under_way else STILL,
    )


async def _shown(look: Look, told: Story) -> list[Shown]:
    nos = {each.delivery.endpoint_no for each in told.ways}
    endpoints = {each.no: each for each in await look.store.endpoints_for(nos)}
    found = [
        Shown(
            way=each,
            message=told.message,
            now=told.now,
            endpoint=endpoints.get(each.delivery.endpoint_no),
            last=await look.store.attempt(told.message, each.attempts[-1].id) if each.attempts else None,
        )
        for each in told.ways
    ]
    return sorted(found, key=lambda each: (each.rank, each.way.delivery.id))


# ── what is wrong, and what to do ─────────────────────────────────────────────────────────────────────────────────


def verdict(look: Look, told: Story, shown: list[Shown], states: Counter[str]) -> Safe:
    total = states.total()
    if not total:
        where = look.link("/endpoints", app=told.message.app_id)
        see = tag("a", "See what its endpoints subscribe to", href=where)
        return parts.verdict("resolved", "No endpoint matched: nothing was to be delivered. ", see, ".")
    for state, words in _TROUBLE.items():
        if states[state]:
            return parts.verdict(state, _of(states[state], total, words), *_why(shown, state))
    if states["delivered"] == total:
        return parts.verdict("delivered", _delivered(told, shown, total))
    under_way = total - states["delivered"] - states["resolved"]
    if under_way:
        return parts.verdict("pending", _of(under_way, total, "is under way"), ".")
    return parts.verdict("resolved", f"{states['delivered']:,} delivered, {states['resolved']:,} resolved.")


# Those that need somebody come first.
_TROUBLE = {"dead": "gave up", "held": "is held", "scheduled": "failed and waits for its next attempt"}


def _of(number: int, total: int, words: str) -> str:
    """`1 of 3 deliveries gave up`."""
    if total == 1:
        return f"The delivery {words}"
    plural = words.replace("is ", "are ", 1).replace("waits for its", "wait for their")
    return f"{number:,} of {parts.count(total, 'delivery')} {words if number == 1 else plural}"


def _why(shown: list[Shown], state: str) -> list[Child]:
    """Of the first, and said where it is true of all that are in that state."""
    like = [each for each in shown if each.state == state]
    if not like:
        return ["."]
    first = like[0]
    link = tag("a", "What to do", href=f"#{first.anchor}")
    if len({_cause(each) for each in like}) > 1:
        return [". ", link, "."]
    if first.way.delivery.reason is not None:
        return [" (", first.way.delivery.reason.value, "). ", link, "."]
    found = next(story.outlook(first.way, first.now), None) if state == "held" else None
    return [". " if found is None else join(": ", way.prospect(found, first.now, sentence=False), " "), link, "."]


def _cause(each: Shown) -> str:
    reason = each.way.delivery.reason
    return reason.value if reason is not None else next((said.words for said in story.outlook(each.way, each.now)), "")


def _delivered(told: Story, shown: list[Shown], total: int) -> str:
    ends = [each.way.delivery.finished_at for each in shown if each.way.delivery.finished_at is not None]
    took = max(0.0, (max(ends) - told.message.created_at).total_seconds()) if ends else None
    words = "Delivered" if total == 1 else f"All {parts.count(total, 'delivery')} arrived"
    return f"{words}." if took is None or told.beyond else f"{words}, {length(took)} after it was accepted."


def _numbers(look: Look, told: Story, shown: list[Shown], states: Counter[str]) -> Safe | None:
    """Each leads to the first delivery like it, or, where this page does not tell them all, to their list."""
    if not states:
        return None
    links = {each.state: f"#{each.anchor}" for each in reversed(shown)}
    links |= {state: deliveries.where(look, told.message, state) for state in told.untold}
    return parts.numbers(
        *(
            parts.number(state, f"{number:,}", parts.state(state), href=links[state])
            for state, number in states.items()
            if number
        )
    )


# ── the message ───────────────────────────────────────────────────────────────────────────────────────────────────


async def _fields(look: Look, told: Story) -> Safe:
    message = told.message
    pairs: list[tuple[str, Child]] = [("Message", parts.ident(message.id))]
    if not look.viewer.portal:
        app = await look.application(message.app_id)
        pairs.append(("Application", tag("a", app.name, href=look.link(f"/applications/{app.id}"))))
    pairs.append(("Event type", await _event_type(look, message)))
    if told.published_at is not None:
        before = length(max(0.0, (message.created_at - told.published_at).total_seconds()))
        pairs.append(("Published", f"to an outbox, {before} before it was accepted"))
    pairs.append(("Accepted", join(parts.clock(message.created_at), ", ", parts.ago(message.created_at, told.now))))
    if message.deliver_at is not None:
        pairs.append(("Not before", parts.clock(message.deliver_at)))
    if message.event_id is not None:
        pairs.append(("Event id", parts.ident(message.event_id)))
    for name, values, param in (("Channels", message.channels, "channel"), ("Tags", message.tags, "tag")):
        if values:
            pairs.append((name, _searched(look, message, values, param)))
    if message.ordering_key is not None:
        pairs.append(("Ordering key", parts.ident(message.ordering_key)))
    if message.trace is not None:
        pairs.append(("Trace id", parts.ident(trace_id(message.trace))))
    return parts.fields(pairs)


async def _event_type(look: Look, message: Message) -> Safe:
    """Messages may be of types that the catalogue does not have."""
    known = await look.store.event_type(look.org_id, message.event_type)
    where = None if known is None else look.link(f"/event-types/{message.event_type}")
    return parts.ident(message.event_type, href=where)


def _searched(look: Look, message: Message, values: tuple[str, ...], param: str) -> Safe:
    """Each leads to the messages that have it too."""
    app = None if look.viewer.portal else message.app_id
    links = (tag("a", value, href=look.link("/messages", **{"app": app, param: value})) for value in values)
    return tag("span", *(join(", " if at else None, link) for at, link in enumerate(links)))


def _payload(look: Look, message: Message) -> Safe:
    if message.payload is None:
        return parts.section("Payload", tag("p", "It was removed, and cannot be sent again.", class_="quiet"))
    raw = look.param("payload") == "raw"
    tabs = parts.tabs(
        "Payload",
        [
            ("Pretty", look.here(payload=None), not raw),
            ("Raw", look.here(payload="raw"), raw),
            (f"Download {len(message.payload):,} bytes", look.link(f"/messages/{message.id}/payload"), False),
        ],
    )
    return parts.section("Payload", exchange.payload_block(message.payload, raw=raw), aside=tabs, id_="payload")


async def _beyond(look: Look, told: Story) -> Safe | None:
    if not told.beyond:
        return None
    link = tag("a", _all_of_them(told), href=deliveries.where(look, told.message))
    return parts.section(
        f"{parts.count(len(told.beyond), 'more delivery')}",
        await deliveries.table(look, told.beyond[:MOST_LISTED]),
        aside=link,
        id_="beyond",
    )


def _all_of_them(told: Story) -> str:
    return f"All {len(told.ways) + len(told.beyond):,} deliveries, by state"


def _more(look: Look, told: Story) -> Safe:
    message = told.message
    path = f"/messages/{message.id}"
    several = len(told.ways) > 1
    there = look.may_change and message.payload is not None
    command = parts.code(f"hookline trace {message.id}", name="command")
    return parts.section(
        "More",
        parts.actions(
            parts.link_button(deliveries.where(look, message), _all_of_them(told)) if several else None,
            parts.link_button(look.link(f"{path}/resend"), "Send to another endpoint") if there else None,
            parts.link_button(look.link(f"{path}/expunge"), "Remove the payload", kind="danger") if there else None,
        ),
        None if look.viewer.portal else join(tag("p", "The same in a terminal:", class_="quiet"), command),
    )


VIEWS = (View(path="/messages/{message_id}", show=show, portal=True),)
ACTIONS: tuple[Action, ...] = ()
