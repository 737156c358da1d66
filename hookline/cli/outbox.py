"""`outbox status|list|show|retry|discard|sql|install|prune`."""

from __future__ import annotations

import os
from datetime import datetime
from enum import StrEnum
from typing import Annotated

import typer
from msgspec import Struct
from typer import Argument, Option

from hookline import config
from hookline.cli import params
from hookline.cli.command import Command
from hookline.cli.group import CommandGroup
from hookline.cli.migrate import installed_text
from hookline.cli.output import Cell, Output, confirm
from hookline.cli.session import Session
from hookline.config import shown_url, urls
from hookline.engine.sources import setup
from hookline.engine.sources.status import examine
from hookline.errors import InvalidInput, SourceUnavailable
from hookline.model.fill import fill
from hookline.model.outbox import SetAside
from hookline.outbox.setup import VERSION as OUTBOX_VERSION
from hookline.outbox.setup import sql as outbox_sql
from hookline.services import outbox
from hookline.store import COUNTED

app = CommandGroup(
    help="The outbox: events that applications have published, and those that could not become messages."
)


# ── status ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Line(Struct, frozen=True, kw_only=True, rename="camel"):
    """The counts of one outbox."""

    outbox: str
    waiting: int | None = None
    oldest: datetime | None = None
    set_aside: int | None = None  # only for Hookline's own outbox, which keeps the set-aside rows of all outboxes
    error: str | None = None


@app.command("status")
async def status(cmd: Command) -> None:
    """Count the rows that wait for the relay and those that are set aside. Counts stop at 10,000.

    The exit code is 4 if a database could not be read.
    """
    async with cmd.session() as opened:
        own = await opened.store.repair.outbox()
        first = fill(Line, own, outbox=shown_url(opened.config.database_url))
        lines = [first, *[await _source(opened, url) for url in opened.config.outbox_urls]]
    cmd.out.listing(
        lines,
        columns=("outbox", "waiting", "oldest", "set aside", "error"),
        cells=lambda line: (line.outbox, counted(line.waiting), line.oldest, counted(line.set_aside), line.error),
        empty="",
    )
    if any(line.error for line in lines):
        raise typer.Exit(4)


async def _source(opened: Session, url: str) -> Line:
    try:
        found = await examine(url, opened.store)
    except SourceUnavailable as error:
        return Line(outbox=shown_url(url), error=str(error))
    return fill(Line, found, outbox=shown_url(url))


def counted(number: int | None) -> str | None:
    if number is None:
        return None
    return f"{number:,} or more" if number >= COUNTED else f"{number:,}"


# ── the outbox in an application's own database: sql, install, prune ──────────────────────────────────────────────


MAX_ROLE = 63  # bytes; PostgreSQL cuts off longer names

Url = Annotated[str, Argument(metavar="URL", help="sqlite:////srv/shop/shop.db or postgresql://...")]


class Engine(StrEnum):
    SQLITE = "sqlite"
    POSTGRES = "postgres"


@app.command("sql")
def sql(
    cmd: Command,
    engine: Annotated[
        Engine | None,
        Argument(help="The engine of the application's database.", show_default="as Hookline's own"),
    ] = None,
    grant: Annotated[list[str] | None, Option(metavar="ROLE", help="A role that may publish (PostgreSQL).")] = None,
) -> None:
    """Print the SQL that creates the outbox, for your own migrations or for a database administrator.

    hookline outbox sql postgres --grant shop | psql "$SHOP_DATABASE_URL"

    hookline outbox sql sqlite | sqlite3 shop.db
    """
    chosen = engine or _engine()
    if grant and chosen == Engine.SQLITE:
        raise InvalidInput("--grant is for PostgreSQL: SQLite has no roles")
    text = outbox_sql(chosen.value) + "".join(f"\n{grants(role)}" for role in grant or ())
    cmd.out.result({"sql": text}, as_text=lambda: typer.echo(text, nl=False))


def _engine() -> Engine:
    own = config.parse(os.environ).database_url
    return Engine.POSTGRES if urls.sqlite_path(own) is None else Engine.SQLITE


def grants(role: str) -> str:
    """Return the SQL that gives a role the least privileges that publishing needs."""
    return setup.GRANTS.format(role=_quoted(role))


def _quoted(role: str) -> str:
    if not role or len(role.encode()) > MAX_ROLE or not role.isprintable():
        raise InvalidInput(f"--grant takes the name of a role, up to {MAX_ROLE} bytes")
    return "PUBLIC" if role.lower() == "public" else '"' + role.replace('"', '""') + '"'


