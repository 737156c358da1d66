"""`outbox list|show|retry|discard|status|sql|install|prune`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from hookline.cli import outbox_setup, outbox_status, params
from hookline.cli.output import Cell, Output, confirm
from hookline.cli.session import in_session, run, session
from hookline.errors import InvalidInput
from hookline.model import SetAside
from hookline.services import outbox
from hookline.store.protocols import Page

app = typer.Typer(
    help="The outbox: what applications have published, and what of it could not become messages.", no_args_is_help=True
)
app.command("status")(outbox_status.status)
app.command("sql")(outbox_setup.sql)
app.command("install")(outbox_setup.install)
app.command("prune")(outbox_setup.prune)

LARGEST = 10**18 - 1  # a number that every engine can hold

Id = Annotated[int, typer.Argument(metavar="ID", min=1, max=LARGEST, help="Its number, as `outbox list` shows it.")]
Ids = Annotated[
    list[int] | None,
    typer.Argument(metavar="[ID]...", min=1, max=LARGEST, help="Their numbers, as `outbox list` shows them."),
]
After = Annotated[
    int | None,
    typer.Option("--after", min=0, max=LARGEST, help="Go on after this number, the last of the page before."),
]


@app.command("list")
def list_set_aside(limit: params.Limit = 50, after: After = None, as_json: params.Json = False) -> None:
    """List the rows that could not become messages, with the reason; oldest first. Nothing else waits for them."""
    out = Output(as_json)
    page = Page(limit=limit, iterator=None if after is None else str(after))
    found = in_session(params.DEFAULT_ORG_ID, lambda opened: opened.store.set_aside(page))
    out.listing(
        found,
        document=_document,
        columns=("id", "set aside", "application", "event type", "event id", "from", "reason"),
        cells=_cells,
        empty="Nothing is set aside.",
    )
    if found:
        out.note("hookline outbox show ID    hookline outbox retry ID    hookline outbox discard ID")


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
def show(row_id: Id, as_json: params.Json = False) -> None:
    """Show one row that was set aside, with its payload as it was written."""
    out = Output(as_json)
    (row,) = in_session(params.DEFAULT_ORG_ID, lambda opened: outbox.find(opened.deps, [row_id]))
    payload = row.payload.decode(errors="backslashreplace")
    out.result(_document(row) | {"payload": payload}, people=lambda: _print(out, row, payload))


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
def retry(
    ids: Ids = None,
    everything: Annotated[bool, typer.Option("--all", help="All that are set aside.")] = False,
    as_json: params.Json = False,
) -> None:
    """Put rows back into the outbox, once what was wrong is mended. Those that fail again are set aside again.

    hookline outbox retry 17 18

    hookline outbox retry --all
    """
    if bool(ids) == everything:
        raise InvalidInput("say which ones to retry: their numbers, or --all")
    out = Output(as_json)
    count = in_session(params.DEFAULT_ORG_ID, lambda opened: outbox.retry(opened.deps, opened.by, ids or None))
    out.result({"retried": count}, people=lambda: out.line(f"{count:,} put back into the outbox"))


@app.command("discard")
def discard(ids: Ids = None, yes: params.Yes = False, as_json: params.Json = False) -> None:
    """Forget rows that were set aside, for good: they are sent to nobody.

    hookline outbox discard 17
    """
    if not ids:
        raise InvalidInput("say which ones to discard: their numbers")
    out = Output(as_json)
    count = run(_discard(ids, yes))
    out.result({"discarded": count}, people=lambda: out.line(f"{count:,} discarded"))


async def _discard(ids: Sequence[int], yes: bool) -> int:
    async with session() as opened:
        found = await outbox.find(opened.deps, ids)
        if not yes:
            confirm(f"Discard {len(found):,} event{'' if len(found) == 1 else 's'} that nobody has received?")
        return await outbox.discard(opened.deps, opened.by, ids)
