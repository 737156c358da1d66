"""Dead letters: find, replay and resolve them.

A call with ids changes these dead letters at once. A call with a filter creates one task per application.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from hookline import ids
from hookline.errors import Conflict, InvalidInput, NoSuch
from hookline.model.audit import NewAuditEntry
from hookline.model.callers import Caller
from hookline.model.dead import DeadFilter, DeadLetter
from hookline.model.states import EndpointStatus, Reason
from hookline.model.tasks import NewTask, Task, TaskKind, TaskWork
from hookline.rules.checks import catalogue
from hookline.rules.checks import text as text_checks
from hookline.rules.replay import refusal
from hookline.services import audit, lookup, tasks
from hookline.services.deps import Deps
from hookline.services.lookup import EndpointRef
from hookline.store import Page

MAX_PICKED = 250
MAX_APPLICATIONS = 100  # maximum number of applications that one call creates tasks for
_NAMED = 20  # maximum number of ids in one audit entry


# ── selection ─────────────────────────────────────────────────────────────────────────────────────────────────────


class DeadLetterQuery(Struct, frozen=True, kw_only=True):
    """A filter as the caller gives it. All fields that are set must match."""

    app: str | None = None  # id or uid of the application
    endpoint: str | None = None  # id of the endpoint, or its uid if `app` is set
    event_type: str | None = None
    reason: Reason | None = None
    since: datetime | None = None  # the delivery died at this time or later
    until: datetime | None = None  # the delivery died before this time
    resolved: bool | None = False  # None: resolved and unresolved dead letters

    def words(self) -> str:
        """Return the filter as a text for the audit log."""
        given = {
            "endpoint": self.endpoint,
            "type": self.event_type,
            "reason": self.reason,
            "since": None if self.since is None else self.since.isoformat(),
            "until": None if self.until is None else self.until.isoformat(),
        }
        return ", ".join(f"{name}={value}" for name, value in given.items() if value) or "all dead letters"


async def filter_of(deps: Deps, by: Caller, given: DeadLetterQuery) -> DeadFilter:
    for name, value in (("since", given.since), ("until", given.until)):
        if value is not None:
            text_checks.check_instant(name, value)
    where = replace(
        await _within(deps, by, given.app),
        event_type=None if given.event_type is None else text_checks.check_name("event type", given.event_type),
        reason=given.reason,
        since=given.since,
        until=given.until,
        resolved=given.resolved,
    )
    if given.endpoint is None:
        return where
    return replace(where, endpoint_no=await _endpoint_no(deps, by, where, EndpointRef(given.endpoint, given.app)))


async def matching(deps: Deps, by: Caller, given: DeadLetterQuery, note: str | None = None) -> DeadFilter:
    """Return the filter of a task that replays or resolves dead letters. `note` is the text that a task stores with
    the dead letters that it resolves. Raise `InvalidInput` unless the query excludes resolved dead letters."""
    if note is not None:
        catalogue.check_note(note)
    if given.resolved is not False:
        raise InvalidInput("only those that are dead are replayed or resolved by a filter", field="state")
    return await filter_of(deps, by, given)


async def _within(deps: Deps, by: Caller, app_ref: str | None) -> DeadFilter:
    """Return the filter for all dead letters that the caller may see, or for those of one application."""
    app = by.app if app_ref is None else await lookup.application(deps, by, app_ref)
    return DeadFilter(org_id=by.org_id, app_no=None if app is None else app.no)


async def _endpoint_no(deps: Deps, by: Caller, where: DeadFilter, ref: EndpointRef) -> int:
    """Return the number of an endpoint. A deleted endpoint is found too, if it has dead letters."""
    try:
        return (await lookup.endpoint(deps, by, ref)).no
    except NoSuch:
        summary = await deps.store.repair.dead_summary(replace(where, resolved=None))
        found = next((group.endpoint_no for group in summary.groups if group.endpoint_id == ref.endpoint), None)
        if found is None:
            raise
        return found


async def find(deps: Deps, by: Caller, ref: str, app: str | None = None) -> DeadLetter:
    """Return the dead letter with the id `ref`, open or resolved. `app` limits the search to one application."""
    return (await _find(deps, await _within(deps, by, app), (ref,)))[0]


async def _find(deps: Deps, within: DeadFilter, refs: Sequence[str], *, to_resolve: bool = False) -> list[DeadLetter]:
    """Return the dead letters with these ids. Raises if one is missing. With `to_resolve`, also raises if one was
    resolved before."""
    wanted = numbers(refs)
    where = replace(within, ids=wanted, resolved=None)
    found = {each.id: each for each in await deps.store.repair.dead_letters(where, Page(limit=max(1, len(wanted))))}
    for number in wanted:
        if number not in found:
            raise NoSuch("dead letter", shown_id(number))
        if to_resolve and found[number].resolved_at is not None:
            raise Conflict(f"nothing was resolved: {shown_id(number)} was resolved before")
    return [found[number] for number in wanted]


def numbers(refs: Sequence[str]) -> tuple[int, ...]:
    """Return the numbers of dead letters: 17 and 18 for `dl_17` and `18`."""
    if len(refs) > MAX_PICKED:
        raise InvalidInput(f"at most {MAX_PICKED} can be selected at a time; use a filter for more")
    return tuple(sorted({_number(ref) for ref in refs}))


def _number(ref: str) -> int:
    digits = ref.removeprefix(ids.DEAD_LETTER)
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise NoSuch("dead letter", ref)
    return int(digits)


def shown_id(dead_id: int) -> str:
    return f"{ids.DEAD_LETTER}{dead_id}"


# ── change dead letters by id, at once ────────────────────────────────────────────────────────────────────────────


class Done(Struct, frozen=True, kw_only=True):
    letters: list[DeadLetter]  # as they were before the change
    done: int

    @property
    def left(self) -> int:
        return len(self.letters) - self.done


CANNOT_BE_SENT = "its endpoint is disabled or deleted, or its payload is gone"
RESOLVED_BEFORE = "it was resolved before"


async def replay(deps: Deps, by: Caller, refs: Sequence[str], app: str | None = None) -> Done:
    """Replay open or resolved dead letters. Their attempts and time budget start again from zero."""
    return await _act(deps, by, refs, app, None)


async def resolve(deps: Deps, by: Caller, refs: Sequence[str], note: str, app: str | None = None) -> Done:
    """Close dead letters without sending them."""
    return await _act(deps, by, refs, app, catalogue.check_note(note))


async def _act(deps: Deps, by: Caller, refs: Sequence[str], app: str | None, note: str | None) -> Done:
    """Replay the dead letters, or resolve them if there is a note."""
    within = await _within(deps, by, app)
    letters = await _find(deps, within, refs, to_resolve=note is not None)
    where = replace(within, ids=tuple(letter.id for letter in letters), resolved=None if note is None else False)
    verb, why_not = ("replay", CANNOT_BE_SENT) if note is None else ("resolve", RESOLVED_BEFORE)

    def entry(done: int) -> NewAuditEntry | None:
        return _entry(by, f"dead_letter.{verb}", letters, done) if done else None

    if note is None:
        done = await deps.store.repair.replay(where, len(letters), note=entry)
    else:
        done = await deps.store.repair.resolve(where, note, len(letters), note=entry)
    if not done:
        # Read the dead letters again. If another caller changed them after the first read, `_find` may raise
        # a more exact error.
        await _find(deps, within, refs, to_resolve=note is not None)
        raise Conflict(f"nothing was {verb.removesuffix('e')}ed: {why_not}")
    return Done(letters=letters, done=done)


def _entry(by: Caller, action: str, letters: Sequence[DeadLetter], done: int) -> NewAuditEntry:
    names, first = [shown_id(letter.id) for letter in letters], letters[0]
    if len(letters) == 1:
        detail = f"{first.message_id} to {first.endpoint_id}"
        return audit.entry(by, action, names[0], app_id=first.app_id, detail=detail)
    app_id = first.app_id if all(letter.app_id == first.app_id for letter in letters) else None
    return audit.entry(by, action, "", app_id=app_id, detail=f"{done:,} dead letters: {' '.join(names[:_NAMED])}")


# ── change dead letters by filter, in tasks ───────────────────────────────────────────────────────────────────────


class Started(Struct, frozen=True, kw_only=True):
    tasks: list[Task]  # one for each application
    batch: str = ""  # one name for all these tasks together; empty if only one application matches
    refused: str = ""  # the reason why an application got no task; empty if each got one
    more: bool = False  # other applications match too, and got no task


async def replay_matching(deps: Deps, by: Caller, given: DeadLetterQuery) -> Started:
    """Replay all dead letters that match. Raises `Conflict` if the query names an endpoint that is disabled or
    deleted."""
    where = await matching(deps, by, given)
    if where.endpoint_no is not None:
        found = await deps.store.catalogue.endpoints_for([where.endpoint_no])
        refused = refusal(found[0].status if found else EndpointStatus.DELETED)
        if refused is not None:
            raise Conflict(refused)
    return await _start(deps, by, given, where, TaskKind.REPLAY_DEAD)


async def resolve_matching(deps: Deps, by: Caller, given: DeadLetterQuery, note: str) -> Started:
    return await _start(deps, by, given, await matching(deps, by, given, note), TaskKind.RESOLVE_DEAD, note)


async def _start(
    deps: Deps, by: Caller, given: DeadLetterQuery, where: DeadFilter, kind: TaskKind, note: str = ""
) -> Started:
    """Create one task per application. An application that the filter names gets a task even if nothing matches
    now."""
    apps = [where.app_no] if where.app_no else await deps.store.repair.dead_applications(where, MAX_APPLICATIONS + 1)
    batch = ids.mint(tasks.BATCH, await deps.store.now()) if len(apps) > 1 else ""
    work = TaskWork(
        died_since=where.since,
        died_until=where.until,
        event_types=None if where.event_type is None else (where.event_type,),
        reason=where.reason,
        note=note,
        batch=batch,
    )
    made, refused = [], ""
    for app_no in apps[:MAX_APPLICATIONS]:
        new = NewTask(org_id=by.org_id, app_no=app_no, endpoint_no=where.endpoint_no, kind=kind, work=work)
        try:
            made.append(await tasks.add(deps, by, new, given.words()))
        except Conflict as error:
            refused = str(error)
    if refused and not made:
        raise Conflict(refused)
    return Started(tasks=made, batch=batch, refused=refused, more=len(apps) > MAX_APPLICATIONS)
