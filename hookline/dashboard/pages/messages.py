"""Messages: a search box that knows ids, and filters that the URL holds."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from starlette.responses import RedirectResponse, Response

from hookline import ids
from hookline.dashboard import components
from hookline.dashboard.charts import drawing
from hookline.dashboard.page import Action, Page, View
from hookline.dashboard.page_context import PageContext
from hookline.dashboard.pages.message.search import FILTERS, Asked, jump, read
from hookline.errors import InvalidInput
from hookline.model import FoundMessage
from hookline.store.protocols import Page as Rows
from hookline.web.html import Child, Safe, join, tag

SHOWN = 40  # rows of a page
MAX_TYPES = 100  # event types that are offered
STATES = (
    "dead",
    "held",
    "scheduled",
    "pending",
    "delivering",
    "queued",
    "resolved",
    "delivered",
)  # those that matter most first

OFFERED = (
    ("", "Any"),
    ("dead", "Dead somewhere"),
    ("open", "Open somewhere"),
    ("delivered", "Delivered everywhere"),
    ("none", "No endpoint matched"),
)


class Listed(Struct, frozen=True, kw_only=True):
    """A page of what was found, and the ways on."""

    rows: Sequence[FoundMessage]
    newer: str | None = None
    older: str | None = None
    looked: bool = False  # the walk has stopped before a page was full: `older`, or `newer`, goes on


async def show(context: PageContext) -> Page | Response:
    asked = read(context)
    if asked.search is not None and (target := await jump(context, asked.search)) is not None:
        return RedirectResponse(target, 303)
    listed = Listed(rows=[]) if asked.faults else await _list(context, asked)
    first = context.param("after") is None and context.param("before") is None
    return Page(
        title="Messages",
        rail="messages",
        body=[
            context.live("verdict", _verdict(context, asked, listed)),
            await _filters(context, asked),
            _chosen(context, asked),
            context.live("messages", await _table(context, asked, listed), _ways_on(context, listed)),
        ],
        status=422 if asked.faults else 200,
        refresh_seconds=3.0 if first and not asked.faults else None,
    )


# ── what is found ─────────────────────────────────────────────────────────────────────────────────────────────────


async def _list(context: PageContext, asked: Asked) -> Listed:
    """One row more than is shown is asked for, to know whether there are others."""
    before = _key(context, "before")
    page = Rows(limit=SHOWN + 1, iterator=before or _key(context, "after"), backwards=before is not None)
    found = await context.store.found_messages(context.org_id, asked.where, page)
    more = len(found.rows) > SHOWN
    rows = found.rows[-SHOWN:] if page.backwards else found.rows[:SHOWN]
    first, last = (rows[0].message.id, rows[-1].message.id) if rows else (None, None)
    looked = found.end is not None and not more
    if page.backwards:
        newer = first if more else found.end
        return Listed(rows=rows, newer=newer, older=last, looked=looked)
    older = last if more else found.end
    return Listed(rows=rows, newer=first if page.iterator else None, older=older, looked=looked)


def _key(context: PageContext, name: str) -> str | None:
    found = context.param(name)
    if found is not None and (not found.startswith(ids.MESSAGE) or ids.minted_at(found) is None):
        raise InvalidInput(f"{found[:40]!r} is none of this listing's", field=name)
    return found


def _ways_on(context: PageContext, listed: Listed) -> Safe:
    looked_to = ids.minted_at(listed.older or listed.newer or "") if listed.looked else None
    links = [
        (listed.newer, "← Newer", {"before": listed.newer, "after": None}),
        (listed.older, "Look further back →" if listed.looked else "Older →", {"after": listed.older, "before": None}),
    ]
    made = [tag("a", words, href=context.here(**query)) for key, words, query in links if key is not None]
    return join(
        None
        if looked_to is None
        else tag("p", "Looked back to ", components.clock(looked_to), " so far.", class_="quiet"),
        tag("nav", *made, class_="more", aria_label="Pages") if made else None,
    )


# ── how it is shown ───────────────────────────────────────────────────────────────────────────────────────────────


def _verdict(context: PageContext, asked: Asked, listed: Listed) -> Safe | None:
    if asked.faults:
        return components.verdict("dead", "This cannot be searched for: see below.")
    rows = listed.rows
    dead = sum(bool(each.states.get("dead")) for each in rows)
    if dead:
        shown = components.count(len(rows), "message")
        words = f"{dead:,} of {shown} on this page {'has' if dead == 1 else 'have'} dead letters. "
        return components.verdict(
            "dead", words, tag("a", "Look at the dead letters", href=context.link("/dead-letters")), "."
        )
    held = sum(bool(each.states.get("held")) for each in rows)
    if held:
        words = f"{components.count(held, 'message')} on this page {'is' if held == 1 else 'are'} held. "
        link = tag("a", "Look at what holds the endpoints", href=context.link("/endpoints", state="sick"))
        return components.verdict("held", words, link, ".")
    late = sum(bool(each.states.get("scheduled")) for each in rows)
    if late:
        return components.verdict(
            "scheduled", f"{components.count(late, 'message')} on this page failed and will be tried again."
        )
    return components.verdict("delivered", "Nothing on this page needs you.") if rows else None


async def _filters(context: PageContext, asked: Asked) -> Safe:
    typed, faults = asked.typed, asked.faults
    known = await context.store.event_types(context.org_id, Rows(limit=MAX_TYPES + 1), archived=False)
    return components.filters(
        context,
        components.field(
            "q",
            "Search",
            typed.get("q", ""),
            type_="search",
            placeholder="msg_…, dl_…, ep_… or an event id",
            error=faults.get("q"),
        ),
        components.choice("state", "State", OFFERED, typed.get("state", "")),
        _fault(faults.get("state")),
        components.field(
            "type",
            "Event type",
            typed.get("type", ""),
            error=faults.get("type"),
            list="event-types",
            autocomplete="off",
            hint=f"Any; the first {MAX_TYPES} are offered." if len(known) > MAX_TYPES else None,
        ),
        components.offered("event-types", ((each.name, "") for each in known[:MAX_TYPES])),
        components.field("channel", "Channel", typed.get("channel", ""), error=faults.get("channel")),
        components.field("tag", "Tag", typed.get("tag", ""), error=faults.get("tag")),
        components.moment("since", "Since", asked.since, error=faults.get("since")),
        components.moment("until", "Until", asked.until, error=faults.get("until")),
    )


def _fault(words: str | None) -> Safe | None:
    return None if words is None else tag("p", f"✕ {words}", class_="state dead", role="alert")


def _chosen(context: PageContext, asked: Asked) -> Safe | None:
    """What narrows the list, each with the link that takes it away."""
    instants = {"since": asked.since, "until": asked.until}
    found: list[tuple[str, Child]] = [
        (name, join(f"{FILTERS[name]}: ", value if (at := instants.get(name)) is None else drawing.instant(at)))
        for name, value in asked.typed.items()
    ]
    if context.param("range") is not None and "since" not in asked.typed and asked.search is None:
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
            title="Take this filter away",
        )
        for name, words in found
    )
    return tag("p", *(join(chip, " ") for chip in chips), class_="chips")


def _without(context: PageContext, name: str) -> str:
    return context.here(**{name: None, "after": None, "before": None})


async def _table(context: PageContext, asked: Asked, listed: Listed) -> Safe | None:
    if asked.faults:
        return None
    if not listed.rows:
        return _nothing(context, asked, listed)
    names = None  # they are all of the one that is chosen
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
    """Its publisher's words: event id, channels, tags."""
    message = found.message
    known: list[Safe] = [] if message.event_id is None else [components.ident(message.event_id, most=24)]
    for param, values in (("channel", message.channels), ("tag", message.tags)):
        known += [
            tag("a", value, href=context.here(**{param: value}, after=None, before=None), title=f"{param} {value}")
            for value in values or ()
        ]
    return join(*(join(" " if at else None, each) for at, each in enumerate(known)))


