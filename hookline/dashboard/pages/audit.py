"""The audit log page: who changed what in the dashboard, in the portal, through the API and on the command line."""

from __future__ import annotations

from collections.abc import Sequence

from hookline import ids
from hookline.dashboard import components
from hookline.dashboard.filter_fields import FilterFields
from hookline.dashboard.page import Page, get
from hookline.dashboard.page_context import PageContext
from hookline.model.actors import Actor, ActorKind
from hookline.model.audit import AuditEntry, AuditFilter
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


@get("/audit")
async def show(context: PageContext) -> Page:
    context.check_app()
    filters = FilterFields(context.param, ("action", "actor", "subject", "since", "until"))
    where = AuditFilter(
        org_id=context.org_id,
        app_id=None if context.app is None else context.app.id,
        action=filters.typed.get("action"),
        actor=filters.typed.get("actor"),
        subject=filters.typed.get("subject"),
        since=filters.time("since"),
        until=filters.time("until"),
    )
    found = None if filters.errors else await context.store.access.audit_log(where, context.rows(SHOWN))
    rows = [] if found is None else found.rows[:SHOWN]
    following = None if found is None else str(rows[-1].id) if len(found.rows) > SHOWN else found.end
    filtered = context.param("after") is not None or where != AuditFilter(org_id=context.org_id)
    return Page(
        title="Audit log",
        status=422 if filters.errors else 200,
        refresh=None if filters.errors else 5.0,
        body=[
            context.live("verdict", _verdict(context, filters, rows, following)),
            components.filters(
                context,
                filters.field("actor", "Who", placeholder="ada"),
                filters.field("action", "Action", placeholder="endpoint.pause"),
                filters.field("subject", "Subject", placeholder="ep_…"),
                filters.moment("since", "Since"),
                filters.moment("until", "Until"),
            ),
            context.live("entries", _table(context, rows) if rows else _empty(filtered, following)),
            components.more(context, following, "Older" if rows else "Search older entries"),
        ],
    )


def _verdict(context: PageContext, filters: FilterFields, rows: Sequence[AuditEntry], following: str | None) -> Safe:
    if filters.errors:
        return components.verdict("dead", "The filter is invalid; see below.")
    if not rows:
        return components.verdict("resolved", "No entries.")
    if context.param("after") is not None or following is not None:
        words, shown = "Newest first. The last entry on this page is from ", rows[-1]
    else:
        words, shown = f"{components.count(len(rows), 'entry')}. The newest is {rows[0].action}, ", rows[0]
    return components.verdict("resolved", words, components.ago(shown.at, context.now), ".")


def _empty(filtered: bool, following: str | None) -> Safe:
    if following is not None:
        return components.empty("No match so far. Older entries were not searched yet.")
    if filtered:
        return components.empty("No entry matches.")
    words = "No entries yet. Changes, such as pausing an endpoint, are recorded here with the person who made them."
    return components.empty(words)


def _table(context: PageContext, rows: Sequence[AuditEntry]) -> Safe:
    return components.table(
        rows,
        (
            ("When", lambda each: components.clock(each.at)),
            ("Who", lambda each: _who(context, each.actor)),
            ("Action", lambda each: tag("a", each.action, href=context.here(action=each.action, after=None))),
            ("Subject", lambda each: _subject(context, each)),
            ("Detail", lambda each: each.detail),
            ("From", lambda each: each.address or "–"),
        ),
        caption="Audit log, newest first",
        key=lambda each: str(each.id),
    )


def _who(context: PageContext, actor: Actor) -> Child:
    kind = _KINDS[actor.kind]
    if actor.name is None:
        return kind
    return tag("span", f"{kind} ", tag("a", actor.name, href=context.here(actor=actor.name, after=None)))


def _subject(context: PageContext, each: AuditEntry) -> Child:
    """Link the subject to its page. The page of a deleted object says that the object is gone."""
    if not each.subject:
        return None
    for prefix, path in _PAGES.items():
        if each.subject.startswith(prefix) and ids.minted_at(each.subject) is not None:
            return components.ident(each.subject, href=context.link(f"{path}{each.subject}"))
    if each.action.startswith("event_type."):
        return components.ident(each.subject, href=context.link(f"/event-types/{each.subject}"))
    return components.ident(each.subject)
