"""The page of one message: its deliveries with their attempts, its payload, and the actions on it."""

from __future__ import annotations

from collections import Counter

from hookline.dashboard import components, request_response
from hookline.dashboard.charts.scales import length
from hookline.dashboard.page import Page, get
from hookline.dashboard.page_context import PageContext
from hookline.dashboard.pages.message import deliveries
from hookline.dashboard.pages.message import delivery as delivery_section
from hookline.dashboard.pages.message.delivery import DeliveryView
from hookline.model.messages import Message
from hookline.model.states import OPEN
from hookline.rules.trace_context import trace_id
from hookline.services import explain
from hookline.services.explain import MessageHistory
from hookline.web.html import Child, Safe, join, tag

MAX_DETAILED = 12  # deliveries shown with all details; the others are one row each
MAX_LISTED = 25  # deliveries shown as rows; another page lists all of them
REFRESH_OPEN, REFRESH_DONE = 3.0, 15.0  # seconds between updates, with open deliveries and without


@get("/messages/{message_id}", portal=True)
async def show(context: PageContext) -> Page:
    message = await context.message(context.path("message_id"))
    history = await explain.read(context.store, message, context.org_id, limit=MAX_DETAILED, content=False)
    views = await _views(context, history)
    states = Counter(each.state for each in views)  # number of deliveries by state, the most important state first
    states.update(history.other_states)
    has_open = any(each.history.delivery.state in OPEN for each in views)
    sections = (delivery_section.section(context, each, alone=len(views) == 1) for each in views)
    return Page(
        title=message.event_type,
        body=[
            context.live("head", verdict(context, history, views, states), _numbers(context, history, views, states)),
            await _fields(context, history),
            context.live("deliveries", *sections, await _other_deliveries(context, history)),
            _payload(context, message),
            _more(context, history),
        ],
        refresh=REFRESH_OPEN if has_open else REFRESH_DONE,
    )


async def _views(context: PageContext, history: MessageHistory) -> list[DeliveryView]:
    nos = {each.delivery.endpoint_no for each in history.deliveries}
    endpoints = {each.no: each for each in await context.store.catalogue.endpoints_for(nos)}
    found = [
        DeliveryView(
            history=each,
            message=history.message,
            now=history.now,
            endpoint=endpoints.get(each.delivery.endpoint_no),
            last=await context.store.history.attempt(history.message, each.attempts[-1].id) if each.attempts else None,
        )
        for each in history.deliveries
    ]
    return sorted(found, key=lambda each: (each.rank, each.history.delivery.id))


# ── summary ──────────────────────────────────────────────────────────────────────────────────────────────────────


def verdict(context: PageContext, history: MessageHistory, views: list[DeliveryView], states: Counter[str]) -> Safe:
    total = states.total()
    if not total:
        see = context.anchor("Show the endpoints and their event types", "/endpoints", app=history.message.app_id)
        return components.verdict("resolved", "No endpoint matched, so there are no deliveries. ", see, ".")
    for state, words in _PROBLEMS.items():
        if states[state]:
            return components.verdict(state, _of(states[state], total, words), *_why(views, state))
    if states["delivered"] == total:
        return components.verdict("delivered", _delivered(history, views, total))
    open_deliveries = total - states["delivered"] - states["resolved"]
    if open_deliveries:
        return components.verdict("pending", _of(open_deliveries, total, "is in progress"), ".")
    return components.verdict("resolved", f"{states['delivered']:,} delivered, {states['resolved']:,} resolved.")


# States that need attention, the worst first.
_PROBLEMS = {"dead": "gave up", "held": "is held", "scheduled": "failed and waits for its next attempt"}


def _of(number: int, total: int, words: str) -> str:
    """Return a text such as `1 of 3 deliveries gave up`."""
    if total == 1:
        return f"The delivery {words}"
    plural = words.replace("is ", "are ", 1).replace("waits for its", "wait for their")
    return f"{number:,} of {components.count(total, 'delivery')} {words if number == 1 else plural}"


def _why(views: list[DeliveryView], state: str) -> list[Child]:
    """Return the cause of the first delivery in this state, if all deliveries in the state share it."""
    like = [each for each in views if each.state == state]
    if not like:
        return ["."]
    first = like[0]
    link = tag("a", "What to do", href=f"#{first.anchor}")
    if len({_cause(each) for each in like}) > 1:
        return [". ", link, "."]
    if first.history.delivery.reason is not None:
        return [" (", first.history.delivery.reason.value, "). ", link, "."]
    found = next(explain.next_steps(first.history, first.now), None) if state == "held" else None
    if found is None:
        return [". ", link, "."]
    return [": ", delivery_section.next_step_sentence(found, first.now, sentence=False), " ", link, "."]


def _cause(each: DeliveryView) -> str:
    reason = each.history.delivery.reason
    if reason is not None:
        return reason.value
    return next((step.words for step in explain.next_steps(each.history, each.now)), "")