def states(found: dict[str, int]) -> Safe:
    """Of a message's deliveries: `✕ 1 dead ● 2 delivered`."""
    shown = [components.state(name, f"{found[name]:,} {name}") for name in STATES if found.get(name)]
    return join(*(join(each, " ") for each in shown)) if shown else tag("span", "no endpoint matched", class_="quiet")


def _nothing(context: PageContext, asked: Asked, listed: Listed) -> Safe:
    if listed.looked:
        return tag("p", "None so far.", class_="quiet")
    if asked.search is not None:
        return components.empty(
            f"No message has the id or event id {asked.search!r}.", None, _other_ways(context, asked.search)
        )
    if context.param("after") or context.param("before"):
        return components.empty(
            "There are no more.", None, tag("a", "To the newest", href=context.here(after=None, before=None))
        )
    if asked.typed or context.param("range"):
        cleared: dict[str, str | None] = {**dict.fromkeys(FILTERS), "range": None}
        return components.empty(
            "No message matches.", None, tag("a", "Take all filters away", href=context.here(**cleared))
        )
    if context.viewer.portal:
        return components.empty("No messages yet. They are here as soon as there is one for you.")
    app = "APP" if context.app is None else (context.app.uid or context.app.id)
    return components.empty("No messages yet. Send one:", f"hookline send {app} order.paid --data '{{\"id\": 7}}'")


def _other_ways(context: PageContext, text: str) -> Safe:
    """It may be something else that messages are known by."""
    links = (
        tag("a", f"{words} {text!r}", href=context.link("/messages", **{param: text}))
        for param, words in (("type", "event type"), ("tag", "tag"), ("channel", "channel"))
    )
    return tag("p", "Look for it as ", *(join(", " if at else None, link) for at, link in enumerate(links)), ".")


VIEWS = (View(path="/messages", show=show, portal=True),)
ACTIONS: tuple[Action, ...] = ()
