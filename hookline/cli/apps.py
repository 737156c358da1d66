"""`apps list|add`."""

from __future__ import annotations

from typing import Annotated

import typer

from hookline import manage
from hookline.api import wire
from hookline.cli import params
from hookline.cli.output import Output
from hookline.cli.session import run, session
from hookline.model import Application, NewApplication
from hookline.store.base import Page

app = typer.Typer(help="Applications: the customers whose endpoints get webhooks.", no_args_is_help=True)


@app.command("list")
def list_apps(
    org: params.Org = params.DEFAULT_ORG_ID,
    limit: params.Limit = 50,
    after: params.After = None,
    as_json: params.Json = False,
) -> None:
    """List applications."""
    out = Output(as_json)
    found = run(_list(org, Page(limit=limit, iterator=after)))
    out.result(
        {"data": [wire.application(each) for each in found]},
        people=lambda: out.table(
            ("id", "uid", "name", "created"),
            [(each.id, each.uid, each.name, each.created_at) for each in found],
            empty="No applications yet. Make one: hookline apps add demo",
        ),
    )


async def _list(org: str, page: Page) -> list[Application]:
    async with session(org) as opened:
        return await opened.store.applications(opened.org_id, page)


@app.command("add")
def add(
    uid: Annotated[str, typer.Argument(help="Your own name for it, such as a customer's id.")],
    name: Annotated[str | None, typer.Option("--name", help="For people.", show_default="the uid")] = None,
    org: params.Org = params.DEFAULT_ORG_ID,
    as_json: params.Json = False,
) -> None:
    """Add an application.

    hookline apps add acme --name "Acme Inc."
    """
    out = Output(as_json)
    made = run(_add(org, NewApplication(name=name or uid, uid=uid)))
    out.result(wire.application(made), people=lambda: out.line(made.id))


async def _add(org: str, new: NewApplication) -> Application:
    async with session(org, creates=True) as opened:
        return await manage.add_application(opened.store, opened.org_id, new)
