"""`dead list|show|replay|resolve|stats`."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
import typer
from msgspec import Struct
from msgspec.structs import replace

from hookline.api import wire
from hookline.cli import INTERRUPTED, params, tasks
from hookline.cli.output import Cell, Output, confirm
from hookline.cli.session import Session, run, session
from hookline.errors import InvalidInput
from hookline.model import Attempt, DeadFilter, DeadLetter, DeadStats
from hookline.model.states import Reason
from hookline.server import sockets as listeners
from hookline.services import dead_letters
from hookline.services.dead_letters import DeadLetterQuery, Started, shown_id
from hookline.store.protocols import Page, death

app = typer.Typer(help="Dead letters: deliveries that gave up, and why.", no_args_is_help=True)

Ids = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Dead letters, such as dl_17.")]
EndpointRef = Annotated[str | None, typer.Option("--endpoint", help="Only this endpoint (id; uid with --app).")]
Type = Annotated[str | None, typer.Option("--type", help="Only this event type.")]
Why = Annotated[Reason | None, typer.Option("--reason", help="Only this reason.")]
Since = Annotated[str | None, typer.Option("--since", help="Died at or after: an instant, or 2h, 7d ago.")]
Until = Annotated[str | None, typer.Option("--until", help="Died before: an instant, or 2h, 7d ago.")]


class Wanted(Struct, frozen=True, kw_only=True):
    """The filter as it was typed."""

    app: str | None = None
    endpoint: str | None = None
    event_type: str | None = None
    reason: Reason | None = None
    since: str | None = None
    until: str | None = None
    resolved: bool | None = False

    def query(self, now: datetime) -> DeadLetterQuery:
        return DeadLetterQuery(
            app=self.app,
            endpoint=self.endpoint,
            event_type=self.event_type,
            reason=self.reason,
            since=None if self.since is None else params.read_instant(self.since, now),
            until=None if self.until is None else params.read_instant(self.until, now),
            resolved=self.resolved,
        )


async def _filter(opened: Session, wanted: Wanted) -> DeadFilter:
    return await dead_letters.filter_of(opened.deps, opened.by, wanted.query(opened.now))


# ── list, show, stats ─────────────────────────────────────────────────────────────────────────────────────────────


@app.command("list")
def list_dead(
    app_ref: params.App = None,
    endpoint: EndpointRef = None,
    event_type: Type = None,
    reason: Why = None,
    since: Since = None,
    until: Until = None,
    resolved: Annotated[bool, typer.Option("--resolved", help="Resolved ones too.")] = False,
    limit: params.Limit = 50,
    after: params.After = None,
    org: params.Org = params.DEFAULT_ORG_ID,
    as_json: params.Json = False,
) -> None:
    """List dead letters, newest first.

    hookline dead list --endpoint ep_... --since 2h
    """
    out = Output(as_json)
    wanted = Wanted(
        app=app_ref,
        endpoint=endpoint,
        event_type=event_type,
        reason=reason,
        since=since,
        until=until,
        resolved=None if resolved else False,
    )
    found = run(_list(org, wanted, limit, after))
    out.listing(
        found,
        document=wire.dead_letter,
        columns=("id", "died", "endpoint", "event type", "reason", "status", "attempts", "detail"),
        cells=_row,
        empty="No dead letters.",
    )


def _row(letter: DeadLetter) -> tuple[Cell, ...]:
    return (
        shown_id(letter.id),
        letter.died_at,
        letter.endpoint_id,
        letter.event_type,
        letter.reason.value,
        letter.last_status,
        letter.attempts,
        letter.detail,
    )


async def _list(org: str, wanted: Wanted, limit: int, after: str | None) -> list[DeadLetter]:
    async with session(org) as opened:
        last = None if after is None else await dead_letters.find(opened.deps, opened.by, after)
        iterator = None if last is None else death(last.died_at, last.id)
        return await opened.store.dead_letters(await _filter(opened, wanted), Page(limit=limit, iterator=iterator))


@app.command("show")
def show(
    dead_id: Annotated[str, typer.Argument(metavar="ID", help="Such as dl_17.")],
    org: params.Org = params.DEFAULT_ORG_ID,
    as_json: params.Json = False,
) -> None:
    """Show one dead letter with every attempt that was made."""
    out = Output(as_json)
    letter, attempts = run(_show(org, dead_id))
    document = {"deadLetter": wire.dead_letter(letter), "attempts": [wire.attempt(each) for each in attempts]}
    out.result(document, people=lambda: _print(out, letter, attempts))


async def _show(org: str, dead_id: str) -> tuple[DeadLetter, list[Attempt]]:
    async with session(org) as opened:
        letter = await dead_letters.find(opened.deps, opened.by, dead_id)
        return letter, await opened.store.dead_attempts(letter)


def _print(out: Output, letter: DeadLetter, attempts: list[Attempt]) -> None:
    name = shown_id(letter.id)
    pairs: list[tuple[str, Cell]] = [
        ("id", name),
        ("state", "dead" if letter.resolved_at is None else "resolved"),
        ("reason", letter.reason.value),
        ("detail", letter.detail),
        ("endpoint", f"{letter.endpoint_id}  {letter.endpoint_url}"),
        ("application", letter.app_id),
        ("message", letter.message_id),
        ("event type", letter.event_type),
        ("accepted", letter.accepted_at),
        ("died", letter.died_at),
    ]
    if letter.resolved_at is not None:
        pairs += [("resolved", letter.resolved_at), ("note", letter.note)]
    out.fields(pairs)
    for attempt in attempts:
        out.line(attempt_line(attempt))
    if letter.resolved_at is None:
        out.note(f"hookline dead replay {name}    or    hookline dead resolve {name} --note '...'")


def attempt_line(attempt: Attempt) -> str:
    """`#2  2026-01-31T12:00:00+00:00  503  retry  41 ms  upstream is down`."""
    result = str(attempt.status_code) if attempt.status_code is not None else str(attempt.error or "-")
    body = attempt.response_body[:200].decode(errors="replace").strip()
    parts = [
        f"#{attempt.number}{' probe' if attempt.probe else ''}",
        attempt.started_at.isoformat(timespec="milliseconds"),
        result,
        attempt.outcome,
        f"{attempt.timing.total / 1000:.0f} ms",
        attempt.detail or body,
    ]
    return "  ".join(part for part in parts if part)


@app.command("stats")
def stats(
    app_ref: params.App = None,
    endpoint: EndpointRef = None,
    since: Since = None,
    org: params.Org = params.DEFAULT_ORG_ID,
    everybody: Annotated[
        bool, typer.Option("--all-orgs", help="Of every organization, and whose the most are.")
    ] = False,
    as_json: params.Json = False,
) -> None:
    """Count dead letters by reason; pending are those that were sent again by hand and are still open."""
    if everybody and (app_ref or endpoint or org != params.DEFAULT_ORG_ID):
        raise InvalidInput("--all-orgs goes with neither --org nor --app nor --endpoint")
    out = Output(as_json)
    wanted = Wanted(app=app_ref, endpoint=endpoint, since=since, resolved=None)
    found = run(_stats(None if everybody else org, wanted))
    pairs: list[tuple[str, Cell]] = [
        ("dead", found.dead),
        ("pending", found.pending),
        ("resolved", found.resolved),
        ("oldest", found.oldest),
    ]
    pairs += [(f"  {name}", count) for name, count in sorted(found.by_reason.items())]
    if everybody:
        pairs += [(f"  --org {each.org_id} --app {each.app_id}", each.dead) for each in found.by_application]
    document = wire.dead_stats(found) if not everybody else _with_organizations(found)
    out.result(document, people=lambda: out.fields(pairs))


def _with_organizations(found: DeadStats) -> dict[str, object]:
    document: dict[str, object] = msgspec.to_builtins(wire.dead_stats(found))
    owners = [{"orgId": each.org_id, "appId": each.app_id, "dead": each.dead} for each in found.by_application]
    return document | {"byApplication": owners}


async def _stats(org: str | None, wanted: Wanted) -> DeadStats:
    """Of one organization; None: of all."""
    async with session(org or params.DEFAULT_ORG_ID) as opened:
        where = await _filter(opened, wanted)
        return await opened.store.dead_stats(where if org else replace(where, org_id=None))


# ── replay, resolve ───────────────────────────────────────────────────────────────────────────────────────────────


@app.command("replay")
def replay(
    dead_ids: Ids = None,
    app_ref: params.App = None,
    endpoint: EndpointRef = None,
    event_type: Type = None,
    reason: Why = None,
    since: Since = None,
    until: Until = None,
    everything: Annotated[bool, typer.Option("--all", help="Every dead letter of the organization.")] = False,
    yes: params.Yes = False,
    org: params.Org = params.DEFAULT_ORG_ID,
    as_json: params.Json = False,
) -> None:
    """Send dead letters again: attempts and time budget start anew, the webhook-id stays.

    hookline dead replay dl_17

    hookline dead replay --endpoint ep_... --reason attempts_exhausted --since 1d --yes

    By id, resolved ones too; by filter, only open ones.
    """
    wanted = Wanted(app=app_ref, endpoint=endpoint, event_type=event_type, reason=reason, since=since, until=until)
    _bulk(Output(as_json), org, Bulk(ids=dead_ids or [], wanted=wanted, everything=everything), yes)


@app.command("resolve")
def resolve(
    note: Annotated[str, typer.Option("--note", help="Why it needs no delivery; kept.")],
    dead_ids: Ids = None,
    app_ref: params.App = None,
    endpoint: EndpointRef = None,
    event_type: Type = None,
    reason: Why = None,
    since: Since = None,
    until: Until = None,
    everything: Annotated[bool, typer.Option("--all", help="Every dead letter of the organization.")] = False,
    yes: params.Yes = False,
    org: params.Org = params.DEFAULT_ORG_ID,
    as_json: params.Json = False,
) -> None:
    """Close dead letters that need no delivery, with a note.

    hookline dead resolve dl_17 --note "refunded by hand"
    """
    wanted = Wanted(app=app_ref, endpoint=endpoint, event_type=event_type, reason=reason, since=since, until=until)
    bulk = Bulk(ids=dead_ids or [], wanted=wanted, everything=everything, note=note)
    _bulk(Output(as_json), org, bulk, yes)


class Bulk(Struct, frozen=True, kw_only=True):
    """Which ones to replay; or to resolve, with a note."""

    ids: list[str]
    wanted: Wanted
    everything: bool
    note: str | None = None

    @property
    def verb(self) -> str:
        return "replay" if self.note is None else "resolve"

    async def by_id(self, opened: Session) -> dead_letters.Done:
        if self.note is None:
            return await dead_letters.replay(opened.deps, opened.by, self.ids)
        return await dead_letters.resolve(opened.deps, opened.by, self.ids, self.note)

    async def start(self, opened: Session, query: DeadLetterQuery) -> Started:
        if self.note is None:
            return await dead_letters.replay_matching(opened.deps, opened.by, query)
        return await dead_letters.resolve_matching(opened.deps, opened.by, query, self.note)


def _bulk(out: Output, org: str, bulk: Bulk, yes: bool) -> None:
    if [bool(bulk.ids), bulk.wanted != Wanted(), bulk.everything].count(True) != 1:
        raise InvalidInput(f"say which ones to {bulk.verb}: ids, or filters, or --all")
    work = _by_id(org, bulk) if bulk.ids else _by_filter(out, org, bulk, yes)
    done, left, stopped = run(work)
    word = "replayed" if bulk.note is None else "resolved"
    out.result(
        {word: done, "left": left},
        people=lambda: out.line(f"{done:,} {word}" + (f", {left:,} left as they were" if left else "")),
    )
    if stopped:
        raise typer.Exit(INTERRUPTED)
    if bulk.ids and left:
        raise typer.Exit(1)


async def _by_id(org: str, bulk: Bulk) -> tuple[int, int, bool]:
    async with session(org) as opened:
        made = await bulk.by_id(opened)
        return made.done, made.left, False


async def _by_filter(out: Output, org: str, bulk: Bulk, yes: bool) -> tuple[int, int, bool]:
    """How many were done, how many were left, and whether somebody interrupted it.

    The tasks are the same that the API and the dashboard make. They are worked off here, so that no worker is needed.
    """
    async with session(org) as opened:
        query = bulk.wanted.query(opened.now)
        where = await dead_letters.matching(opened.deps, opened.by, query, bulk.note)
        total = (await opened.store.dead_stats(where)).dead
        if total and not yes:
            confirm(f"{bulk.verb.capitalize()} {total:,} dead letter{'' if total == 1 else 's'}?")
        if query.until is None:
            query = replace(query, until=opened.now)  # what dies from now on was not counted
        done, more = 0, total > 0
        with listeners.stop_on_signals() as stop, out.progress(f"{bulk.verb.capitalize()}ing", total) as advance:
            while more and not stop.is_set():
                started = await bulk.start(opened, query)
                some = await tasks.work_off(opened, started.tasks, stop, advance)
                done, more = done + some, started.more and some > 0
        return done, max(0, total - done), stop.is_set()
