"""Replay and resolve dead letters: first a page that counts them and asks for confirmation, then the action.

Selected dead letters are changed at once. All dead letters of a filter are changed by background tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from hookline.dashboard import components
from hookline.dashboard.page import Done, Form, Page, get, post
from hookline.dashboard.page_context import PageContext
from hookline.dashboard.pages.dead_letters import filter as dead_letter_filter
from hookline.dashboard.pages.dead_letters.filter import FilterInput, Get
from hookline.errors import Conflict, InvalidInput
from hookline.model.dead import DeadFilter, DeadGroup, DeadSummary
from hookline.model.states import EndpointStatus
from hookline.model.tasks import TaskKind
from hookline.rules.checks import catalogue
from hookline.rules.replay import refusal
from hookline.services import dead_letters
from hookline.services.dead_letters import DeadLetterQuery, Started, shown_id
from hookline.web.html import Child, Safe

MAX_LISTED = 50  # endpoints listed on a confirmation page

NONE_SELECTED = "select at least one dead letter, or choose all that match"


class Selection(Struct, frozen=True, kw_only=True):
    """The dead letters to change: the selected ones, or all that match the filter."""

    filters: FilterInput
    where: DeadFilter
    by_id: bool

    def hidden_fields(self) -> list[tuple[str, str]]:
        """Return the hidden fields of the confirmation form, so that the action changes exactly what was counted."""
        if self.by_id:
            return [("id", shown_id(number)) for number in self.where.ids or ()]
        assert self.where.until is not None
        typed = {**self.filters.typed, "until": self.where.until.isoformat()}
        return [("all", "1"), *typed.items()]


async def _selection(context: PageContext, get: Get, selected_ids: Sequence[str], kind: TaskKind) -> Selection:
    filters = await dead_letter_filter.read(context, get)
    if selected_ids:
        # Selected dead letters may be replayed even if they are resolved. A filter never includes resolved ones.
        resolved = None if kind == TaskKind.REPLAY_DEAD else False
        within = await dead_letters.filter_of(context.deps, context.caller, DeadLetterQuery(app=filters.query.app))
        where = replace(within, ids=dead_letters.numbers(selected_ids), resolved=resolved)
        return Selection(filters=filters, where=where, by_id=True)
    if get("all") is None:
        raise InvalidInput(NONE_SELECTED)
    filters.fields.check()
    # Deliveries that die from now on were not counted, so they are excluded.
    until = context.now if filters.query.until is None else min(filters.query.until, context.now)
    filters = replace(filters, query=replace(filters.query, until=until))
    where = await dead_letters.matching(context.deps, context.caller, filters.query)
    return Selection(filters=filters, where=where, by_id=False)


# ── confirmation ──────────────────────────────────────────────────────────────────────────────────────────────────


@get("/dead-letters/replay", portal=True)
async def show_replay(context: PageContext) -> Page:
    if not _has_selection(context):
        return _empty_page("Replay", context)
    selection = await _selection(context, context.param, _selected_ids(context), TaskKind.REPLAY_DEAD)
    summary = await context.store.repair.dead_summary(selection.where)
    statuses = await _statuses(context, summary)
    not_sendable = sum(group.dead for group in summary.groups if refusal(statuses[group.endpoint_no]) is not None)
    endpoints = {group.endpoint_no for group in summary.groups if refusal(statuses[group.endpoint_no]) is None}
    deliveries = components.count(summary.dead - not_sendable, "delivery", summary.more)
    counted = f"{deliveries} to {components.count(len(endpoints), 'endpoint')}"
    body: list[Child] = [_summary_line(summary, counted, not_sendable)]
    if endpoints:
        press = components.submit(f"Replay {counted}")
        body.append(_confirm_form(context, "/dead-letters/replay", selection, press))
    body.append(_affected_endpoints(context, summary, statuses))
    return _page("Replay", context, selection.filters.typed, body)


def _selected_ids(context: PageContext) -> list[str]:
    return [text for text in context.request.query_params.getlist("id") if text]


def _has_selection(context: PageContext) -> bool:
    """Return whether the URL names dead letters, by their ids or with `all`.

    It names none if the user selected no row, or has just switched to another application.
    """
    return bool(_selected_ids(context)) or context.param("all") is not None


def _empty_page(verb: str, context: PageContext) -> Page:
    context.check_app()
    return _page(verb, context, {}, [components.verdict("resolved", f"Nothing is selected: {NONE_SELECTED}.")])


def _summary_line(summary: DeadSummary, counted: str, not_sendable: int) -> Safe:
    if not summary.groups:
        return components.verdict("resolved", "Nothing to replay: no dead letter matches any more.")
    if not_sendable == summary.dead:
        return components.verdict("held", "Nothing can be sent: all these endpoints are disabled or deleted.")
    words = f"{counted[0].upper()}{counted[1:]} will be sent again, with new attempts and time limits and the same webhook-id."
    rest = f" {not_sendable:,} more stay dead, because their endpoint is disabled or deleted." if not_sendable else ""
    return components.verdict("pending", words, rest)


@get("/dead-letters/resolve", portal=True)
async def show_resolve(context: PageContext) -> Page:
    if not _has_selection(context):
        return _empty_page("Resolve", context)
    selection = await _selection(context, context.param, _selected_ids(context), TaskKind.RESOLVE_DEAD)
    return await _resolve_page(context, selection)


async def _resolve_page(context: PageContext, selection: Selection, note: str = "", error: str | None = None) -> Page:
    summary = await context.store.repair.dead_summary(selection.where)
    endpoints = len({group.endpoint_no for group in summary.groups})
    letters = components.count(summary.dead, "dead letter", summary.more)
    counted = f"{letters} of {components.count(endpoints, 'endpoint')}"
    words = f"{counted} will be closed without being sent." if summary.groups else "Nothing to resolve."
    body: list[Child] = [components.verdict("resolved", words)]
    if summary.groups:
        field = components.field(
            "note",
            "Note",
            note,
            hint="Why they need no delivery. The note is stored with each dead letter.",
            error=error,
            type_="textarea",
            required=True,
            maxlength=str(catalogue.MAX_NOTE),
            autofocus=True,
        )
        press = components.submit(f"Resolve {counted}")
        body.append(_confirm_form(context, "/dead-letters/resolve", selection, field, press))
    body.append(_affected_endpoints(context, summary, await _statuses(context, summary)))
    return _page("Resolve", context, selection.filters.typed, body, status=422 if error else 200)


def _page(verb: str, context: PageContext, typed: Mapping[str, str], body: Sequence[Child], status: int = 200) -> Page:
    """Return a page with a link back to the list. The link keeps the filter that the user had typed."""
    back = context.anchor("Back to the dead letters", "/dead-letters", **typed)
    return Page(title=f"{verb} dead letters", body=body, aside=back, status=status)


def _confirm_form(context: PageContext, path: str, selection: Selection, *children: Child) -> Safe:
    return components.form(context, context.link(path), components.hidden_fields(selection.hidden_fields()), *children)


async def _statuses(context: PageContext, summary: DeadSummary) -> dict[int, EndpointStatus]:
    """Return the status of every endpoint in the summary. An endpoint that no longer exists counts as deleted."""
    nos = {group.endpoint_no for group in summary.groups}
    found = {endpoint.no: endpoint.status for endpoint in await context.store.catalogue.endpoints_for(sorted(nos))}
    return {no: found.get(no, EndpointStatus.DELETED) for no in nos}


def _affected_endpoints(context: PageContext, summary: DeadSummary, statuses: dict[int, EndpointStatus]) -> Safe | None:
    if not summary.groups:
        return None
    counts = summary.by_endpoint()
    table = components.table(
        counts[:MAX_LISTED],
        (
            ("Endpoint", lambda each: _endpoint(context, each[0])),
            ("Status", lambda each: components.state(*_STATUSES[statuses[each[0].endpoint_no]])),
            ("Dead letters", lambda each: f"{each[1]:,}"),
        ),
        caption="Endpoints",
        numeric=("Dead letters",),
    )
    rest = len(counts) - MAX_LISTED
    more = components.quiet(f"… and {components.count(rest, 'endpoint')} more") if rest > 0 else None
    return components.section("Affected endpoints", table, more)


def _endpoint(context: PageContext, group: DeadGroup) -> Safe:
    return components.ident(group.endpoint_url, href=context.link(f"/endpoints/{group.endpoint_id}"), most=60)


_STATUSES = {
    EndpointStatus.ACTIVE: ("delivered", "active"),
    EndpointStatus.PAUSED: ("held", "paused: held until resumed"),
    EndpointStatus.DISABLED: ("held", "disabled: cannot be sent"),
    EndpointStatus.DELETED: ("dead", "deleted: cannot be sent"),
}


# ── actions ───────────────────────────────────────────────────────────────────────────────────────────────────────


@post("/dead-letters/replay", portal=True)
async def replay(context: PageContext, form: Form) -> Done:
    selection = await _selection(context, _getter(form), form.values("id"), TaskKind.REPLAY_DEAD)
    query = selection.filters.query
    if not selection.by_id:
        return _started(context, await dead_letters.replay_matching(context.deps, context.caller, query))
    done = await dead_letters.replay(context.deps, context.caller, form.values("id"), query.app)
    return _done(context, selection, done, "Replayed", dead_letters.CANNOT_BE_SENT)


@post("/dead-letters/resolve", portal=True)
async def resolve(context: PageContext, form: Form) -> Done | Page:
    selection = await _selection(context, _getter(form), form.values("id"), TaskKind.RESOLVE_DEAD)
    note, query = form.text("note").replace("\r\n", "\n"), selection.filters.query
    try:
        if not selection.by_id:
            return _started(context, await dead_letters.resolve_matching(context.deps, context.caller, query, note))
        done = await dead_letters.resolve(context.deps, context.caller, form.values("id"), note, query.app)
    except InvalidInput as error:
        if error.field != "note":
            raise
        return await _resolve_page(context, selection, note, error.words)
    return _done(context, selection, done, "Resolved", dead_letters.RESOLVED_BEFORE)


def _getter(form: Form) -> Get:
    return lambda name: form.text(name) or None


def _done(context: PageContext, selection: Selection, made: dead_letters.Done, verb: str, why_not: str) -> Done:
    unchanged = f"; {made.left:,} not changed: {why_not}" if made.left else ""
    notice = f"{verb} {components.count(made.done, 'dead letter')}{unchanged}."
    return Done(to=context.link("/dead-letters", **selection.filters.typed), notice=notice)


@post("/dead-letters/{dead_letter_id}/replay", portal=True)
async def replay_one(context: PageContext, _form: Form) -> Done:
    ref = context.path("dead_letter_id")
    await dead_letters.replay(context.deps, context.caller, [ref], dead_letter_filter.chosen_app(context))
    back = {name: context.param(name) for name in (*dead_letter_filter.NAMES, "after")}
    return Done(to=context.link("/dead-letters", **back), notice=f"Replaying {ref}.")


def _started(context: PageContext, made: Started) -> Done:
    if not made.tasks:
        raise Conflict("no dead letter matches any more")
    notice = f"Started {components.count(len(made.tasks), 'task')} in the background. You can leave this page."
    if made.refused:
        notice += f" Not for all applications: {made.refused}."
    if made.more:
        limit = dead_letters.MAX_APPLICATIONS
        notice += f" Only {limit} applications at a time: repeat this for the others."
    to = context.link("/tasks", batch=made.batch) if made.batch else context.link(f"/tasks/{made.tasks[0].id}")
    return Done(to=to, notice=notice)
