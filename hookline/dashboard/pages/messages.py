"""Messages: a search box that knows ids, and filters that the URL holds."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from starlette.responses import RedirectResponse, Response

from hookline import ids
from hookline.dashboard import drawing, parts
from hookline.dashboard.look import Look
from hookline.dashboard.page import Action, Page, View
from hookline.dashboard.pages.message_search import FILTERS, Asked, jump, read
from hookline.errors import InvalidInput
from hookline.html import Child, Safe, join, tag
from hookline.model import Found
from hookline.store.base import Page as Rows

SHOWN = 40  # rows of a page
MOST_TYPES = 100  # event types that are offered
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

    rows: Sequence[Found]
    newer: str | None = None
    older: str | None = None
    looked: bool = False  # the walk has stopped before a page was full: `older`, or `newer`, goes on


async def show(look: Look) -> Page | Response:
    asked = read(look)
    if asked.search is not None and (target := await jump(look, asked.search)) is not None:
        return RedirectResponse(target, 303)
    listed = Listed(rows=[]) if asked.faults else await _list(look, asked)
    first = look.param("after") is None and look.param("before") is None
    return Page(
        title="Messages",
        rail="messages",
        body=[
            look.live("verdict", _verdict(look, asked, listed)),
            await _filters(look, asked),
            _chosen(look, asked),
            look.live("messages", await _table(look, asked, listed), _ways_on(look, listed)),
        ],
        status=422 if asked.faults else 200,
        every=3.0 if first and not asked.faults else None,
    )


# ── what is found ─────────────────────────────────────────────────────────────────────────────────────────────────


async def _list(look: Look, asked: Asked) -> Listed:
    """One row more than is shown is asked for, to know whether there are others."""
    before = _key(look, "before")
    page = Rows(limit=SHOWN + 1, iterator=before or _key(look, "after"), backwards=before is not None)
    found = await look.store.found_messages(look.org_id, asked.where, page)
    more = len(found.rows) > SHOWN
    rows = found.rows[-SHOWN:] if page.backwards else found.rows[:SHOWN]
    first, last = (rows[0].message.id, rows[-1].message.id) if rows else (None, None)
    looked = found.end is not None and not more
    if page.backwards:
        newer = first if more else found.end
        return Listed(rows=rows, newer=newer, older=last, looked=looked)
    older = last if more else found.end
    return Listed(rows=rows, newer=first if page.iterator else None, older=older, looked=looked)


def _key(look: Look, name: str) -> str | None:
    found = look.param(name)
    if found is not None and (not found.startswith(ids.MESSAGE) or ids.minted_at(found) is None):
        raise InvalidInput(f"{found[:40]!r} is none of this listing's", field=name)
    return found


def _ways_on(look: Look, listed: Listed) -> Safe:
    looked_to = ids.minted_at(listed.older or listed.newer or "") if listed.looked else None
    links = [
        (listed.newer, "← Newer", {"before": listed.newer, "after": None}),
        (listed.older, "Look further back →" if listed.looked else "Older →", {"after": listed.older, "before": None}),
    ]
    made = [tag("a", words, href=look.here(**query)) for key, words, query in links if key is not None]
    return join(
        None if looked_to is None else tag("p", "Looked back to ", parts.clock(looked_to), " so far.", class_="quiet"),
        tag("nav", *made, class_="more", aria_label="Pages") if made else None,
    )


# ── how it is shown ───────────────────────────────────────────────────────────────────────────────────────────────


def _verdict(look: Look, asked: Asked, listed: Listed) -> Safe | None:
    if asked.faults:
        return parts.verdict("dead", "This cannot be searched for: see below.")
    rows = listed.rows
    dead = sum(bool(each.states.get("dead")) for each in rows)
    if dead:
        words = f"{dead:,} of {parts.count(len(rows), 'message')} on this page {'has' if dead == 1 else 'have'} dead letters. "
        return parts.verdict("dead", words, tag("a", "Look at the dead letters", href=look.link("/dead-letters")), ".")
    held = sum(bool(each.states.get("held")) for each in rows)
    if held:
        words = f"{parts.count(held, 'message')} on this page {'is' if held == 1 else 'are'} held. "
        link = tag("a", "Look at what holds the endpoints", href=look.link("/endpoints", state="sick"))
        return parts.verdict("held", words, link, ".")
    late = sum(bool(each.states.get("scheduled")) for each in rows)
    if late:
        return parts.verdict(
            "scheduled", f"{parts.count(late, 'message')} on this page failed and will be tried again."
        )
    return parts.verdict("delivered", "Nothing on this page needs you.") if rows else None


async def _filters(look: Look, asked: Asked) -> Safe:
    typed, faults = asked.typed, asked.faults
    known = await look.store.event_types(look.org_id, Rows(limit=MOST_TYPES + 1), archived=False)
    return parts.filters(
        look,
        parts.field(
            "q",
            "Search",
            typed.get("q", ""),
            type_="search",
            placeholder="msg_…, dl_…, ep_… or an event id",
            error=faults.get("q"),
        ),
        parts.choice("state", "State", OFFERED, typed.get("state", "")),
        _fault(faults.get("state")),
        parts.field(
            "type",
            "Event type",
            typed.get("type", ""),
            error=faults.get("type"),
            list="event-types",
            autocomplete="off",
            hint=f"Any; the first {MOST_TYPES} are offered." if len(known) > MOST_TYPES else None,
        ),
        parts.offered("event-types", ((each.name, "") for each in known[:MOST_TYPES])),
        parts.field("channel", "Channel", typed.get("channel", ""), error=faults.get("channel")),
        parts.field("tag", "Tag", typed.get("tag", ""), error=faults.get("tag")),
        parts.moment("since", "Since", asked.since, error=faults.get("since")),
        parts.moment("until", "Until", asked.until, error=faults.get("until")),
    )


def _fault(words: str | None) -> Safe | None:
    return None if words is None else tag("p", f"✕ {words}", class_="state dead", role="alert")


def _chosen(look: Look, asked: Asked) -> Safe | None:
    """What narrows the list, each with the link that takes it away."""
    instants = {"since": asked.since, "until": asked.until}
    found: list[tuple[str, Child]] = [
        (name, join(f"{FILTERS[name]}: ", value if (at := instants.get(name)) is None else drawing.instant(at)))
        for name, value in asked.typed.items()
    ]
    if look.param("range") is not None and "since" not in asked.typed and asked.search is None:
        found.append(("range", look.span.words))
    if not found:
        return None
    chips = (
        tag(
            "a",
            words,
            " ",
            tag("span", "✕", aria_hidden="true"),
            href=_without(look, name),
            title="Take this filter away",
        )
        for name, words in found
    )
    return tag("p", *(join(chip, " ") for chip in chips), class_="chips")


def _without(look: Look, name: str) -> str:
    return look.here(**{name: None, "after": None, "before": None})


async def _table(look: Look, asked: Asked, listed: Listed) -> Safe | None:
    if asked.faults:
        return None
    if not listed.rows:
        return _nothing(look, asked, listed)
    names = None  # they are all of the one that is chosen
    if look.app is None:
        names = await look.names(each.message.app_id for each in listed.rows)
    columns = ["Event type", "Message", "Known by", "Application", "Deliveries", "Accepted", "Size"]
    if names is None:
        columns.remove("Application")
    return parts.table(
        columns,
        [_row(look, each, names) for each in listed.rows],
        caption="Messages, newest first",
        keys=[each.message.id for each in listed.rows],
        numeric=(len(columns) - 1,),
    )


def _row(look: Look, found: Found, names: dict[str, str] | None) -> list[Child]:
    message = found.message
    cells: list[Child] = [
        tag("a", message.event_type, href=look.link(f"/messages/{message.id}")),
        parts.ident(message.id, most=20),
        _known_by(look, found),
        states(found.states),
        parts.ago(message.created_at, look.now),
        "removed" if message.size is None else f"{message.size:,} B",
    ]
    if names is not None:
        cells.insert(3, names.get(message.app_id, message.app_id))
    return cells


def _known_by(look: Look, found: Found) -> Safe:
    """Its publisher's words: event id, channels, tags."""
    message = found.message
    known: list[Safe] = [] if message.event_id is None else [parts.ident(message.event_id, most=24)]
    for param, values in (("channel", message.channels), ("tag", message.tags)):
        known += [
            tag("a", value, href=look.here(**{param: value}, after=None, before=None), title=f"{param} {value}")
            for value in values or ()
        ]
    return join(*(join(" " if at else None, each) for at, each in enumerate(known)))


