"""The audit log page: who changed what in the dashboard, in the portal, through the API and on the command line."""

from __future__ import annotations

from collections.abc import Sequence

from hookline import ids
from hookline.dashboard import components, instants
from hookline.dashboard.field_parser import FieldParser
from hookline.dashboard.page import Page, get
from hookline.dashboard.page_context import PageContext
from hookline.model import Actor, ActorKind
from hookline.model.audit import AuditEntry, AuditFilter
from hookline.store.protocols import Page as Rows
from hookline.web.html import Child, Safe, tag

SHOWN = 50

_KINDS = {
    ActorKind.COMMAND_LINE: "the command line",
    ActorKind.KEY: "API key",
    ActorKind.TOKEN: "an API token",
    ActorKind.APPLICATION_KEY: "API key of the application",
    ActorKind.APPLICATION_TOKEN: "a token of the application",
    ActorKind.OPERATOR: "operator",
    ActorKind.PORTAL: "the customer, in the portal",
}
_PAGES = {ids.ENDPOINT: "/endpoints/", ids.APP: "/applications/", ids.MESSAGE: "/messages/", ids.TASK: "/tasks/"}


class _FilterInput:
    """The filter from the URL, and its errors by field."""

    def __init__(self, context: PageContext) -> None:
        names = ("action", "actor", "subject", "since", "until")
        typed = {name: value for name in names if (value := context.param(name)) is not None}
        parser = FieldParser(typed)
        self.where = AuditFilter(
            org_id=context.org_id,
            app_id=None if context.app is None else context.app.id,
            action=typed.get("action"),
            actor=typed.get("actor"),
            subject=typed.get("subject"),
            since=parser.read("since", instants.read),
            until=parser.read("until", instants.read),
        )
        self.errors = parser.error_texts


@get("/audit")
async def show(context: PageContext) -> Page:
    context.check_app()
    filters, after = _FilterInput(context), context.param("after")
    found = (
        None
        if filters.errors
        else await context.store.access.audit_log(filters.where, Rows(limit=SHOWN + 1, iterator=after))
    )
    rows = [] if found is None else found.rows[:SHOWN]
    following = None if found is None else str(rows[-1].id) if len(found.rows) > SHOWN else found.end
    filtered = filters.where != AuditFilter(org_id=context.org_id)
    return Page(
        title="Audit log",
        status=422 if filters.errors else 200,
        refresh=None if filters.errors else 5.0,
        body=[
            context.live("verdict", _verdict(context, filters, rows, following)),
            _filters(context, filters),
            context.live(
                "entries", _table(context, rows) if rows else _empty(filtered or after is not None, following)
            ),
            components.more(context, following, "Older" if rows else "Search older entries"),
        ],
    )


def _verdict(context: PageContext, filters: _FilterInput, rows: Sequence[AuditEntry], following: str | None) -> Safe:
    if filters.errors:
        return components.verdict("dead", "The filter is invalid; see below.")
    if not rows:
        return components.verdict("resolved", "No entries.")
    if context.param("after") is not None or following is not None:
        return components.verdict(
            "resolved",
            "Newest first. The last entry on this page is from ",
            components.ago(rows[-1].at, context.now),
            ".",
        )
    last = rows[0]
    entries = components.count(len(rows), "entry")
    return components.verdict(
        "resolved", f"{entries}. The newest is {last.action}, ", components.ago(last.at, context.now), "."
    )


def _filters(context: PageContext, filters: _FilterInput) -> Safe:
    where, errors = filters.where, filters.errors
    return components.filters(
        context,
        components.field("actor", "Who", where.actor or "", placeholder="ada"),
        components.field("action", "Action", where.action or "", placeholder="endpoint.pause"),
        components.field("subject", "Subject", where.subject or "", placeholder="ep_…"),
        components.moment("since", "Since", where.since, error=errors.get("since")),
        components.moment("until", "Until", where.until, error=errors.get("until")),
    )


def _empty(filtered: bool, following: str | None) -> Safe:
    if following is not None:
        return components.empty("No match so far. Older entries were not searched yet.")
    if filtered:
        return components.empty("No entry matches.")
    return components.empty(
        "No entries yet. Changes, such as pausing an endpoint, are recorded here with the person who made them."
    )


def _table(context: PageContext, rows: Sequence[AuditEntry]) -> Safe:
    return components.table(
        ("When", "Who", "Action", "Subject", "Detail", "From"),
        [_row(context, each) for each in rows],
        caption="Audit log, newest first",
        keys=[str(each.id) for each in rows],
    )


def _row(context: PageContext, each: AuditEntry) -> list[Child]:
    return [
        components.clock(each.at),
        _who(context, each.actor),
        tag("a", each.action, href=context.here(action=each.action, after=None)),
        _subject(context, each),
        each.detail,
        each.address or "–",
    ]


def _who(context: PageContext, actor: Actor) -> Child:
    kind = _KINDS[actor.kind]
    if actor.name is None:
        return kind
    return tag("span", f"{kind} ", tag("a", actor.name, href=context.here(actor=actor.name, after=None)))


def _subject(context: PageContext, each: AuditEntry) -> Child:
    """Link the subject to its page. The page of a deleted object says that it is gone."""
    if not each.subject:
        return None
    for prefix, path in _PAGES.items():
        if each.subject.startswith(prefix) and ids.minted_at(each.subject) is not None:
            return components.ident(each.subject, href=context.link(f"{path}{each.subject}"))
    if each.action.startswith("event_type."):
        return components.ident(each.subject, href=context.link(f"/event-types/{each.subject}"))
    return components.ident(each.subject)
