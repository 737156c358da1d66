"""One message: its whole life on one page, and what can be done with it."""

from __future__ import annotations

from collections import Counter

from hookline.dashboard import components, request_response
from hookline.dashboard.charts.scales import length
from hookline.dashboard.page import Action, Page, View
from hookline.dashboard.page_context import PageContext
from hookline.dashboard.pages.message import deliveries
from hookline.dashboard.pages.message import delivery as way
from hookline.dashboard.pages.message.delivery import Shown
from hookline.model import Message
from hookline.model.states import OPEN
from hookline.rules.trace_context import trace_id
from hookline.services import explain
from hookline.services.explain import MessageHistory
from hookline.web.html import Child, Safe, join, tag

MAX_DETAILED = 12  # deliveries that are told whole; the others are a line each
MAX_LISTED = 25  # of these; all of them are on a page of their own
MOVING, STILL = 3.0, 15.0  # seconds between two looks, while it is under way and afterwards


async def show(context: PageContext) -> Page:
    message = await context.message(context.path("message_id"))
    told = await explain.read(context.store, message, context.org_id, limit=MAX_DETAILED, content=False)
    shown = await _shown(context, told)
    states = Counter(each.state for each in shown)  # in the order in which they matter
    states.update(told.untold)
    under_way = any(each.way.delivery.state in OPEN for each in shown)
    return Page(
        title=message.event_type,
        rail="messages",
        body=[
            context.live("head", verdict(context, told, shown, states), _numbers(context, told, shown, states)),
            await _fields(context, told),
            context.live(
                "deliveries",
                *(way.section(context, each, alone=len(shown) == 1) for each in shown),
                await _beyond(context, told),
            ),
            _payload(context, message),
            _more(context, told),
        ],
        every=MOVING if under_way else STILL,
    )


async def _shown(context: PageContext, told: MessageHistory) -> list[Shown]:
    nos = {each.delivery.endpoint_no for each in told.ways}
    endpoints = {each.no: each for each in await context.store.endpoints_for(nos)}
    found = [
        Shown(
            way=each,
            message=told.message,
            now=told.now,
            endpoint=endpoints.get(each.delivery.endpoint_no),
            last=await context.store.attempt(told.message, each.attempts[-1].id) if each.attempts else None,
        )
        for each in told.ways
    ]
    return sorted(found, key=lambda each: (each.rank, each.way.delivery.id))


# ── what is wrong, and what to do ─────────────────────────────────────────────────────────────────────────────────


def verdict(context: PageContext, told: MessageHistory, shown: list[Shown], states: Counter[str]) -> Safe:
    total = states.total()
    if not total:
        where = context.link("/endpoints", app=told.message.app_id)
        see = tag("a", "See what its endpoints subscribe to", href=where)
        return components.verdict("resolved", "No endpoint matched: nothing was to be delivered. ", see, ".")
    for state, words in _TROUBLE.items():
        if states[state]:
            return components.verdict(state, _of(states[state], total, words), *_why(shown, state))
    if states["delivered"] == total:
        return components.verdict("delivered", _delivered(told, shown, total))
    under_way = total - states["delivered"] - states["resolved"]
    if under_way:
        return components.verdict("pending", _of(under_way, total, "is under way"), ".")
    return components.verdict("resolved", f"{states['delivered']:,} delivered, {states['resolved']:,} resolved.")


# Those that need somebody come first.
_TROUBLE = {"dead": "gave up", "held": "is held", "scheduled": "failed and waits for its next attempt"}


def _of(number: int, total: int, words: str) -> str:
    """`1 of 3 deliveries gave up`."""
    if total == 1:
        return f"The delivery {words}"
    plural = words.replace("is ", "are ", 1).replace("waits for its", "wait for their")
    return f"{number:,} of {components.count(total, 'delivery')} {words if number == 1 else plural}"


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
    found = next(explain.next_steps(first.way, first.now), None) if state == "held" else None
    return [". " if found is None else join(": ", way.prospect(found, first.now, sentence=False), " "), link, "."]


def _cause(each: Shown) -> str:
    reason = each.way.delivery.reason
    return (
        reason.value
        if reason is not None
        else next((said.words for said in explain.next_steps(each.way, each.now)), "")
    )


def _delivered(told: MessageHistory, shown: list[Shown], total: int) -> str:
    ends = [each.way.delivery.finished_at for each in shown if each.way.delivery.finished_at is not None]
    took = max(0.0, (max(ends) - told.message.created_at).total_seconds()) if ends else None
    words = "Delivered" if total == 1 else f"All {components.count(total, 'delivery')} arrived"
    return f"{words}." if took is None or told.beyond else f"{words}, {length(took)} after it was accepted."


