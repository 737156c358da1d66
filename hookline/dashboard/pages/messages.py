"""The list of messages, with a search by id and filters from the URL."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from starlette.responses import RedirectResponse, Response

from hookline import ids
from hookline.dashboard import components
from hookline.dashboard.charts import drawing
from hookline.dashboard.filter_fields import FilterFields
from hookline.dashboard.page import Page, get
from hookline.dashboard.page_context import PageContext, one_of
from hookline.errors import InvalidInput, NotFound
from hookline.model.messages import FoundMessage, Message, MessageSearch
from hookline.rules.checks import text as text_checks
from hookline.services import dead_letters
from hookline.store import Page as Rows
from hookline.web.html import Child, Safe, join, tag

SHOWN = 40  # messages on one page
MAX_TYPES = 100  # event types offered in the filter
MAX_TYPED = 20  # event types in one search
STATES = (
    "dead",
    "held",
    "scheduled",
    "pending",
    "delivering",
    "queued",
    "resolved",
    "delivered",
)  # states of deliveries, the most important first


# URL parameters of the filter, and their labels.
FILTERS = {
    "q": "Search",
    "state": "State",
    "type": "Event type",
    "channel": "Channel",
    "tag": "Tag",
    "since": "Since",
    "until": "Until",
}
# States of messages that can be searched for, and their labels.
OFFERED = {
    "dead": "Dead at an endpoint",
    "open": "Open at an endpoint",
    "delivered": "Delivered to all endpoints",
    "none": "No endpoint matched",
}


class SearchInput(Struct, frozen=True, kw_only=True):
    """A search: the fields as the user typed them, and the filter for the store."""

    fields: FilterFields
    where: MessageSearch

    @property
    def text(self) -> str | None:
        return None if self.fields.errors else self.fields.typed.get("q")


class MessagePage(Struct, frozen=True, kw_only=True):
    """One page of messages, and the positions of the pages before and after it."""

    rows: Sequence[FoundMessage]
    newer: str | None = None
    older: str | None = None
    stopped: bool = False  # the search reached its limit before the page was full; `older` or `newer` continues it


@get("/messages", portal=True)
async def show(context: PageContext) -> Page | Response:
    search = _read(context)
    if search.text is not None and (target := await _page_of_id(context, search.text)) is not None:
        return RedirectResponse(target, 303)
    errors = search.fields.errors
    listed = MessagePage(rows=[]) if errors else await _list(context, search)
    first = context.param("after") is None and context.param("before") is None
    return Page(
        title="Messages",
        body=[
            context.live("verdict", _verdict(context, search, listed)),
            await _filters(context, search),
            _active_filters(context, search),
            context.live("messages", await _table(context, search, listed), _paging(context, listed)),
        ],
        status=422 if errors else 200,
        refresh=3.0 if first and not errors else None,
    )


# ── search ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _read(context: PageContext) -> SearchInput:
    """Read the search from the URL. If it names an id, the other filters are ignored."""
    context.check_app()
    fields = FilterFields(context.param, FILTERS)
    since, until = fields.time("since"), fields.time("until")
    where = MessageSearch(
        app_no=context.app_no,
        ref=fields.read("q", _ref),
        state=fields.read("state", lambda name, text: one_of(name, text, OFFERED)),
        event_types=fields.read("type", _types),
        channel=fields.read("channel", lambda name, text: text_checks.check_name(name, text, 128)),
        tag=fields.read("tag", lambda name, text: text_checks.check_text(name, text, 128)),
        after=since if since is not None or context.param("range") is None else context.since,
        before=until,
    )
    if where.ref is not None:
        where = MessageSearch(app_no=context.app_no, ref=where.ref)
    return SearchInput(fields=fields, where=where)


def _ref(name: str, text: str) -> str:
    if text.startswith(ids.ATTEMPT):
        raise InvalidInput("attempts cannot be searched: search for the message of the attempt", field=name)
    return text_checks.check_name(name, text)


def _types(name: str, text: str) -> tuple[str, ...]:
    """Split a list of event types at its commas."""
    found = tuple(dict.fromkeys(part for each in text.split(",") if (part := each.strip())))
    text_checks.check_names(name, found, MAX_TYPED, 256)
    return found


async def _page_of_id(context: PageContext, text: str) -> str | None:
    """Return the URL of the page that shows the object with this id. Return None if there is no such object: the text
    may be an event id."""
    try:
        if text.startswith(ids.MESSAGE):
            return context.link(f"/messages/{(await context.message(text)).id}")
        if text.startswith(ids.ENDPOINT):
            return context.link(f"/endpoints/{(await context.endpoint(text)).id}")
        if text.startswith(ids.APP) and not context.viewer.portal:
            return context.link("/messages", app=(await context.application(text)).id)
        if text.startswith(ids.DEAD_LETTER):
            letter = await dead_letters.find(context.deps, context.caller, text)
            return f"{context.link(f'/messages/{letter.message_id}')}#delivery-{letter.id}"
    except NotFound:
        pass
    return None


async def _list(context: PageContext, search: SearchInput) -> MessagePage:
    """Read one page. The query reads one row more, to know whether another page follows."""
    before = _key(context, "before")
    page = Rows(limit=SHOWN + 1, iterator=before or _key(context, "after"), backwards=before is not None)
    found = await context.store.history.search_messages(context.org_id, search.where, page)
    more = len(found.rows) > SHOWN
    rows = found.rows[-SHOWN:] if page.backwards else found.rows[:SHOWN]
    first, last = (rows[0].message.id, rows[-1].message.id) if rows else (None, None)
    stopped = found.end is not None and not more
    if page.backwards:
        newer = first if more else found.end
        return MessagePage(rows=rows, newer=newer, older=last, stopped=stopped)
    older = last if more else found.end
    return MessagePage(rows=rows, newer=first if page.iterator else None, older=older, stopped=stopped)


def _key(context: PageContext, name: str) -> str | None:
    found = context.param(name)
    if found is not None and (not found.startswith(ids.MESSAGE) or ids.minted_at(found) is None):
        raise InvalidInput(f"{found[:40]!r} does not belong to this listing", field=name)
    return found


def _paging(context: PageContext, listed: MessagePage) -> Safe:
    searched_to = ids.minted_at(listed.older or listed.newer or "") if listed.stopped else None
    links, note = [], None
    if searched_to is not None:
        note = components.quiet("Searched back to ", components.clock(searched_to), " so far.")
    if listed.newer is not None:
        links.append(tag("a", "← Newer", href=context.here(before=listed.newer, after=None)))
    if listed.older is not None:
        words = "Search older messages →" if listed.stopped else "Older →"
        links.append(tag("a", words, href=context.here(after=listed.older, before=None)))
    return join(note, tag("nav", *links, class_="more", aria_label="Pages") if links else None)


# ── display ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _verdict(context: PageContext, search: SearchInput, listed: MessagePage) -> Safe | None:
    if search.fields.errors:
        return components.verdict("dead", "The search is invalid; see below.")
    messages, count = listed.rows, components.count
    found = [each.states for each in messages]
    dead, held, late = (sum(bool(each.get(state)) for each in found) for state in ("dead", "held", "scheduled"))
    if dead:
        words = f"{dead:,} of {count(len(messages), 'message')} on this page {'has' if dead == 1 else 'have'} dead letters. "
        return components.verdict("dead", words, context.anchor("Show the dead letters", "/dead-letters"), ".")
    if held:
        words = f"{count(held, 'message')} on this page {'is' if held == 1 else 'are'} held. "
        link = context.anchor("Show the unhealthy endpoints", "/endpoints", state="sick")
        return components.verdict("held", words, link, ".")
    if late:
        return components.verdict("scheduled", f"{count(late, 'message')} on this page failed and will be retried.")
    return components.verdict("delivered", "No problems on this page.") if messages else None


async def _filters(context: PageContext, search: SearchInput) -> Safe:
    fields = search.fields
    known = await context.store.catalogue.event_types(context.org_id, Rows(limit=MAX_TYPES + 1), archived=False)
    beyond = f"Type any event type. The list has the first {MAX_TYPES}." if len(known) > MAX_TYPES else None
    return components.filters(
        context,
        fields.field("q", "Search", type_="search", placeholder="msg_…, dl_…, ep_… or an event id"),
        components.choice("state", "State", [("", "Any"), *OFFERED.items()], fields.typed.get("state", "")),
        components.fault(fields.error_texts["state"]) if "state" in fields.errors else None,
        fields.field("type", "Event type", list="event-types", autocomplete="off", hint=beyond),
        components.offered("event-types", ((each.name, "") for each in known[:MAX_TYPES])),
        fields.field("channel", "Channel"),
        fields.field("tag", "Tag"),
        fields.moment("since", "Since"),
        fields.moment("until", "Until"),
    )


def _active_filters(context: PageContext, search: SearchInput) -> Safe | None:
    """Return the active filters, each as a link that removes it."""
    typed, times = search.fields.typed, search.fields.times
    found: dict[str, Child] = {
        name: join(f"{FILTERS[name]}: ", drawing.instant(times[name]) if name in times else value)
        for name, value in typed.items()
    }
    if context.param("range") is not None and "since" not in typed and search.text is None:
        found["range"] = context.span.words
    cross = tag("span", "✕", aria_hidden="true")
    chips = []
    for name, words in found.items():
        href = context.here(**{name: None, "after": None, "before": None})
        chips += [tag("a", words, " ", cross, href=href, title="Remove this filter"), " "]
    return tag("p", *chips, class_="chips") if chips else None


async def _table(context: PageContext, search: SearchInput, listed: MessagePage) -> Safe | None:
    if search.fields.errors:
        return None
    if not listed.rows:
        return _empty(context, search, listed)
    messages = [each.message for each in listed.rows]
    counts = {each.message.id: each.states for each in listed.rows}
    names = await context.names(each.app_id for each in messages)
    return components.table(
        messages,
        (
            ("Event type", lambda each: context.anchor(each.event_type, f"/messages/{each.id}")),
            ("Message", lambda each: components.ident(each.id, most=20)),
            ("Known by", lambda each: _known_by(context, each)),
            ("Application", lambda each: names.get(each.app_id, each.app_id)) if context.app is None else None,
            ("Deliveries", lambda each: states(counts[each.id])),
            ("Accepted", lambda each: components.ago(each.created_at, context.now)),
            ("Size", lambda each: "removed" if each.size is None else f"{each.size:,} B"),
        ),
        caption="Messages, newest first",
        key=lambda each: each.id,
        numeric=("Size",),
    )


def _known_by(context: PageContext, message: Message) -> Safe:
    """Return the event id, channels and tags that the publisher gave."""
    known: list[Safe] = [] if message.event_id is None else [components.ident(message.event_id, most=24)]
    for param, values in (("channel", message.channels), ("tag", message.tags)):
        for value in values or ():
            href = context.here(**{param: value}, after=None, before=None)
            known.append(tag("a", value, href=href, title=f"{param} {value}"))
    return components.separated(" ", known)


def states(found: dict[str, int]) -> Safe:
    """Return the delivery counts of a message, such as `✕ 1 dead ● 2 delivered`."""
    shown = [components.state(name, f"{found[name]:,} {name}") for name in STATES if found.get(name)]
    return join(*(join(each, " ") for each in shown)) if shown else tag("span", "no endpoint matched", class_="quiet")


def _empty(context: PageContext, search: SearchInput, listed: MessagePage) -> Safe:
    if listed.stopped:
        return tag("p", "No match so far.", class_="quiet")
    if search.text is not None:
        words = f"No message has the id or event id {search.text!r}."
        return components.empty(words, None, _other_searches(context, search.text))
    if context.param("after") or context.param("before"):
        newest = tag("a", "Show the newest", href=context.here(after=None, before=None))
        return components.empty("No more messages.", None, newest)
    if search.fields.typed or context.param("range"):
        cleared = context.here(**dict.fromkeys((*FILTERS, "range")))
        return components.empty("No message matches.", None, tag("a", "Remove all filters", href=cleared))
    if context.viewer.portal:
        return components.empty("No messages yet.")
    app = "APP" if context.app is None else (context.app.uid or context.app.id)
    return components.empty("No messages yet. Send one:", f"hookline send {app} order.paid --data '{{\"id\": 7}}'")


def _other_searches(context: PageContext, text: str) -> Safe:
    """Offer to search for the text as an event type, a tag or a channel."""
    links = (
        context.anchor(f"{words} {text!r}", "/messages", **{param: text})
        for param, words in (("type", "event type"), ("tag", "tag"), ("channel", "channel"))
    )
    return tag("p", "Search for it as ", components.separated(", ", links), ".")
