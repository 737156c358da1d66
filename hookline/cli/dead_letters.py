"""`dead list|show|replay|resolve|stats`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated

import msgspec
import typer
from msgspec import Struct
from msgspec.structs import replace

from hookline import ids
from hookline.api import wire
from hookline.cli import INTERRUPTED, params
from hookline.cli.output import Cell, Output, confirm
from hookline.cli.session import Session, run, session
from hookline.errors import InvalidInput, NotFound
from hookline.model import Attempt, DeadFilter, DeadLetter, DeadStats
from hookline.model.states import Reason
from hookline.server import sockets as listeners
from hookline.services import manage
from hookline.store.protocols import Page, death

app = typer.Typer(help="Dead letters: deliveries that gave up, and why.", no_args_is_help=True)

BATCH = 500  # dead letters in one transaction of a bulk replay or resolve

Ids = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Dead letters, such as dl_17.")]
EndpointRef = Annotated[str | None, typer.Option("--endpoint", help="Only this endpoint (id; uid with --app).")]
Type = Annotated[str | None, typer.Option("--type", help="Only this event type.")]
Why = Annotated[Reason | None, typer.Option("--reason", help="Only this reason.")]
Since = Annotated[str | None, typer.Option("--since", help="Died at or after: an instant, or 2h, 7d ago.")]
Until = Annotated[str | None, typer.Option("--until", help="Died before: an instant, or 2h, 7d ago.")]


class Wanted(Struct, frozen=True, kw_only=True):
    """The filter as it was typed."""

    ids: tuple[str, ...] = ()
    app: str | None = None
    endpoint: str | None = None
    event_type: str | None = None
    reason: Reason | None = None
    since: str | None = None
    until: str | None = None
    resolved: bool | None = False

    def filters(self) -> bool:
        return self != Wanted(ids=self.ids, resolved=self.resolved)

    @property
    def subject(self) -> str:
        """For the audit log: the one thing that it is about, if there is one."""
        return self.ids[0] if len(self.ids) == 1 else self.endpoint or self.app or ""


async def _filter(opened: Session, wanted: Wanted) -> DeadFilter:
    app_no = None if wanted.app is None else (await opened.application(wanted.app)).no
    endpoint_no = None if wanted.endpoint is None else (await opened.endpoint(wanted.endpoint, wanted.app)).no
    return DeadFilter(
        org_id=opened.org_id,
        app_no=app_no,
        endpoint_no=endpoint_no,
        event_type=wanted.event_type,
        reason=wanted.reason,
        since=None if wanted.since is None else params.read_instant(wanted.since, opened.now),
        until=None if wanted.until is None else params.read_instant(wanted.until, opened.now),
        ids=tuple(sorted(set(map(manage.dead_letter_number, wanted.ids)))) or None,
        resolved=wanted.resolved,
    )


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
        f"{ids.DEAD_LETTER}{letter.id}",
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
        last = None if after is None else await _find(opened, after)
        iterator = None if last is None else death(last.died_at, last.id)
        return await opened.store.dead_letters(await _filter(opened, wanted), Page(limit=limit, iterator=iterator))


async def _find(opened: Session, dead_id: str) -> DeadLetter:
    """Open or resolved, of this organization."""
    found = await opened.store.dead_letters(await _filter(opened, Wanted(ids=(dead_id,), resolved=None)), Page(limit=1))
    if not found:
        raise NotFound(f"no dead letter {dead_id!r}; `hookline dead list` shows them")
    return found[0]


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
        letter = await _find(opened, dead_id)
        return letter, await opened.store.dead_attempts(letter)


def _print(out: Output, letter: DeadLetter, attempts: list[Attempt]) -> None:
    name = f"{ids.DEAD_LETTER}{letter.id}"
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
    wanted = Wanted(
        ids=tuple(dead_ids or ()),
        app=app_ref,
        endpoint=endpoint,
        event_type=event_type,
        reason=reason,
        since=since,
        until=until,
        resolved=None if dead_ids else False,
    )
    _bulk(Output(as_json), org, wanted, "replay", "replayed", everything, yes, _replay_some)


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
    wanted = Wanted(
        ids=tuple(dead_ids or ()),
        app=app_ref,
        endpoint=endpoint,
        event_type=event_type,
        reason=reason,
        since=since,
        until=until,
    )

    async def resolve_some(opened: Session, where: DeadFilter) -> int:
        return await opened.store.resolve(where, note, BATCH)

    _bulk(Output(as_json), org, wanted, "resolve", "resolved", everything, yes, resolve_some)


async def _replay_some(opened: Session, where: DeadFilter) -> int:
    return await opened.store.replay(where, BATCH)


_Step = Callable[[Session, DeadFilter], Awaitable[int]]


def _bulk(
    out: Output, org: str, wanted: Wanted, verb: str, done_word: str, everything: bool, yes: bool, step: _Step
) -> None:
    if [bool(wanted.ids), wanted.filters(), everything].count(True) != 1:
        raise InvalidInput(f"say which ones to {verb}: ids, or filters, or --all")
    done, left, stopped = run(_work_through(out, org, wanted, verb, yes, step))
    out.result(
        {done_word: done, "left": left},
        people=lambda: out.line(f"{done:,} {done_word}" + (f", {left:,} left as they were" if left else "")),
    )
    if stopped:
        raise typer.Exit(INTERRUPTED)
    if wanted.ids and left:
        raise typer.Exit(1)


async def _work_through(
    out: Output, org: str, wanted: Wanted, verb: str, yes: bool, step: _Step
) -> tuple[int, int, bool]:
    """How many were done, how many were left, and whether somebody interrupted it."""
    async with session(org) as opened:
        where = await _filter(opened, wanted)
        if where.until is None:
            # What dies again while we work must not match, or a sick endpoint's letters would go round for ever.
            where = replace(where, until=opened.now)
        total = await _count(opened, where)
        if total and not wanted.ids and not yes:
            confirm(f"{verb.capitalize()} {total:,} dead letter{'' if total == 1 else 's'}?")
        done, cut = 0, ""
        with listeners.stop_on_signals() as stop, out.progress(f"{verb.capitalize()}ing", total) as advance:
            try:
                # A batch that was begun is finished: whether one that is cut off was committed, nobody would know.
                while not stop.is_set() and (count := await step(opened, where)):
                    done += count
                    advance(count)
            except (asyncio.CancelledError, KeyboardInterrupt):  # a second signal, of somebody in a hurry
                cut = ", and perhaps a batch that was cut off"
                raise
            finally:
                if done or cut:
                    await opened.remember(f"dead_letter.{verb}", wanted.subject, detail=_part(done, total) + cut)
        return done, max(0, total - done), stop.is_set()


def _part(done: int, total: int) -> str:
    return f"{done:,} of {total:,} dead letters" if done < total else f"{done:,} dead letters"


async def _count(opened: Session, where: DeadFilter) -> int:
    """How many there are; of explicit ids, every one must be there."""
    if where.ids is None:
        return (await opened.store.dead_stats(where)).dead
    found = await opened.store.dead_letters(where, Page(limit=len(where.ids)))
    missing = set(where.ids) - {letter.id for letter in found}
    if missing:
        kind = "dead letter" if where.resolved is None else "open dead letter"
        names = ", ".join(f"{ids.DEAD_LETTER}{number}" for number in sorted(missing))
        raise NotFound(f"no {kind} {names}; nothing was changed")
    return len(found)
