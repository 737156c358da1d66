"""`outbox status`: count the waiting rows, in Hookline's own outbox and in those of the configured applications."""

from __future__ import annotations

from datetime import datetime

import typer
from msgspec import Struct

from hookline.cli.command import Command
from hookline.cli.output import Cell
from hookline.cli.session import Session
from hookline.config import shown_url
from hookline.engine.sources.status import examine
from hookline.errors import SourceUnavailable
from hookline.store.protocols import COUNTED


class Line(Struct, frozen=True, kw_only=True, rename="camel"):
    """The counts of one outbox."""

    outbox: str
    waiting: int | None = None
    oldest: datetime | None = None
    set_aside: int | None = None  # only for Hookline's own outbox, which keeps the set-aside rows of all outboxes
    error: str | None = None


async def status(cmd: Command) -> None:
    """Count the rows that wait for the relay and those that are set aside. Counts stop at 10,000.

    The exit code is 4 if a database could not be read.
    """
    async with cmd.session() as opened:
        own = await opened.store.repair.outbox()
        first = Line(
            outbox=shown_url(opened.config.database_url),
            waiting=own.waiting,
            oldest=own.oldest,
            set_aside=own.set_aside,
        )
        lines = [first, *[await _source(opened, url) for url in opened.config.outbox_urls]]
    cmd.out.listing(
        lines,
        document=lambda line: line,
        columns=("outbox", "waiting", "oldest", "set aside", "error"),
        cells=_cells,
        empty="",
    )
    if any(line.error for line in lines):
        raise typer.Exit(4)


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
