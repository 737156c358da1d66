"""`outbox sql|install|prune`: set up and prune the outbox table in an application's own database."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Annotated

import typer
from typer import Argument, Option

from hookline import config
from hookline.cli.command import Command
from hookline.cli.migrate import installed_text
from hookline.config import shown_url, urls
from hookline.engine.sources import setup
from hookline.errors import InvalidInput
from hookline.outbox.setup import VERSION as OUTBOX_VERSION
from hookline.outbox.setup import sql as outbox_sql

MAX_ROLE = 63  # bytes; PostgreSQL cuts off longer names

Url = Annotated[str, Argument(metavar="URL", help="sqlite:////srv/shop/shop.db or postgresql://...")]


class Engine(StrEnum):
    SQLITE = "sqlite"
    POSTGRES = "postgres"


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
    cmd.out.result({"sql": text}, people=lambda: typer.echo(text, nl=False))


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


async def install(cmd: Command, url: Url) -> None:
    """Create the outbox in an application's own database. Safe to run again. `migrate` does it for HOOKLINE_OUTBOX_URLS.

    hookline outbox install sqlite:////srv/shop/shop.db
    """
    _check(url)
    changed, name = await setup.install(url), shown_url(url)
    document = {"outbox": name, "changed": changed, "version": OUTBOX_VERSION}
    cmd.out.answer(document, installed_text(name, changed))


async def prune(cmd: Command, url: Url) -> None:
    """Delete relayed rows from an application's SQLite file. The next publish of the application does the same.

    hookline outbox prune sqlite:////srv/shop/shop.db
    """
    _check(url)
    async with cmd.session() as opened:
        count = await setup.prune(url, opened.store)
    cmd.out.answer({"deleted": count}, f"{count:,} deleted")


def _check(url: str) -> None:
    try:
        urls.database_url(url)
    except ValueError as takes:
        raise InvalidInput(f"takes {takes}", field="URL") from None
