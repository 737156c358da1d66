"""`outbox sql|install|prune`: the table in an application's own database."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Annotated

import typer

from hookline import config
from hookline.cli import params
from hookline.cli.output import Output
from hookline.cli.session import run, session
from hookline.config import shown_url, urls
from hookline.engine.sources import setup
from hookline.errors import InvalidInput
from hookline.outbox.setup import sql as outbox_sql

LONGEST_ROLE = 63  # bytes: PostgreSQL would cut a longer one

Url = Annotated[str, typer.Argument(metavar="URL", help="sqlite:////srv/shop/shop.db or postgresql://...")]


class Engine(StrEnum):
    SQLITE = "sqlite"
    POSTGRES = "postgres"


def sql(
    engine: Annotated[
        Engine | None, typer.Argument(help="Of the application's database.", show_default="as Hookline's own")
    ] = None,
    grant: Annotated[
        list[str] | None, typer.Option("--grant", metavar="ROLE", help="A role that may publish (PostgreSQL).")
    ] = None,
    as_json: params.Json = False,
) -> None:
    """Print the SQL that sets the outbox up: for your own migrations, or for whoever may run it.

    hookline outbox sql postgres --grant shop | psql "$SHOP_DATABASE_URL"

    hookline outbox sql sqlite | sqlite3 shop.db
    """
    chosen = engine or _engine()
    if grant and chosen == Engine.SQLITE:
        raise InvalidInput("--grant is for PostgreSQL: SQLite has no roles")
    text = outbox_sql(chosen.value) + "".join(f"\n{grants(role)}" for role in grant or ())
    out = Output(as_json)
    out.result({"sql": text}, people=lambda: typer.echo(text, nl=False))


def _engine() -> Engine:
    own = config.parse(os.environ).database_url
    return Engine.POSTGRES if urls.sqlite_path(own) is None else Engine.SQLITE


def grants(role: str) -> str:
    """What a role needs to publish, and nothing more."""
    name = _quoted(role)
    return setup.GRANTS.format(role=name)


def _quoted(role: str) -> str:
    if not role or len(role.encode()) > LONGEST_ROLE or not role.isprintable():
        raise InvalidInput(f"--grant takes the name of a role, up to {LONGEST_ROLE} bytes")
    return "PUBLIC" if role.lower() == "public" else '"' + role.replace('"', '""') + '"'


def install(url: Url, as_json: params.Json = False) -> None:
    """Set the outbox up in an application's own database. Safe to run again; `migrate` does it for HOOKLINE_OUTBOX_URLS.

    hookline outbox install sqlite:////srv/shop/shop.db
    """
    _check(url)
    out = Output(as_json)
    changed = run(setup.install(url))
    name = shown_url(url)
    out.result(
        {"outbox": name, "changed": changed, "version": setup.VERSION},
        people=lambda: out.line(f"{name}: the outbox {'is set up' if changed else 'was set up already'}"),
    )


def prune(url: Url, as_json: params.Json = False) -> None:
    """Delete what has been relayed from an application's SQLite file. Its own next publish does the same.

    hookline outbox prune sqlite:////srv/shop/shop.db
    """
    _check(url)
    out = Output(as_json)
    count = run(_prune(url))
    out.result({"deleted": count}, people=lambda: out.line(f"{count:,} deleted"))


async def _prune(url: str) -> int:
    async with session() as opened:
        return await setup.prune(url, opened.store)


def _check(url: str) -> None:
    try:
        urls.database_url(url)
    except ValueError as takes:
        raise InvalidInput(f"takes {takes}", field="URL") from None