@app.command("install")
async def install(cmd: Command, url: Url) -> None:
    """Create the outbox in an application's own database. Safe to run again. `migrate` does it for HOOKLINE_OUTBOX_URLS.

    hookline outbox install sqlite:////srv/shop/shop.db
    """
    params.check_database_url("URL", url)
    changed, name = await setup.install(url), shown_url(url)
    document = {"outbox": name, "changed": changed, "version": OUTBOX_VERSION}
    cmd.out.answer(document, installed_text(name, changed))


@app.command("prune")
async def prune(cmd: Command, url: Url) -> None:
    """Delete relayed rows from an application's SQLite file. The next publish of the application does the same.

    hookline outbox prune sqlite:////srv/shop/shop.db
    """
    params.check_database_url("URL", url)
    async with cmd.session() as opened:
        count = await setup.prune(url, opened.store)
    cmd.out.answer({"deleted": count}, f"{count:,} deleted")


# ── list, show ────────────────────────────────────────────────────────────────────────────────────────────────────


Id = Annotated[
    int,
    Argument(metavar="ID", min=1, max=params.LARGEST_NUMBER, help="The row's id, as `outbox list` shows it."),
]
Ids = Annotated[
    list[int] | None,
    Argument(metavar="[ID]...", min=1, max=params.LARGEST_NUMBER, help="The rows' ids, as `outbox list` shows them."),
]


@app.command("list")
async def list_set_aside(cmd: Command, paging: params.NumberPaging) -> None:
    """List the rows that could not become messages, with the reason; oldest first. They do not delay other rows."""
    found = await cmd.read(lambda store: store.repair.set_aside(paging.page))
    cmd.out.listing(
        found,
        document=_document,
        columns=("id", "set aside", "application", "event type", "event id", "from", "reason"),
        cells=_cells,
        empty="Nothing is set aside.",
    )
    if found:
        cmd.out.note("hookline outbox show ID    hookline outbox retry ID    hookline outbox discard ID")


def _cells(row: SetAside) -> tuple[Cell, ...]:
    return (row.id, row.set_aside_at, row.app, row.event_type, row.event_id, row.source or "own", row.reason)


def _document(row: SetAside) -> dict[str, object]:
    return {
        "id": row.id,
        "orgId": row.org_id,
        "app": row.app,
        "eventType": row.event_type,
        "eventId": row.event_id,
        "reason": row.reason,
        "source": row.source,
        "createdAt": row.created_at,
        "setAsideAt": row.set_aside_at,
    }


@app.command("show")
async def show(cmd: Command, row_id: Id) -> None:
    """Show one row that was set aside, with its payload as the application wrote it."""
    async with cmd.session() as opened:
        (row,) = await outbox.find(opened.deps, [row_id])
    payload = row.payload.decode(errors="backslashreplace")
    cmd.out.result(_document(row) | {"payload": payload}, as_text=lambda: _print(cmd.out, row, payload))


def _print(out: Output, row: SetAside, payload: str) -> None:
    out.fields(
        [
            ("id", row.id),
            ("reason", row.reason),
            ("from", row.source or "own"),
            ("organization", row.org_id),
            ("application", row.app),
            ("event type", row.event_type),
            ("event id", row.event_id),
            ("written", row.created_at),
            ("set aside", row.set_aside_at),
            ("payload", payload),
        ]
    )
    out.note(f"hookline outbox retry {row.id}    or    hookline outbox discard {row.id}")


# ── retry, discard ────────────────────────────────────────────────────────────────────────────────────────────────


@app.command("retry")
async def retry(
    cmd: Command,
    ids: Ids = None,
    everything: Annotated[bool, Option("--all", help="All rows that are set aside.")] = False,
) -> None:
    """Put rows back into the outbox, after you have removed the cause. Rows that fail again are set aside again.

    hookline outbox retry 17 18

    hookline outbox retry --all
    """
    if bool(ids) == everything:
        raise InvalidInput("say which ones to retry: their numbers, or --all")
    count = await cmd.call(outbox.retry, ids or None)
    cmd.out.answer({"retried": count}, f"{count:,} put back into the outbox")


@app.command("discard")
async def discard(cmd: Command, ids: Ids = None, yes: params.Yes = False) -> None:
    """Delete rows that were set aside. They are never sent.

    hookline outbox discard 17
    """
    if not ids:
        raise InvalidInput("say which ones to discard: their numbers")
    async with cmd.session() as opened:
        found = await outbox.find(opened.deps, ids)
        if not yes:
            confirm(f"Discard {len(found):,} event{'' if len(found) == 1 else 's'} that nobody has received?")
        count = await outbox.discard(opened.deps, opened.by, ids)
    cmd.out.answer({"discarded": count}, f"{count:,} discarded")
