"""The catalogue of event types, and the page of one event type with its schema and an example.

`event_type_edit.py` edits them.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import msgspec

from hookline.dashboard import components
from hookline.dashboard.page import Page, get
from hookline.dashboard.page_context import PageContext
from hookline.dashboard.pages.event_type_edit import ARCHIVED, NEW, path, pretty
from hookline.errors import NoSuch
from hookline.model.catalogue import EventType
from hookline.rules.checks.text import check_name
from hookline.services import event_types as catalogue
from hookline.services import example_payload
from hookline.services.schemas.validate import newest
from hookline.web.html import Child, Safe, join, tag

SHOWN = 100  # event types on one page
_TABS = {"": "In use", "1": "Including archived"}
MAX_EXAMPLE = 2000  # bytes; a longer example is not shown as a command


# ── the catalogue ─────────────────────────────────────────────────────────────────────────────────────────────────


@get("/event-types", portal=True)
async def show(context: PageContext) -> Page:
    after = context.param("after")
    archived = "1" if context.param("archived") and not context.viewer.portal else None
    if after is not None:
        check_name("after", after)
    rows, with_archived = context.rows(SHOWN), archived is not None
    found = await context.store.catalogue.event_types(context.org_id, rows, archived=with_archived)
    types = [each for each in found[:SHOWN] if _visible(context, each)]
    following = found[SHOWN - 1].name if len(found) > SHOWN else None
    new = components.link_button(context.link(NEW), "New event type", kind="main") if _may_edit(context) else None
    tabs = components.filter_tabs(context, "Which event types", "archived", _TABS, archived)
    return Page(
        title="Event types",
        aside=new,
        body=[
            _verdict(types, following is not None or after is not None),
            None if context.viewer.portal else tabs,
            _table(context, types) if types else _empty(context),
            components.more(context, following, "More"),
        ],
    )


def _may_edit(context: PageContext) -> bool:
    """Whether the viewer may edit the catalogue. Customers in the portal can only read it."""
    return context.may_change and not context.viewer.portal


def _visible(context: PageContext, each: EventType) -> bool:
    """Whether the viewer may see the event type.

    Customers do not see archived event types, because nobody can choose them.
    """
    return not (context.viewer.portal and each.archived)


def _verdict(types: Sequence[EventType], more: bool) -> Safe:
    if not types:
        return components.verdict("resolved", "No event types.")
    without_schema = sum(each.schemas is None and not each.archived for each in types)
    words = f"{components.count(len(types), 'event type')}{' on this page' if more else ''}"
    if not without_schema:
        return components.verdict("delivered", f"{words}, all with a schema.")
    return components.verdict("delivered", f"{words}; {without_schema:,} without a schema.")


def _empty(context: PageContext) -> Safe:
    if context.viewer.portal:
        return components.empty("The catalogue has no event types, so every endpoint receives all messages.")
    return components.empty(
        "Messages can have any type. Event types in the catalogue have a description, a schema and an example, and "
        "endpoints can subscribe to them. Add the first one:",
        "hookline event-types add order.paid --description 'An order was paid'",
    )


def _table(context: PageContext, types: Sequence[EventType]) -> Safe:
    return components.table(
        types,
        (
            ("Name", lambda each: _name(context, each)),
            ("Description", lambda each: components.clip(each.description, 120)),
            ("Group", lambda each: each.group_name),
            ("Schema", _newest_schema),
            ("Payloads", lambda each: "validated" if each.validated else "not validated"),
            ("Changed", lambda each: components.ago(each.updated_at, context.now)),
        ),
        caption="Event types by name",
        key=lambda each: each.name,
    )


def _name(context: PageContext, each: EventType) -> Safe:
    words = [word for word, true in (("archived", each.archived), ("deprecated", each.deprecated)) if true]
    flags = tag("div", components.state("resolved", ", ".join(words))) if words else None
    return join(components.ident(each.name, href=context.link(path(each.name)), most=60), flags)


def _newest_schema(each: EventType) -> Child:
    return f"version {newest(each.schemas)}" if each.schemas else tag("span", "none", class_="quiet")


# ── one event type ─────────────────────────────────────────────────────────────────────────────────────────────────


@get("/event-types/{name}", portal=True)
async def show_one(context: PageContext) -> Page:
    found = await catalogue.find(context.deps, context.caller, context.path("name"))
    if not _visible(context, found):
        raise NoSuch("event type", found.name)
    payload = example_payload.payload(found, context.services.wall().replace(microsecond=0))
    example = components.code(pretty(msgspec.json.decode(payload)), name="example")
    return Page(
        title=found.name,
        aside=_buttons(context, found),
        body=[
            _state(found),
            tag("p", found.description) if found.description else None,
            _fields(context, found),
            components.section("Example", example, _command(context, found, payload)),
            *_schemas(found),
        ],
    )


def _state(found: EventType) -> Safe:
    if found.archived:
        return components.verdict("resolved", ARCHIVED)
    if found.deprecated:
        return components.verdict("scheduled", "Deprecated. It is still sent, but new endpoints should not choose it.")
    if found.validated and found.schemas:
        words = f"Messages whose payload does not match version {newest(found.schemas)} of the schema are refused."
        return components.verdict("delivered", words)
    words = "the schema is not enforced" if found.schemas else "there is no schema"
    return components.verdict("delivered", f"All payloads are accepted: {words}.")


def _buttons(context: PageContext, found: EventType) -> Safe | None:
    if not _may_edit(context):
        return None
    edit = components.link_button(context.link(path(found.name, "/edit")), "Edit", kind="main")
    step, words = ("/restore", "Restore") if found.archived else ("/archive", "Archive")
    return components.actions(edit, components.button(context, context.link(path(found.name, step)), words))


def _fields(context: PageContext, found: EventType) -> Safe:
    customer = context.viewer.portal
    policy = None if customer or found.policy is None else tag("code", msgspec.json.encode(found.policy).decode())
    rows: list[tuple[str, Child]] = [
        ("Name", components.ident(found.name, most=80)),
        ("Group", found.group_name),
        ("Feature flags", None if customer else ", ".join(found.feature_flags) or None),
        ("Retry policy", policy),
        ("Changed", components.ago(found.updated_at, context.now)),
        ("Messages", tag("a", "messages of this type", href=context.link("/messages", type=found.name))),
    ]
    return components.fields(rows)


def _command(context: PageContext, found: EventType, payload: bytes) -> Safe | None:
    """Return the command that sends the example.

    Return None for customers in the portal, who have no command line, and for an example that is too long.
    """
    if context.viewer.portal or len(payload) > MAX_EXAMPLE:
        return None
    app = "APPLICATION" if context.app is None else context.app.uid or context.app.id
    command = f"hookline send {app} {found.name} --data {shlex.quote(payload.decode())}"
    return join(tag("p", "Send this example:", class_="quiet"), components.code(command, name="command"))


def _schemas(found: EventType) -> list[Safe]:
    """Return all schemas: the newest is open, the older ones are folded."""
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
