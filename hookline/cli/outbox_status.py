"""`outbox status`: how much waits, here and in every application's database that is configured."""

from __future__ import annotations

from datetime import datetime

import typer
from msgspec import Struct

from hookline.cli import params
from hookline.cli.output import Cell, Output
from hookline.cli.session import Session, run, session
from hookline.config import shown_url
from hookline.engine.sources.status import examine
from hookline.errors import SourceUnavailable
from hookline.store.protocols import COUNTED


class Line(Struct, frozen=True, kw_only=True, rename="camel"):
    """One outbox."""

    outbox: str
    waiting: int | None = None
    oldest: datetime | None = None
    set_aside: int | None = None  # only here: the rows of every outbox are set aside in Hookline's own
    error: str | None = None


def status(as_json: params.Json = False) -> None:
    """Count what waits to be relayed and what is set aside. The exit code is 4 when a database could not be looked into.

    Figures end at 10,000.
    """
    out = Output(as_json)
    lines = run(_status())
    out.result(
        {"data": lines},
        people=lambda: out.table(
            ("outbox", "waiting", "oldest", "set aside", "error"), [_cells(line) for line in lines], empty=""
        ),
    )
    if any(line.error for line in lines):
        raise typer.Exit(4)


async def _status() -> list[Line]:
    async with session() as opened:
        own = await opened.store.outbox()
        first = Line(
            outbox=shown_url(opened.config.database_url),
            waiting=own.waiting,
            oldest=own.oldest,
            set_aside=own.set_aside,
        )
        return [first, *[await _source(opened, url) for url in opened.config.outbox_urls]]


async def _source(opened: Session, url: str) -> Line:
    try:
        found = await examine(url, opened.store)
    except SourceUnavailable as error:
        return Line(outbox=shown_url(url), error=str(error))
    return Line(outbox=shown_url(url), waiting=found.waiting, oldest=found.oldest)


def _cells(line: Line) -> tuple[Cell, ...]:
    return (line.outbox, counted(line.waiting), line.oldest, counted(line.set_aside), line.error)


def counted(number: int | None) -> str | None:
    if number is None:
        return None
    return f"{number:,} or more" if number >= COUNTED else f"{number:,}"
