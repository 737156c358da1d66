"""`outbox list|show|retry|discard`. Other modules have `outbox status|sql|install|prune`."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from hookline.cli import outbox_setup, outbox_status, params
from hookline.cli.command import Command, CommandGroup
from hookline.cli.output import Cell, Output, confirm
from hookline.errors import InvalidInput
from hookline.model import SetAside
from hookline.services import outbox

app = CommandGroup(
    help="The outbox: events that applications have published, and those that could not become messages.",
    no_args_is_help=True,
)
app.command("status")(outbox_status.status)
app.command("sql")(outbox_setup.sql)
app.command("install")(outbox_setup.install)
app.command("prune")(outbox_setup.prune)

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
    cmd.out.result(_document(row) | {"payload": payload}, people=lambda: _print(cmd.out, row, payload))


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