def states(found: dict[str, int]) -> Safe:
    """Of a message's deliveries: `✕ 1 dead ● 2 delivered`."""
    shown = [parts.state(name, f"{found[name]:,} {name}") for name in STATES if found.get(name)]
    return join(*(join(each, " ") for each in shown)) if shown else tag("span", "no endpoint matched", class_="quiet")


def _nothing(look: Look, asked: Asked, listed: Listed) -> Safe:
    if listed.looked:
        return tag("p", "None so far.", class_="quiet")
    if asked.search is not None:
        return parts.empty(
            f"No message has the id or event id {asked.search!r}.", None, _other_ways(look, asked.search)
        )
    if look.param("after") or look.param("before"):
        return parts.empty(
            "There are no more.", None, tag("a", "To the newest", href=look.here(after=None, before=None))
        )
    if asked.typed or look.param("range"):
        cleared: dict[str, str | None] = {**dict.fromkeys(FILTERS), "range": None}
        return parts.empty("No message matches.", None, tag("a", "Take all filters away", href=look.here(**cleared)))
    if look.viewer.portal:
        return parts.empty("No messages yet. They are here as soon as there is one for you.")
    app = "APP" if look.app is None else (look.app.uid or look.app.id)
    return parts.empty("No messages yet. Send one:", f"hookline send {app} order.paid --data '{{\"id\": 7}}'")


def _other_ways(look: Look, text: str) -> Safe:
    """It may be something else that messages are known by."""
    links = (
        tag("a", f"{words} {text!r}", href=look.link("/messages", **{param: text}))
        for param, words in (("type", "event type"), ("tag", "tag"), ("channel", "channel"))
    )
    return tag("p", "Look for it as ", *(join(", " if at else None, link) for at, link in enumerate(links)), ".")


VIEWS = (View(path="/messages", show=show, portal=True),)
ACTIONS: tuple[Action, ...] = ()