def _delivered(history: MessageHistory, views: list[DeliveryView], total: int) -> str:
    ends = [each.history.delivery.finished_at for each in views if each.history.delivery.finished_at is not None]
    took = max(0.0, (max(ends) - history.message.created_at).total_seconds()) if ends else None
    words = "Delivered" if total == 1 else f"All {components.count(total, 'delivery')} arrived"
    return f"{words}." if took is None or history.others else f"{words}, {length(took)} after it was accepted."


def _numbers(
    context: PageContext, history: MessageHistory, views: list[DeliveryView], states: Counter[str]
) -> Safe | None:
    """Return the counts by state.

    Each count links to the first delivery in that state, or to the list if the page does not show all deliveries.
    """
    if not states:
        return None
    links = {each.state: f"#{each.anchor}" for each in reversed(views)}
    links |= {state: deliveries.list_link(context, history.message, state) for state in history.other_states}
    shown = [state for state, number in states.items() if number]
    found = (components.number(each, f"{states[each]:,}", components.state(each), href=links[each]) for each in shown)
    return components.numbers(*found)


# ── the message ───────────────────────────────────────────────────────────────────────────────────────────────────


async def _fields(context: PageContext, history: MessageHistory) -> Safe:
    message, app, published = history.message, None, None
    accepted = join(components.clock(message.created_at), ", ", components.ago(message.created_at, history.now))
    if not context.viewer.portal:
        found = await context.application(message.app_id)
        app = context.anchor(found.name, f"/applications/{found.id}")
    if history.published_at is not None:
        before = length(max(0.0, (message.created_at - history.published_at).total_seconds()))
        published = f"to an outbox, {before} before it was accepted"
    rows: list[tuple[str, Child]] = [
        ("Message", components.ident(message.id)),
        ("Application", app),
        ("Event type", await _event_type(context, message)),
        ("Published", published),
        ("Accepted", accepted),
        ("Not before", None if message.deliver_at is None else components.clock(message.deliver_at)),
        ("Event id", None if message.event_id is None else components.ident(message.event_id)),
        ("Channels", _search_links(context, message, message.channels, "channel")),
        ("Tags", _search_links(context, message, message.tags, "tag")),
        ("Ordering key", None if message.ordering_key is None else components.ident(message.ordering_key)),
        ("Trace id", None if message.trace is None else components.ident(trace_id(message.trace))),
    ]
    return components.fields(rows)


async def _event_type(context: PageContext, message: Message) -> Safe:
    """Link the event type to the catalogue, if the catalogue has it."""
    known = await context.store.catalogue.event_type(context.org_id, message.event_type)
    where = None if known is None else context.link(f"/event-types/{message.event_type}")
    return components.ident(message.event_type, href=where)


def _search_links(context: PageContext, message: Message, values: tuple[str, ...] | None, param: str) -> Safe | None:
    """Link each value to the messages that have it too."""
    app = None if context.viewer.portal else message.app_id
    links = [context.anchor(value, "/messages", **{"app": app, param: value}) for value in values or ()]
    return tag("span", components.separated(", ", links)) if links else None


def _payload(context: PageContext, message: Message) -> Safe:
    if message.payload is None:
        removed = components.quiet("The payload was removed. The message cannot be sent again.")
        return components.section("Payload", removed)
    raw = context.param("payload") == "raw"
    tabs = [
        ("Pretty", context.here(payload=None), not raw),
        ("Raw", context.here(payload="raw"), raw),
        (f"Download {len(message.payload):,} bytes", context.link(f"/messages/{message.id}/payload"), False),
    ]
    shown = request_response.payload_block(message.payload, raw=raw)
    return components.section("Payload", shown, aside=components.tabs("Payload", tabs), id_="payload")


async def _other_deliveries(context: PageContext, history: MessageHistory) -> Safe | None:
    if not history.others:
        return None
    title = components.count(len(history.others), "more delivery")
    table = await deliveries.table(context, history.others[:MAX_LISTED])
    link = tag("a", _all_words(history), href=deliveries.list_link(context, history.message))
    return components.section(title, table, aside=link, id_="beyond")


def _all_words(history: MessageHistory) -> str:
    return f"All {len(history.deliveries) + len(history.others):,} deliveries, by state"


def _more(context: PageContext, history: MessageHistory) -> Safe:
    message = history.message
    path = f"/messages/{message.id}"
    buttons, command = [], None
    if len(history.deliveries) > 1:
        buttons.append(components.link_button(deliveries.list_link(context, message), _all_words(history)))
    if context.may_change and message.payload is not None:
        buttons += [
            components.link_button(context.link(f"{path}/resend"), "Send to another endpoint"),
            components.link_button(context.link(f"{path}/expunge"), "Remove the payload", kind="danger"),
        ]
    if not context.viewer.portal:
        trace = components.code(f"hookline trace {message.id}", name="command")
        command = join(components.quiet("On the command line:"), trace)
    return components.section("More", components.actions(*buttons), command)
