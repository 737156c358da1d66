"""Event types: the catalogue, and one of them with its schema and an example. `event_type_edit.py` changes them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import msgspec

from hookline.dashboard import components
from hookline.dashboard.page import Page, View
from hookline.dashboard.page_context import PageContext
from hookline.dashboard.pages import event_type_edit
from hookline.dashboard.pages.event_type_edit import NEW, path, pretty
from hookline.errors import NoSuch
from hookline.model import EventType, PolicyOverride
from hookline.rules.checks.text import check_name
from hookline.services import event_types as catalogue
from hookline.services import example_payload
from hookline.services.schemas.validate import newest
from hookline.store.protocols import Page as Rows
from hookline.web.html import Child, Safe, join, tag

SHOWN = 100
MAX_EXAMPLE = 2000  # characters of an example that stands in a command


# ── the catalogue ─────────────────────────────────────────────────────────────────────────────────────────────────


async def show(context: PageContext) -> Page:
    after, all_ = context.param("after"), context.param("archived") is not None and not context.viewer.portal
    if after is not None:
        check_name("after", after)
    found = await context.store.event_types(context.org_id, Rows(limit=SHOWN + 1, iterator=after), archived=all_)
    types = [each for each in found[:SHOWN] if _reaches(context, each)]
    further = found[SHOWN - 1].name if len(found) > SHOWN else None
    new = components.link_button(context.link(NEW), "New event type", kind="main") if _edits(context) else None
    return Page(
        title="Event types",
        rail="event-types",
        aside=new,
        body=[
            _verdict(types, further is not None or after is not None),
            None if context.viewer.portal else _which(context, all_),
            _table(context, types) if types else _nothing(context),
            components.more(context, further, "More"),
        ],
        every=None,
    )


def _edits(context: PageContext) -> bool:
    """The catalogue is the organization's: customers read it."""
    return context.may_change and not context.viewer.portal


def _reaches(context: PageContext, each: EventType) -> bool:
    """What is archived cannot be chosen any more: customers do not see it."""
    return not (context.viewer.portal and each.archived)


def _verdict(types: Sequence[EventType], more: bool) -> Safe:
    if not types:
        return components.verdict("resolved", "No event types here.")
    loose = sum(each.schemas is None and not each.archived for each in types)
    words = f"{components.count(len(types), 'event type')}{' on this page' if more else ''}"
    if not loose:
        return components.verdict("delivered", f"{words}, all with a schema.")
    return components.verdict("delivered", f"{words}; {loose:,} without a schema.")


def _which(context: PageContext, all_: bool) -> Safe:
    links = (
        ("In use", context.here(archived=None, after=None), not all_),
        ("With archived ones", context.here(archived="1", after=None), all_),
    )
    return components.tabs("Which event types", links)


def _nothing(context: PageContext) -> Safe:
    if context.viewer.portal:
        return components.empty("There are no event types that endpoints could choose: they get every message.")
    return components.empty(
        "Messages may be of any type; those in the catalogue have a description, a schema and an example, and endpoints "
        "can choose them. Add the first:",
        "hookline event-types add order.paid --description 'An order was paid'",
    )


def _table(context: PageContext, types: Sequence[EventType]) -> Safe:
    return components.table(
        ("Name", "Description", "Group", "Schema", "Payloads", "Changed"),
        [_row(context, each) for each in types],
        caption="Event types by name",
        keys=[each.name for each in types],
    )


def _row(context: PageContext, each: EventType) -> list[Child]:
    short = each.description if len(each.description) <= 120 else f"{each.description[:119]}…"
    return [
        join(components.ident(each.name, href=context.link(path(each.name)), most=60), _standing(each)),
        short,
        each.group_name,
        f"version {newest(each.schemas)}" if each.schemas else tag("span", "none", class_="quiet"),
        "must fit it" if each.validated else "anything",
        components.ago(each.updated_at, context.now),
    ]


def _standing(each: EventType) -> Safe | None:
    words = [word for word, true in (("archived", each.archived), ("deprecated", each.deprecated)) if true]
    return tag("div", components.state("resolved", ", ".join(words))) if words else None


# ── one of them ───────────────────────────────────────────────────────────────────────────────────────────────────


async def show_one(context: PageContext) -> Page:
    found = await catalogue.find(context.deps, context.by, context.path("name"))
    if not _reaches(context, found):
        raise NoSuch("event type", found.name)
    payload = example_payload.payload(found, context.services.wall().replace(microsecond=0))
    return Page(
        title=found.name,
        rail="event-types",
        aside=_buttons(context, found),
        body=[
            _state(found),
            tag("p", found.description) if found.description else None,
            _facts(context, found),
            components.section(
                "Example", components.code(_readable(payload), name="example"), _command(context, found, payload)
            ),
            *_schemas(found),
        ],
        every=None,
    )


def _state(found: EventType) -> Safe:
    if found.archived:
        return components.verdict("resolved", "Archived: endpoints that chose it keep it, and no other can choose it.")
    if found.deprecated:
        return components.verdict(
            "scheduled", "Deprecated: it is still sent, and should not be chosen for anything new."
        )
    if found.validated and found.schemas:
        words = f"Messages whose payload does not fit version {newest(found.schemas)} of its schema are refused."
        return components.verdict("delivered", words)
    words = "its schema describes payloads, and is not enforced" if found.schemas else "it has no schema"
    return components.verdict("delivered", f"Payloads are taken as they are: {words}.")


def _buttons(context: PageContext, found: EventType) -> Safe | None:
    if not _edits(context):
        return None
    edit = components.link_button(context.link(path(found.name, "/edit")), "Edit", kind="main")
    if found.archived:
        return components.actions(
            edit, components.button(context, context.link(path(found.name, "/restore")), "Bring back")
        )
    return components.actions(edit, components.button(context, context.link(path(found.name, "/archive")), "Archive"))


def _facts(context: PageContext, found: EventType) -> Safe:
    customer = context.viewer.portal
    return components.fields(
        (
            ("Name", components.ident(found.name, most=80)),
            ("Group", found.group_name),
            ("Feature flags", None if customer else ", ".join(found.feature_flags) or None),
            ("Retry policy", None if customer or found.policy is None else _policy(found.policy)),
            ("Changed", components.ago(found.updated_at, context.now)),
            ("Messages", tag("a", "those of this type", href=context.link("/messages", type=found.name))),
        )
    )


def _policy(policy: PolicyOverride) -> Safe:
    return tag("code", msgspec.json.encode(policy).decode())


def _readable(payload: bytes) -> str:
    return pretty(msgspec.json.decode(payload))


def _command(context: PageContext, found: EventType, payload: bytes) -> Safe | None:
    """How to send one; only for those who have the command line."""
    if context.viewer.portal or len(payload) > MAX_EXAMPLE:
        return None
    app = "APPLICATION" if context.app is None else context.app.uid or context.app.id
    command = f"hookline send {app} {found.name} --data {shlex.quote(payload.decode())}"
    return join(tag("p", "Send one like it:", class_="quiet"), components.code(command, name="command"))


def _schemas(found: EventType) -> list[Safe]:
    """The newest one open, the others behind their names."""
    if not found.schemas:
        return []
    last = newest(found.schemas)
    made = components.section(f"Schema, version {last}", components.code(pretty(found.schemas[last]), name="schema"))
    older = [
        tag("details", tag("summary", f"Schema, version {version}"), components.code(pretty(schema), name="schema"))
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
