"""The list of messages, with a search by id and filters from the URL."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from starlette.responses import RedirectResponse, Response

from hookline import ids
from hookline.dashboard import components
from hookline.dashboard.charts import drawing
from hookline.dashboard.page import Page, get
from hookline.dashboard.page_context import PageContext
from hookline.dashboard.pages.message.search import FILTERS, SearchInput, page_of_id, read
from hookline.errors import InvalidInput
from hookline.model import FoundMessage
from hookline.store.protocols import Page as Rows
from hookline.web.html import Child, Safe, join, tag

SHOWN = 40  # messages on one page
MAX_TYPES = 100  # event types offered in the filter
STATES = (
    "dead",
    "held",
    "scheduled",
    "pending",
    "delivering",
    "queued",
    "resolved",
    "delivered",
)  # the most important first

OFFERED = (
    ("", "Any"),
    ("dead", "Dead at an endpoint"),
    ("open", "Open at an endpoint"),
    ("delivered", "Delivered to all endpoints"),
    ("none", "No endpoint matched"),
)


class MessagePage(Struct, frozen=True, kw_only=True):
    """One page of messages, and the positions of the pages before and after it."""

    rows: Sequence[FoundMessage]
    newer: str | None = None
    older: str | None = None
    stopped: bool = False  # the search reached its limit before the page was full; `older` or `newer` continues it


@get("/messages", portal=True)
async def show(context: PageContext) -> Page | Response:
    search = read(context)
    if search.text is not None and (target := await page_of_id(context, search.text)) is not None:
        return RedirectResponse(target, 303)
    listed = MessagePage(rows=[]) if search.errors else await _list(context, search)
    first = context.param("after") is None and context.param("before") is None
    return Page(
        title="Messages",
        body=[
            context.live("verdict", _verdict(context, search, listed)),
            await _filters(context, search),
            _active_filters(context, search),
            context.live("messages", await _table(context, search, listed), _paging(context, listed)),
        ],
        status=422 if search.errors else 200,
        refresh=3.0 if first and not search.errors else None,
    )


# ── search ───────────────────────────────────────────────────────────────────────────────────────────────────────


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
    links = [
        (listed.newer, "← Newer", {"before": listed.newer, "after": None}),
        (
            listed.older,
            "Search older messages →" if listed.stopped else "Older →",
            {"after": listed.older, "before": None},
        ),
    ]
    made = [tag("a", words, href=context.here(**query)) for key, words, query in links if key is not None]
    return join(
        None
        if searched_to is None
        else tag("p", "Searched back to ", components.clock(searched_to), " so far.", class_="quiet"),
        tag("nav", *made, class_="more", aria_label="Pages") if made else None,
    )


# ── display ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _verdict(context: PageContext, search: SearchInput, listed: MessagePage) -> Safe | None:
    if search.errors:
        return components.verdict("dead", "The search is invalid; see below.")
    rows = listed.rows
    dead = sum(bool(each.states.get("dead")) for each in rows)
    if dead:
        shown = components.count(len(rows), "message")
        words = f"{dead:,} of {shown} on this page {'has' if dead == 1 else 'have'} dead letters. "
        return components.verdict(
            "dead", words, tag("a", "Show the dead letters", href=context.link("/dead-letters")), "."
        )
    held = sum(bool(each.states.get("held")) for each in rows)
    if held:
        words = f"{components.count(held, 'message')} on this page {'is' if held == 1 else 'are'} held. "
        link = tag("a", "Show the unhealthy endpoints", href=context.link("/endpoints", state="sick"))
        return components.verdict("held", words, link, ".")
    late = sum(bool(each.states.get("scheduled")) for each in rows)
    if late:
        return components.verdict(
            "scheduled", f"{components.count(late, 'message')} on this page failed and will be retried."
        )
    return components.verdict("delivered", "No problems on this page.") if rows else None


async def _filters(context: PageContext, search: SearchInput) -> Safe:
    typed, errors = search.typed, search.errors
    known = await context.store.catalogue.event_types(context.org_id, Rows(limit=MAX_TYPES + 1), archived=False)
    return components.filters(
        context,
        components.field(
            "q",
            "Search",
            typed.get("q", ""),
            type_="search",
            placeholder="msg_…, dl_…, ep_… or an event id",
            error=errors.get("q"),
        ),
        components.choice("state", "State", OFFERED, typed.get("state", "")),
        _error(errors.get("state")),
        components.field(
            "type",
            "Event type",
            typed.get("type", ""),
            error=errors.get("type"),
            list="event-types",
            autocomplete="off",
            hint=f"Type any event type. The list has the first {MAX_TYPES}." if len(known) > MAX_TYPES else None,
        ),
        components.offered("event-types", ((each.name, "") for each in known[:MAX_TYPES])),
        components.field("channel", "Channel", typed.get("channel", ""), error=errors.get("channel")),
        components.field("tag", "Tag", typed.get("tag", ""), error=errors.get("tag")),
        components.moment("since", "Since", search.since, error=errors.get("since")),
        components.moment("until", "Until", search.until, error=errors.get("until")),
    )


def _error(words: str | None) -> Safe | None:
    return None if words is None else tag("p", f"✕ {words}", class_="state dead", role="alert")


def _active_filters(context: PageContext, search: SearchInput) -> Safe | None:
    """Return the active filters, each as a link that removes it."""
    instants = {"since": search.since, "until": search.until}
    found: list[tuple[str, Child]] = [
        (name, join(f"{FILTERS[name]}: ", value if (at := instants.get(name)) is None else drawing.instant(at)))
        for name, value in search.typed.items()
    ]
    if context.param("range") is not None and "since" not in search.typed and search.text is None:
        found.append(("range", context.span.words))
    if not found:
        return None
    chips = (
        tag(
            "a",
            words,
            " ",
            tag("span", "✕", aria_hidden="true"),
            href=_without(context, name),
            title="Remove this filter",
        )
        for name, words in found
    )
    return tag("p", *(join(chip, " ") for chip in chips), class_="chips")


def _without(context: PageContext, name: str) -> str:
    return context.here(**{name: None, "after": None, "before": None})


async def _table(context: PageContext, search: SearchInput, listed: MessagePage) -> Safe | None:
    if search.errors:
        return None
    if not listed.rows:
        return _empty(context, search, listed)
    names = None  # with a chosen application the column is not needed
    if context.app is None:
        names = await context.names(each.message.app_id for each in listed.rows)
    columns = ["Event type", "Message", "Known by", "Application", "Deliveries", "Accepted", "Size"]
    if names is None:
        columns.remove("Application")
    return components.table(
        columns,
        [_row(context, each, names) for each in listed.rows],
        caption="Messages, newest first",
        keys=[each.message.id for each in listed.rows],
        numeric=(len(columns) - 1,),
    )


def _row(context: PageContext, found: FoundMessage, names: dict[str, str] | None) -> list[Child]:
    message = found.message
    cells: list[Child] = [
        tag("a", message.event_type, href=context.link(f"/messages/{message.id}")),
        components.ident(message.id, most=20),
        _known_by(context, found),
        states(found.states),
        components.ago(message.created_at, context.now),
        "removed" if message.size is None else f"{message.size:,} B",
    ]
    if names is not None:
        cells.insert(3, names.get(message.app_id, message.app_id))
    return cells


def _known_by(context: PageContext, found: FoundMessage) -> Safe:
    """Return the event id, channels and tags that the publisher gave."""
    message = found.message
    known: list[Safe] = [] if message.event_id is None else [components.ident(message.event_id, most=24)]
    for param, values in (("channel", message.channels), ("tag", message.tags)):
        known += [
            tag("a", value, href=context.here(**{param: value}, after=None, before=None), title=f"{param} {value}")
            for value in values or ()
        ]
    return join(*(join(" " if at else None, each) for at, each in enumerate(known)))


def states(found: dict[str, int]) -> Safe:
    """Return the delivery counts of a message, such as `✕ 1 dead ● 2 delivered`."""
    shown = [components.state(name, f"{found[name]:,} {name}") for name in STATES if found.get(name)]
    return join(*(join(each, " ") for each in shown)) if shown else tag("span", "no endpoint matched", class_="quiet")


def _empty(context: PageContext, search: SearchInput, listed: MessagePage) -> Safe:
    if listed.stopped:
        return tag("p", "No match so far.", class_="quiet")
    if search.text is not None:
        return components.empty(
            f"No message has the id or event id {search.text!r}.", None, _other_searches(context, search.text)
        )
    if context.param("after") or context.param("before"):
        return components.empty(
            "No more messages.", None, tag("a", "Show the newest", href=context.here(after=None, before=None))
        )
    if search.typed or context.param("range"):
        cleared: dict[str, str | None] = {**dict.fromkeys(FILTERS), "range": None}
        return components.empty(
            "No message matches.", None, tag("a", "Remove all filters", href=context.here(**cleared))
        )
    if context.viewer.portal:
        return components.empty("No messages yet.")
    app = "APP" if context.app is None else (context.app.uid or context.app.id)
    return components.empty("No messages yet. Send one:", f"hookline send {app} order.paid --data '{{\"id\": 7}}'")


def _other_searches(context: PageContext, text: str) -> Safe:
    """Offer to search for the text as an event type, a tag or a channel."""
    links = (
        tag("a", f"{words} {text!r}", href=context.link("/messages", **{param: text}))
        for param, words in (("type", "event type"), ("tag", "tag"), ("channel", "channel"))
    )
    return tag("p", "Search for it as ", *(join(", " if at else None, link) for at, link in enumerate(links)), ".")
