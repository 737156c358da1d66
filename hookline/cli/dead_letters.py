"""`dead list|show|replay|resolve|stats`."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Annotated

import msgspec
import typer
from msgspec import Struct
from msgspec.structs import replace
from typer import Argument, Option

from hookline.api import wire
from hookline.cli import INTERRUPTED, params, tasks
from hookline.cli.command import OrgCommand
from hookline.cli.group import CommandGroup
from hookline.cli.output import Cell, Output, confirm
from hookline.cli.session import Session
from hookline.errors import InvalidInput
from hookline.model.attempts import Attempt
from hookline.model.dead import DeadFilter, DeadLetter, DeadStats
from hookline.model.states import Reason
from hookline.server import sockets
from hookline.services import dead_letters
from hookline.services.dead_letters import DeadLetterQuery, shown_id
from hookline.store import Page, death

app = CommandGroup(help="Dead letters: deliveries that Hookline has given up, and why.")

EndpointOption = Annotated[str | None, Option("--endpoint", help="Only this endpoint (id; or uid, with --app).")]
Since = Annotated[str | None, Option("--since", help="Died at or after this time: an instant, or 2h, 7d ago.")]


class Filters(Struct, frozen=True, kw_only=True):
    """The filter options as the user gave them."""

    app_ref: params.App = None
    endpoint: EndpointOption = None
    event_type: Annotated[str | None, Option("--type", help="Only this event type.")] = None
    reason: Annotated[Reason | None, Option(help="Only this reason.")] = None
    since: Since = None
    until: Annotated[str | None, Option(help="Died before this time: an instant, or 2h, 7d ago.")] = None

    def query(self, now: datetime, *, resolved: bool | None = False) -> DeadLetterQuery:
        """Return the query for these filters. `resolved=None` selects both open and resolved dead letters."""
        return DeadLetterQuery(
            app=self.app_ref,
            endpoint=self.endpoint,
            event_type=self.event_type,
            reason=self.reason,
            since=None if self.since is None else params.read_instant(self.since, now),
            until=None if self.until is None else params.read_instant(self.until, now),
            resolved=resolved,
        )


async def _filter(opened: Session, filters: Filters, *, resolved: bool | None) -> DeadFilter:
    return await dead_letters.filter_of(opened.deps, opened.by, filters.query(opened.now, resolved=resolved))


# ── list, show, stats ─────────────────────────────────────────────────────────────────────────────────────────────


@app.command("list")
async def list_dead(
    cmd: OrgCommand,
    filters: Filters,
    paging: params.Paging,
    resolved: Annotated[bool, Option("--resolved", help="Include resolved dead letters.")] = False,
) -> None:
    """List dead letters, newest first.

    hookline dead list --endpoint ep_... --since 2h
    """
    async with cmd.session() as opened:
        last = None if paging.after is None else await dead_letters.find(opened.deps, opened.by, paging.after)
        page = Page(limit=paging.limit, iterator=None if last is None else death(last.died_at, last.id))
        where = await _filter(opened, filters, resolved=None if resolved else False)
        found = await opened.store.repair.dead_letters(where, page)
    cmd.out.listing(
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


@app.command("show")
async def show(cmd: OrgCommand, dead_id: Annotated[str, Argument(metavar="ID", help="Such as dl_17.")]) -> None:
    """Show one dead letter with all of its attempts."""
    async with cmd.session() as opened:
        letter = await dead_letters.find(opened.deps, opened.by, dead_id)
        attempts = await opened.store.repair.dead_attempts(letter)
    document = {"deadLetter": wire.dead_letter(letter), "attempts": [wire.attempt(each) for each in attempts]}
    cmd.out.result(document, as_text=lambda: _print(cmd.out, letter, attempts))


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
    """Format an attempt: `#2  2026-01-31T12:00:00+00:00  503  retry  41 ms  upstream is down`."""
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
async def stats(
    cmd: OrgCommand,
    app_ref: params.App = None,
    endpoint: EndpointOption = None,
    since: Since = None,
    all_orgs: Annotated[
        bool, Option("--all-orgs", help="Count those of all organizations, and show which have the most.")
    ] = False,
) -> None:
    """Count dead letters by reason. `pending` counts the ones that were replayed and are not delivered yet."""
    if all_orgs and (app_ref or endpoint or cmd.org != params.DEFAULT_ORG_ID):
        raise InvalidInput("--all-orgs goes with neither --org nor --app nor --endpoint")
    filters = Filters(app_ref=app_ref, endpoint=endpoint, since=since)
    async with cmd.session() as opened:
        where = await _filter(opened, filters, resolved=None)
        found = await opened.store.repair.dead_stats(replace(where, org_id=None) if all_orgs else where)
    pairs: list[tuple[str, Cell]] = [
        ("dead", found.dead),
        ("pending", found.pending),
        ("resolved", found.resolved),
        ("oldest", found.oldest),
    ]
    pairs += [(f"  {name}", count) for name, count in sorted(found.by_reason.items())]
    if all_orgs:
        pairs += [(f"  --org {each.org_id} --app {each.app_id}", each.dead) for each in found.by_application]
    document = _with_organizations(found) if all_orgs else wire.dead_stats(found)
    cmd.out.result(document, as_text=lambda: cmd.out.fields(pairs))


def _with_organizations(found: DeadStats) -> dict[str, object]:
    document: dict[str, object] = msgspec.to_builtins(wire.dead_stats(found))
    owners = [{"orgId": each.org_id, "appId": each.app_id, "dead": each.dead} for each in found.by_application]
    return document | {"byApplication": owners}


# ── replay, resolve ───────────────────────────────────────────────────────────────────────────────────────────────


class Selection(Struct, frozen=True, kw_only=True):
    """The dead letters that `replay` or `resolve` changes."""

    dead_ids: Annotated[list[str] | None, Argument(metavar="[ID]...", help="Dead letters, such as dl_17.")] = None
    everything: Annotated[bool, Option("--all", help="All dead letters of the organization.")] = False
    yes: params.Yes = False


@app.command("replay")
async def replay(cmd: OrgCommand, selection: Selection, filters: Filters) -> None:
    """Send dead letters again, with a new time budget and new attempts. The webhook-id stays the same.

    hookline dead replay dl_17

    hookline dead replay --endpoint ep_... --reason attempts_exhausted --since 1d --yes

    An id selects a resolved dead letter too. Filters select only open ones.
    """
    await Bulk(cmd, selection, filters).run()


@app.command("resolve")
async def resolve(
    cmd: OrgCommand,
    selection: Selection,
    filters: Filters,
    note: Annotated[str, Option(help="Why it needs no delivery. Hookline stores the note.")],
) -> None:
    """Close dead letters that need no delivery, with a note.

    hookline dead resolve dl_17 --note "refunded by hand"
    """
    await Bulk(cmd, selection, filters, note).run()


class Bulk(Struct, frozen=True):
    """Replays the selected dead letters. If `note` is set, resolves them with this note instead."""

    cmd: OrgCommand
    selection: Selection
    filters: Filters
    note: str | None = None

    @property
    def verb(self) -> str:
        return "replay" if self.note is None else "resolve"

    async def run(self) -> None:
        ids = self.selection.dead_ids or []
        if [bool(ids), self.filters != Filters(), self.selection.everything].count(True) != 1:
            raise InvalidInput(f"say which ones to {self.verb}: ids, or filters, or --all")
        async with self.cmd.session() as opened:
            done, left, stopped = await (self._by_id(opened, ids) if ids else self._by_filter(opened))
        word = f"{self.verb.removesuffix('e')}ed"
        text = f"{done:,} {word}" + (f", {left:,} left as they were" if left else "")
        self.cmd.out.answer({word: done, "left": left}, text)
        if stopped:
            raise typer.Exit(INTERRUPTED)
        if ids and left:
            raise typer.Exit(1)

    async def _by_id(self, opened: Session, ids: list[str]) -> tuple[int, int, bool]:
        act = dead_letters.replay if self.note is None else partial(dead_letters.resolve, note=self.note)
        result = await act(opened.deps, opened.by, ids)
        return result.done, result.left, False

    async def _by_filter(self, opened: Session) -> tuple[int, int, bool]:
        """Return how many dead letters were changed, how many were not, and whether a signal stopped the work.

        The tasks are the same as those of the API and the dashboard. This process runs them, so no worker is needed.
        """
        query = self.filters.query(opened.now)
        where = await dead_letters.matching(opened.deps, opened.by, query, self.note)
        total = (await opened.store.repair.dead_stats(where)).dead
        if total and not self.selection.yes:
            confirm(f"{self.verb.capitalize()} {total:,} dead letter{'' if total == 1 else 's'}?")
        if query.until is None:
            query = replace(query, until=opened.now)  # leaves out deliveries that die after the count
        done, more = 0, total > 0
        resolve = partial(dead_letters.resolve_matching, note=self.note or "")
        start = dead_letters.replay_matching if self.note is None else resolve
        with (
            sockets.stop_on_signals() as stop,
            self.cmd.out.progress(f"{self.verb.capitalize()}ing", total) as advance,
        ):
            while more and not stop.is_set():
                started = await start(opened.deps, opened.by, query)
                some = await tasks.run_to_end(opened, started.tasks, stop, advance)
                done, more = done + some, started.more and some > 0
        return done, max(0, total - done), stop.is_set()