def _numbers(context: PageContext, told: MessageHistory, shown: list[Shown], states: Counter[str]) -> Safe | None:
    """Each leads to the first delivery like it, or, where this page does not tell them all, to their list."""
    if not states:
        return None
    links = {each.state: f"#{each.anchor}" for each in reversed(shown)}
    links |= {state: deliveries.where(context, told.message, state) for state in told.untold}
    return components.numbers(
        *(
            components.number(state, f"{number:,}", components.state(state), href=links[state])
            for state, number in states.items()
            if number
        )
    )


# ── the message ───────────────────────────────────────────────────────────────────────────────────────────────────


async def _fields(context: PageContext, told: MessageHistory) -> Safe:
    message = told.message
    pairs: list[tuple[str, Child]] = [("Message", components.ident(message.id))]
    if not context.viewer.portal:
        app = await context.application(message.app_id)
        pairs.append(("Application", tag("a", app.name, href=context.link(f"/applications/{app.id}"))))
    pairs.append(("Event type", await _event_type(context, message)))
    if told.published_at is not None:
        before = length(max(0.0, (message.created_at - told.published_at).total_seconds()))
        pairs.append(("Published", f"to an outbox, {before} before it was accepted"))
    pairs.append(
        ("Accepted", join(components.clock(message.created_at), ", ", components.ago(message.created_at, told.now)))
    )
    if message.deliver_at is not None:
        pairs.append(("Not before", components.clock(message.deliver_at)))
    if message.event_id is not None:
        pairs.append(("Event id", components.ident(message.event_id)))
    for name, values, param in (("Channels", message.channels, "channel"), ("Tags", message.tags, "tag")):
        if values:
            pairs.append((name, _searched(context, message, values, param)))
    if message.ordering_key is not None:
        pairs.append(("Ordering key", components.ident(message.ordering_key)))
    if message.trace is not None:
        pairs.append(("Trace id", components.ident(trace_id(message.trace))))
    return components.fields(pairs)


async def _event_type(context: PageContext, message: Message) -> Safe:
    """Messages may be of types that the catalogue does not have."""
    known = await context.store.event_type(context.org_id, message.event_type)
    where = None if known is None else context.link(f"/event-types/{message.event_type}")
    return components.ident(message.event_type, href=where)


def _searched(context: PageContext, message: Message, values: tuple[str, ...], param: str) -> Safe:
    """Each leads to the messages that have it too."""
    app = None if context.viewer.portal else message.app_id
    links = (tag("a", value, href=context.link("/messages", **{"app": app, param: value})) for value in values)
    return tag("span", *(join(", " if at else None, link) for at, link in enumerate(links)))


def _payload(context: PageContext, message: Message) -> Safe:
    if message.payload is None:
        return components.section("Payload", tag("p", "It was removed, and cannot be sent again.", class_="quiet"))
    raw = context.param("payload") == "raw"
    tabs = components.tabs(
        "Payload",
        [
            ("Pretty", context.here(payload=None), not raw),
            ("Raw", context.here(payload="raw"), raw),
            (f"Download {len(message.payload):,} bytes", context.link(f"/messages/{message.id}/payload"), False),
        ],
    )
    return components.section(
        "Payload", request_response.payload_block(message.payload, raw=raw), aside=tabs, id_="payload"
    )


async def _beyond(context: PageContext, told: MessageHistory) -> Safe | None:
    if not told.beyond:
        return None
    link = tag("a", _all_of_them(told), href=deliveries.where(context, told.message))
    return components.section(
        f"{components.count(len(told.beyond), 'more delivery')}",
        await deliveries.table(context, told.beyond[:MAX_LISTED]),
        aside=link,
        id_="beyond",
    )


def _all_of_them(told: MessageHistory) -> str:
    return f"All {len(told.ways) + len(told.beyond):,} deliveries, by state"


def _more(context: PageContext, told: MessageHistory) -> Safe:
    message = told.message
    path = f"/messages/{message.id}"
    several = len(told.ways) > 1
    there = context.may_change and message.payload is not None
    command = components.code(f"hookline trace {message.id}", name="command")
    return components.section(
        "More",
        components.actions(
            components.link_button(deliveries.where(context, message), _all_of_them(told)) if several else None,
            components.link_button(context.link(f"{path}/resend"), "Send to another endpoint") if there else None,
            components.link_button(context.link(f"{path}/expunge"), "Remove the payload", kind="danger")
            if there
            else None,
        ),
        None if context.viewer.portal else join(tag("p", "The same in a terminal:", class_="quiet"), command),
    )


VIEWS = (View(path="/messages/{message_id}", show=show, portal=True),)
ACTIONS: tuple[Action, ...] = ()
