"""Replay and resolve: how many it touches, where, and then the deed. What is selected is done at once, a filter by tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from hookline.dashboard import components
from hookline.dashboard.page import Done, Form, Page
from hookline.dashboard.page_context import PageContext
from hookline.dashboard.pages.dead_letters import filter as dead_letter_filter
from hookline.dashboard.pages.dead_letters.filter import Asked
from hookline.errors import Conflict, InvalidInput
from hookline.model import DeadFilter, DeadSummary, TaskKind
from hookline.model.states import EndpointStatus
from hookline.rules.checks import catalogue
from hookline.rules.replay import refusal
from hookline.services import dead_letters
from hookline.services.dead_letters import DeadLetterQuery, Started, shown_id
from hookline.web.html import Child, Safe, tag

MAX_LISTED = 50  # endpoints that a page of confirmation lists

NONE = "select at least one dead letter, or choose all that match"


class Chosen(Struct, frozen=True, kw_only=True):
    """The selected ones, or all that match."""

    asked: Asked
    where: DeadFilter
    picked: bool

    def hidden(self) -> list[tuple[str, str]]:
        """What a form of confirmation brings back, so that what is done is what was counted."""
        if self.picked:
            return [("id", shown_id(number)) for number in self.where.ids or ()]
        assert self.where.until is not None
        typed = {**self.asked.typed, "until": self.where.until.isoformat()}
        return [("all", "1"), *typed.items()]


async def _chosen(context: PageContext, get: dead_letter_filter.Get, picks: Sequence[str], kind: TaskKind) -> Chosen:
    asked = await dead_letter_filter.read(context, get)
    if picks:
        # By name, resolved ones may be sent again; a filter never means them.
        resolved = None if kind == TaskKind.REPLAY_DEAD else False
        within = await dead_letters.filter_of(context.deps, context.caller, DeadLetterQuery(app=asked.query.app))
        where = replace(within, ids=dead_letters.numbers(picks), resolved=resolved)
        return Chosen(asked=asked, where=where, picked=True)
    if get("all") is None:
        raise InvalidInput(NONE)
    asked.check()
    # What dies from now on was not counted.
    until = context.now if asked.query.until is None else min(asked.query.until, context.now)
    asked = replace(asked, query=replace(asked.query, until=until))
    where = await dead_letters.matching(context.deps, context.caller, asked.query)
    return Chosen(asked=asked, where=where, picked=False)


# ── confirmation ──────────────────────────────────────────────────────────────────────────────────────────────────


async def show_replay(context: PageContext) -> Page:
    if not _anything(context):
        return _nothing("Replay", context)
    chosen = await _chosen(context, context.param, _picks(context), TaskKind.REPLAY_DEAD)
    summary = await context.store.dead_summary(chosen.where)
    statuses = await _statuses(context, summary)
    left = sum(group.dead for group in summary.groups if refusal(statuses[group.endpoint_no]) is not None)
    ends = {group.endpoint_no for group in summary.groups if refusal(statuses[group.endpoint_no]) is None}
    many = f"{components.count(summary.dead - left, 'delivery', summary.more)} to {components.count(len(ends), 'endpoint')}"
    body: list[Child] = [_extent(summary, many, left)]
    if ends:
        press = tag("button", f"Replay {many}", class_="button main")
        body.append(_ask(context, "/dead-letters/replay", chosen, press))
    return _page("Replay", context, chosen, [*body, _touched(context, summary, statuses)])


def _picks(context: PageContext) -> list[str]:
    return [text for text in context.request.query_params.getlist("id") if text]


def _anything(context: PageContext) -> bool:
    """Whether something is chosen: not where the button was pressed with no row selected, or the application switched."""
    return bool(_picks(context)) or context.param("all") is not None


def _nothing(verb: str, context: PageContext) -> Page:
    dead_letter_filter.chosen_app(context)
    back = tag("a", "Back to the dead letters", href=context.link("/dead-letters"))
    words = components.verdict("resolved", f"Nothing is chosen: {NONE}.")
    return Page(title=f"{verb} dead letters", rail="dead", body=[words], aside=back, refresh_seconds=None)


def _extent(summary: DeadSummary, many: str, left: int) -> Safe:
    if not summary.groups:
        return components.verdict("resolved", "There is nothing to replay: none matches any more.")
    if left == summary.dead:
        return components.verdict("held", "Nothing can be sent: every endpoint here is disabled or deleted.")
    told = f"{many[0].upper()}{many[1:]} will be sent again: attempts and time start anew, the webhook-id stays."
    stay = f" {left:,} more stay dead: their endpoint is disabled or deleted." if left else ""
    return components.verdict("pending", told, stay)


async def show_resolve(context: PageContext) -> Page:
    if not _anything(context):
        return _nothing("Resolve", context)
    chosen = await _chosen(context, context.param, _picks(context), TaskKind.RESOLVE_DEAD)
    return await _resolve_page(context, chosen)


async def _resolve_page(context: PageContext, chosen: Chosen, note: str = "", fault: str | None = None) -> Page:
    summary = await context.store.dead_summary(chosen.where)
    ends = len({group.endpoint_no for group in summary.groups})
    many = f"{components.count(summary.dead, 'dead letter', summary.more)} of {components.count(ends, 'endpoint')}"
    words = f"{many} will be closed without being sent." if summary.groups else "There is nothing to resolve."
    body: list[Child] = [components.verdict("resolved", words)]
    if summary.groups:
        field = components.field(
            "note",
            "Note",
            note,
            hint="Why they need no delivery; it is kept with each of them.",
            error=fault,
            type_="textarea",
            required=True,
            maxlength=str(catalogue.MAX_NOTE),
            autofocus=True,
        )
        press = tag("button", f"Resolve {many}", class_="button main")
        body.append(_ask(context, "/dead-letters/resolve", chosen, field, press))
    body.append(_touched(context, summary, await _statuses(context, summary)))
    return _page("Resolve", context, chosen, body, status=422 if fault else 200)


def _page(verb: str, context: PageContext, chosen: Chosen, body: Sequence[Child], status: int = 200) -> Page:
    back = tag("a", "Back to the dead letters", href=context.link("/dead-letters", **chosen.asked.typed))
    return Page(title=f"{verb} dead letters", rail="dead", body=body, aside=back, status=status, refresh_seconds=None)


def _ask(context: PageContext, path: str, chosen: Chosen, *children: Child) -> Safe:
    hidden = (tag("input", type="hidden", name=name, value=value) for name, value in chosen.hidden())
    return components.form(context, context.link(path), *hidden, *children)


async def _statuses(context: PageContext, summary: DeadSummary) -> dict[int, EndpointStatus]:
    """Of every endpoint in it; one that is gone altogether counts as deleted."""
    nos = {group.endpoint_no for group in summary.groups}
    found = {endpoint.no: endpoint.status for endpoint in await context.store.endpoints_for(sorted(nos))}
    return {no: found.get(no, EndpointStatus.DELETED) for no in nos}


def _touched(context: PageContext, summary: DeadSummary, statuses: Mapping[int, EndpointStatus]) -> Safe | None:
    if not summary.groups:
        return None
    counts: Counter[int] = Counter()
    for group in summary.groups:
        counts[group.endpoint_no] += group.dead
    named = {group.endpoint_no: group for group in summary.groups}
    rows: list[Sequence[Child]] = [
        (
            components.ident(named[no].endpoint_url, href=context.link(f"/endpoints/{named[no].endpoint_id}"), most=60),
            _status(statuses[no]),
            f"{many:,}",
        )
        for no, many in counts.most_common(MAX_LISTED)
    ]
    rest = len(counts) - len(rows)
    return components.section(
        "Which it touches",
        components.table(("Endpoint", "Status", "Dead letters"), rows, caption="Endpoints", numeric=(2,)),
        tag("p", f"… and {components.count(rest, 'endpoint')} more", class_="quiet") if rest else None,
    )


def _status(status: EndpointStatus) -> Safe:
    match status:
        case EndpointStatus.ACTIVE:
            return components.state("delivered", "active")
        case EndpointStatus.PAUSED:
            return components.state("held", "paused: held until it is resumed")
        case EndpointStatus.DISABLED:
            return components.state("held", "disabled: nothing would be sent")
        case _:
            return components.state("dead", f"{status.name.lower()}: nothing would be sent")


# ── doing it ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def replay(context: PageContext, form: Form) -> Done:
    chosen = await _chosen(context, _getter(form), form.values("id"), TaskKind.REPLAY_DEAD)
    if not chosen.picked:
        return _started(context, await dead_letters.replay_matching(context.deps, context.caller, chosen.asked.query))
    done = await dead_letters.replay(context.deps, context.caller, form.values("id"), chosen.asked.query.app)
    return _done(context, chosen, done, "Replayed", dead_letters.CANNOT_BE_SENT)


async def resolve(context: PageContext, form: Form) -> Done | Page:
    chosen = await _chosen(context, _getter(form), form.values("id"), TaskKind.RESOLVE_DEAD)
    note, query = form.text("note").replace("\r\n", "\n"), chosen.asked.query
    try:
        if not chosen.picked:
            return _started(context, await dead_letters.resolve_matching(context.deps, context.caller, query, note))
        done = await dead_letters.resolve(context.deps, context.caller, form.values("id"), note, query.app)
    except InvalidInput as error:
        if error.field != "note":
            raise
        return await _resolve_page(context, chosen, note, error.words)
    return _done(context, chosen, done, "Resolved", dead_letters.RESOLVED_BEFORE)


def _getter(form: Form) -> dead_letter_filter.Get:
    return lambda name: form.text(name) or None


def _done(context: PageContext, chosen: Chosen, made: dead_letters.Done, verb: str, why_not: str) -> Done:
    left = f"; {made.left:,} left as {'it was' if made.left == 1 else 'they were'}: {why_not}" if made.left else ""
    return Done(
        to=context.link("/dead-letters", **chosen.asked.typed),
        notice=f"{verb} {components.count(made.done, 'dead letter')}{left}.",
    )


async def replay_one(context: PageContext, _form: Form) -> Done:
    ref = context.path("dead_letter_id")
    await dead_letters.replay(context.deps, context.caller, [ref], dead_letter_filter.chosen_app(context))
    back = {name: context.param(name) for name in (*dead_letter_filter.NAMES, "after")}
    return Done(to=context.link("/dead-letters", **back), notice=f"Replayed {ref}: it is on its way.")


def _started(context: PageContext, made: Started) -> Done:
    if not made.tasks:
        raise Conflict("none of them is there any more")
    goes_on = "it goes on by itself" if len(made.tasks) == 1 else "they go on by themselves"
    notice = f"Started {components.count(len(made.tasks), 'task')}. You can leave this page: {goes_on}."
    if made.refused:
        notice += f" Not everywhere: {made.refused}."
    if made.more:
        most = dead_letters.MAX_APPLICATIONS
        notice += f" Only of {most} applications at a time: do it again for the others."
    to = context.link("/tasks", batch=made.batch) if made.batch else context.link(f"/tasks/{made.tasks[0].id}")
    return Done(to=to, notice=notice)
