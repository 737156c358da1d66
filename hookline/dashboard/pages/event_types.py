"""Event types: the catalogue, and one of them with its schema and an example. `event_type_edit.py` changes them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import msgspec

from hookline import example
from hookline.dashboard import parts
from hookline.dashboard.look import Look
from hookline.dashboard.page import Page, View
from hookline.dashboard.pages import event_type_edit
from hookline.dashboard.pages.event_type_edit import NEW, path, pretty
from hookline.errors import NotFound
from hookline.html import Child, Safe, join, tag
from hookline.model import EventType, PolicyOverride
from hookline.schema import newest
from hookline.services import event_types as catalogue
from hookline.store.base import Page as Rows
from hookline.texts import check_name

SHOWN = 100
MOST_EXAMPLE = 2000  # characters of an example that stands in a command


# ── the catalogue ─────────────────────────────────────────────────────────────────────────────────────────────────


async def show(look: Look) -> Page:
    after, all_ = look.param("after"), look.param("archived") is not None and not look.viewer.portal
    if after is not None:
        check_name("after", after)
    found = await look.store.event_types(look.org_id, Rows(limit=SHOWN + 1, iterator=after), archived=all_)
    types = [each for each in found[:SHOWN] if _reaches(look, each)]
    further = found[SHOWN - 1].name if len(found) > SHOWN else None
    new = parts.link_button(look.link(NEW), "New event type", kind="main") if _edits(look) else None
    return Page(
        title="Event types",
        rail="event-types",
        aside=new,
        body=[
            _verdict(types, further is not None or after is not None),
            None if look.viewer.portal else _which(look, all_),
            _table(look, types) if types else _nothing(look),
            parts.more(look, further, "More"),
        ],
        every=None,
    )


def _edits(look: Look) -> bool:
    """The catalogue is the organization's: customers read it."""
    return look.may_change and not look.viewer.portal


def _reaches(look: Look, each: EventType) -> bool:
    """What is archived cannot be chosen any more: customers do not see it."""
    return not (look.viewer.portal and each.archived)


def _verdict(types: Sequence[EventType], more: bool) -> Safe:
    if not types:
        return parts.verdict("resolved", "No event types here.")
    loose = sum(each.schemas is None and not each.archived for each in types)
    words = f"{parts.count(len(types), 'event type')}{' on this page' if more else ''}"
    if not loose:
        return parts.verdict("delivered", f"{words}, all with a schema.")
    return parts.verdict("delivered", f"{words}; {loose:,} without a schema.")


def _which(look: Look, all_: bool) -> Safe:
    links = (
        ("In use", look.here(archived=None, after=None), not all_),
        ("With archived ones", look.here(archived="1", after=None), all_),
    )
    return parts.tabs("Which event types", links)


def _nothing(look: Look) -> Safe:
    if look.viewer.portal:
        return parts.empty("There are no event types that endpoints could choose: they get every message.")
    return parts.empty(
        "Messages may be of any type; those in the catalogue have a description, a schema and an example, and endpoints "
        "can choose them. Add the first:",
        "hookline event-types add order.paid --description 'An order was paid'",
    )


def _table(look: Look, types: Sequence[EventType]) -> Safe:
    return parts.table(
        ("Name", "Description", "Group", "Schema", "Payloads", "Changed"),
        [_row(look, each) for each in types],
        caption="Event types by name",
        keys=[each.name for each in types],
    )


def _row(look: Look, each: EventType) -> list[Child]:
    short = each.description if len(each.description) <= 120 else f"{each.description[:119]}…"
    return [
        join(parts.ident(each.name, href=look.link(path(each.name)), most=60), _standing(each)),
        short,
        each.group_name,
        f"version {newest(each.schemas)}" if each.schemas else tag("span", "none", class_="quiet"),
        "must fit it" if each.validated else "anything",
        parts.ago(each.updated_at, look.now),
    ]


