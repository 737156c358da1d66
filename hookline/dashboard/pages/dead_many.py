"""Replay and resolve: how many it touches, where, and then the deed. What is selected is done at once, a filter by tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from hookline import catalogue, ids
from hookline.dashboard import parts
from hookline.dashboard.look import Look
from hookline.dashboard.page import Done, Form, Page
from hookline.dashboard.pages import dead_filter, task_parts
from hookline.dashboard.pages.dead_filter import Asked, shown_id
from hookline.errors import Conflict, InvalidInput
from hookline.flow.replay import refusal
from hookline.html import Child, Safe, tag
from hookline.model import DeadFilter, DeadSummary, NewTask, TaskKind, TaskWork
from hookline.states import EndpointStatus

MOST_APPLICATIONS = 100  # that one click makes tasks for
MOST_LISTED = 50  # endpoints that a page of confirmation lists

NONE = "select at least one dead letter, or choose all that match"
CANNOT = "its endpoint is disabled or deleted, or its payload is gone"


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


async def _chosen(look: Look, get: dead_filter.Get, picks: Sequence[str], kind: TaskKind) -> Chosen:
    asked = await dead_filter.read(look, get)
    if picks:
        # By name, resolved ones may be sent again; a filter never means them.
        resolved = None if kind == TaskKind.REPLAY_DEAD else False
        where = replace(dead_filter.scope(look), ids=dead_filter.picked(picks), resolved=resolved)
        return Chosen(asked=asked, where=where, picked=True)
    if get("all") is None:
        raise InvalidInput(NONE)
    where = asked.checked()
    if asked.state != "dead":
        raise InvalidInput("only those that are dead are replayed or resolved by a filter", field="state")
    # What dies from now on was not counted. A sick endpoint's letters would go round for ever, too.
    until = look.now if where.until is None else min(where.until, look.now)
    return Chosen(asked=asked, where=replace(where, until=until), picked=False)


# ── confirmation ──────────────────────────────────────────────────────────────────────────────────────────────────


async def show_replay(look: Look) -> Page:
    if not _anything(look):
        return _nothing("Replay", look)
    chosen = await _chosen(look, look.param, _picks(look), TaskKind.REPLAY_DEAD)
    summary = await look.store.dead_summary(chosen.where)
    statuses = await _statuses(look, summary)
    left = sum(group.dead for group in summary.groups if refusal(statuses[group.endpoint_no]) is not None)
    ends = {group.endpoint_no for group in summary.groups if refusal(statuses[group.endpoint_no]) is None}
    many = f"{parts.count(summary.dead - left, 'delivery', summary.more)} to {parts.count(len(ends), 'endpoint')}"
    body: list[Child] = [_extent(summary, many, left)]
    if ends:
        press = tag("button", f"Replay {many}", class_="button main")
        body.append(_ask(look, "/dead-letters/replay", chosen, press))
    return _page("Replay", look, chosen, [*body, _touched(look, summary, statuses)])


def _picks(look: Look) -> list[str]:
    return [text for text in look.request.query_params.getlist("id") if text]


def _anything(look: Look) -> bool:
    """Whether something is chosen: not where the button was pressed with no row selected, or the application switched."""
    return bool(_picks(look)) or look.param("all") is not None


def _nothing(verb: str, look: Look) -> Page:
    dead_filter.scope(look)
    back = tag("a", "Back to the dead letters", href=look.link("/dead-letters"))
    words = parts.verdict("resolved", f"Nothing is chosen: {NONE}.")
    return Page(title=f"{verb} dead letters", rail="dead", body=[words], aside=back, every=None)


def _extent(summary: DeadSummary, many: str, left: int) -> Safe:
    if not summary.groups:
        return parts.verdict("resolved", "There is nothing to replay: none matches any more.")
    if left == summary.dead:
        return parts.verdict("held", "Nothing can be sent: every endpoint here is disabled or deleted.")
    told = f"{many[0].upper()}{many[1:]} will be sent again: attempts and time start anew, the webhook-id stays."
    stay = f" {left:,} more stay dead: their endpoint is disabled or deleted." if left else ""
    return parts.verdict("pending", told, stay)


async def show_resolve(look: Look) -> Page:
    if not _anything(look):
        return _nothing("Resolve", look)
    chosen = await _chosen(look, look.param, _picks(look), TaskKind.RESOLVE_DEAD)
    return await _resolve_page(look, chosen)


async def _resolve_page(look: Look, chosen: Chosen, note: str = "", fault: str | None = None) -> Page:
    summary = await look.store.dead_summary(chosen.where)
    ends = len({group.endpoint_no for group in summary.groups})
    many = f"{parts.count(summary.dead, 'dead letter', summary.more)} of {parts.count(ends, 'endpoint')}"
    words = f"{many} will be closed without being sent." if summary.groups else "There is nothing to resolve."
    body: list[Child] = [parts.verdict("resolved", words)]
    if summary.groups:
        field = parts.field(
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
        body.append(_ask(look, "/dead-letters/resolve", chosen, field, press))
    body.append(_touched(look, summary, await _statuses(look, summary)))
    return _page("Resolve", look, chosen, body, status=422 if fault else 200)


def _page(verb: str, look: Look, chosen: Chosen, body: Sequence[Child], status: int = 200) -> Page:
    back = tag("a", "Back to the dead letters", href=look.link("/dead-letters", **chosen.asked.typed))
    return Page(title=f"{verb} dead letters", rail="dead", body=body, aside=back, status=status, every=None)


def _ask(look: Look, path: str, chosen: Chosen, *children: Child) -> Safe:
    hidden = (tag("input", type="hidden", name=name, value=value) for name, value in chosen.hidden())
    return parts.form(look, look.link(path), *hidden, *children)


async def _statuses(look: Look, summary: DeadSummary) -> dict[int, EndpointStatus]:
    """Of every endpoint in it; one that is gone altogether counts as deleted."""
    nos = {group.endpoint_no for group in summary.groups}
    found = {endpoint.no: endpoint.status for endpoint in await look.store.endpoints_for(sorted(nos))}
    return {no: found.get(no, EndpointStatus.DELETED) for no in nos}


def _touched(look: Look, summary: DeadSummary, statuses: Mapping[int, EndpointStatus]) -> Safe | None:
    if not summary.groups:
        return None
    counts: Counter[int] = Counter()
    for group in summary.groups:
        counts[group.endpoint_no] += group.dead
    named = {group.endpoint_no: group for group in summary.groups}
    rows: list[Sequence[Child]] = [
        (
            parts.ident(named[no].endpoint_url, href=look.link(f"/endpoints/{named[no].endpoint_id}"), most=60),
            _status(statuses[no]),
            f"{many:,}",
        )
        for no, many in counts.most_common(MOST_LISTED)
    ]
    rest = len(counts) - len(rows)
    return parts.section(
        "Which it touches",
        parts.table(("Endpoint", "Status", "Dead letters"), rows, caption="Endpoints", numeric=(2,)),
        tag("p", f"… and {parts.count(rest, 'endpoint')} more", class_="quiet") if rest else None,
    )


def _status(status: EndpointStatus) -> Safe:
    match status:
        case EndpointStatus.ACTIVE:
            return parts.state("delivered", "active")
        case EndpointStatus.PAUSED:
            return parts.state("held", "paused: held until it is resumed")
        case EndpointStatus.DISABLED:
            return parts.state("held", "disabled: nothing would be sent")
        case _:
            return parts.state("dead", f"{status.name.lower()}: nothing would be sent")


# ── doing it ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def replay(look: Look, form: Form) -> Done:
    chosen = await _chosen(look, _getter(form), form.texts("id"), TaskKind.REPLAY_DEAD)
    if not chosen.picked:
        return await _add_tasks(look, chosen, TaskKind.REPLAY_DEAD)
    done = await look.store.replay(chosen.where, len(chosen.where.ids or ()))
    return _done(look, chosen, done, "Replayed", CANNOT)


async def resolve(look: Look, form: Form) -> Done | Page:
    chosen = await _chosen(look, _getter(form), form.texts("id"), TaskKind.RESOLVE_DEAD)
    note = form.text("note").replace("\r\n", "\n")
    try:
        catalogue.check_note(note)
    except InvalidInput as error:
        return await _resolve_page(look, chosen, note, error.words)
    if not chosen.picked:
        return await _add_tasks(look, chosen, TaskKind.RESOLVE_DEAD, note)
    done = await look.store.resolve(chosen.where, note, len(chosen.where.ids or ()))
    return _done(look, chosen, done, "Resolved", "it was resolved or replayed before")


def _getter(form: Form) -> dead_filter.Get:
    return lambda name: form.text(name) or None


def _done(look: Look, chosen: Chosen, done: int, verb: str, why_not: str) -> Done:
    wanted = chosen.where.ids or ()
    left = len(wanted) - done
    if not done:
        raise Conflict(f"nothing was {verb.lower()}: {why_not}")
    more = f"; {left:,} left as {'it was' if left == 1 else 'they were'}: {why_not}" if left else ""
    return Done(
        to=look.link("/dead-letters", **chosen.asked.typed),
        notice=f"{verb} {parts.count(done, 'dead letter')}{more}.",
        subject=shown_id(wanted[0]) if len(wanted) == 1 else "",
        detail=parts.count(done, "dead letter") + ": " + " ".join(map(shown_id, wanted[:20])),
    )


async def replay_one(look: Look, _form: Form) -> Done:
    letter = await dead_filter.find(look, look.path("dead_letter_id"))
    if not await look.store.replay(replace(dead_filter.scope(look), ids=(letter.id,), resolved=None), 1):
        await dead_filter.find(look, look.path("dead_letter_id"))  # somebody else may have replayed it meanwhile
        raise Conflict(f"it was not replayed: {CANNOT}")
    back = {name: look.param(name) for name in (*dead_filter.NAMES, "after")}
    return Done(
        to=look.link("/dead-letters", **back),
        notice=f"Replayed {shown_id(letter.id)}: it is on its way.",
        subject=shown_id(letter.id),
        app_id=letter.app_id,
    )


async def _add_tasks(look: Look, chosen: Chosen, kind: TaskKind, note: str = "") -> Done:
    """One for each application: tasks are an application's."""
    where = chosen.where
    if kind == TaskKind.REPLAY_DEAD and where.endpoint_no is not None:
        await _takes_deliveries(look, where.endpoint_no)
    apps = await look.store.dead_applications(where, MOST_APPLICATIONS + 1)
    if not apps:
        raise Conflict("none of them is there any more")
    batch = ids.mint(task_parts.BATCH, look.now) if len(apps) > 1 else ""
    work = TaskWork(
        died_since=where.since,
        died_until=where.until,
        event_types=None if where.event_type is None else (where.event_type,),
        reason=where.reason,
        note=note,
        batch=batch,
    )
    made, refused = [], ""
    for app_no in apps[:MOST_APPLICATIONS]:
        new = NewTask(org_id=look.org_id, app_no=app_no, endpoint_no=where.endpoint_no, kind=kind, work=work)
        try:
            made.append(await look.store.add_task(new))
        except Conflict as error:
            refused = str(error)
    if not made:
        raise Conflict(refused)
    goes_on = "it goes on by itself" if len(made) == 1 else "they go on by themselves"
    notice = f"Started {parts.count(len(made), 'task')}. You can leave this page: {goes_on}."
    if refused:
        notice += f" Not everywhere: {refused}."
    if len(apps) > MOST_APPLICATIONS:
        notice += f" Only of {MOST_APPLICATIONS} applications at a time: do it again for the others."
    return Done(
        to=look.link("/tasks", batch=batch) if batch else look.link(f"/tasks/{made[0].id}"),
        notice=notice,
        subject=batch or made[0].id,
        detail=chosen.asked.words() or "all dead letters",
    )


async def _takes_deliveries(look: Look, endpoint_no: int) -> None:
    found = await look.store.endpoints_for([endpoint_no])
    refused = refusal(found[0].status if found else EndpointStatus.DELETED)
    if refused is not None:
        raise Conflict(refused)