def _standing(each: EventType) -> Safe | None:
    words = [word for word, true in (("archived", each.archived), ("deprecated", each.deprecated)) if true]
    return tag("div", parts.state("resolved", ", ".join(words))) if words else None


# ── one of them ───────────────────────────────────────────────────────────────────────────────────────────────────


async def show_one(look: Look) -> Page:
    found = await catalogue.find(look.deps, look.by, look.path("name"))
    if not _reaches(look, found):
        raise NotFound(f"no event type {found.name!r}")
    payload = example.payload(found, look.services.wall().replace(microsecond=0))
    return Page(
        title=found.name,
        rail="event-types",
        aside=_buttons(look, found),
        body=[
            _state(found),
            tag("p", found.description) if found.description else None,
            _facts(look, found),
            parts.section("Example", parts.code(_readable(payload), name="example"), _command(look, found, payload)),
            *_schemas(found),
        ],
        every=None,
    )


def _state(found: EventType) -> Safe:
    if found.archived:
        return parts.verdict("resolved", "Archived: endpoints that chose it keep it, and no other can choose it.")
    if found.deprecated:
        return parts.verdict("scheduled", "Deprecated: it is still sent, and should not be chosen for anything new.")
    if found.validated and found.schemas:
        words = f"Messages whose payload does not fit version {newest(found.schemas)} of its schema are refused."
        return parts.verdict("delivered", words)
    words = "its schema describes payloads, and is not enforced" if found.schemas else "it has no schema"
    return parts.verdict("delivered", f"Payloads are taken as they are: {words}.")


def _buttons(look: Look, found: EventType) -> Safe | None:
    if not _edits(look):
        return None
    edit = parts.link_button(look.link(path(found.name, "/edit")), "Edit", kind="main")
    if found.archived:
        return parts.actions(edit, parts.button(look, look.link(path(found.name, "/restore")), "Bring back"))
    return parts.actions(edit, parts.button(look, look.link(path(found.name, "/archive")), "Archive"))


def _facts(look: Look, found: EventType) -> Safe:
    customer = look.viewer.portal
    return parts.fields(
        (
            ("Name", parts.ident(found.name, most=80)),
            ("Group", found.group_name),
            ("Feature flags", None if customer else ", ".join(found.feature_flags) or None),
            ("Retry policy", None if customer or found.policy is None else _policy(found.policy)),
            ("Changed", parts.ago(found.updated_at, look.now)),
            ("Messages", tag("a", "those of this type", href=look.link("/messages", type=found.name))),
        )
    )


def _policy(policy: PolicyOverride) -> Safe:
    return tag("code", msgspec.json.encode(policy).decode())


def _readable(payload: bytes) -> str:
    return pretty(msgspec.json.decode(payload))


def _command(look: Look, found: EventType, payload: bytes) -> Safe | None:
    """How to send one; only for those who have the command line."""
    if look.viewer.portal or len(payload) > MOST_EXAMPLE:
        return None
    app = "APPLICATION" if look.app is None else look.app.uid or look.app.id
    command = f"hookline send {app} {found.name} --data {shlex.quote(payload.decode())}"
    return join(tag("p", "Send one like it:", class_="quiet"), parts.code(command, name="command"))


def _schemas(found: EventType) -> list[Safe]:
    """The newest one open, the others behind their names."""
    if not found.schemas:
        return []
    last = newest(found.schemas)
    made = parts.section(f"Schema, version {last}", parts.code(pretty(found.schemas[last]), name="schema"))
    older = [
        tag("details", tag("summary", f"Schema, version {version}"), parts.code(pretty(schema), name="schema"))
        for version, schema in found.schemas.items()
        if version != last
    ]
    return [made, *older]


VIEWS = (
    View(path="/event-types", show=show, portal=True),
    View(path="/event-types/{name}", show=show_one, portal=True),
    *event_type_edit.VIEWS,
)
ACTIONS = event_type_edit.ACTIONS
