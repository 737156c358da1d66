"""`event-types list|add`."""

from __future__ import annotations

from typing import Annotated

import typer

from hookline import manage
from hookline.api import wire
from hookline.cli import params
from hookline.cli.output import Output
from hookline.cli.session import run, session
from hookline.model import EventType
from hookline.store.base import Page

app = typer.Typer(help="Event types: the catalogue that endpoints choose from.", no_args_is_help=True)


@app.command("list")
def list_event_types(
    org: params.Org = params.DEFAULT_ORG_ID,
    limit: params.Limit = 50,
    after: params.After = None,
    as_json: params.Json = False,
) -> None:
    """List event types."""
    out = Output(as_json)
    found = run(_list(org, Page(limit=limit, iterator=after)))
    out.result(
        {"data": [wire.event_type(each) for each in found]},
        people=lambda: out.table(
            ("name", "description", "created"),
            [(each.name, each.description, each.created_at) for each in found],
            empty="No event types yet. Add one: hookline event-types add order.paid",
        ),
    )


async def _list(org: str, page: Page) -> list[EventType]:
    async with session(org) as opened:
        return await opened.store.event_types(opened.org_id, page)


@app.command("add")
def add(
    name: Annotated[str, typer.Argument(help="Such as order.paid.")],
    description: Annotated[str, typer.Option("--description", help="For people.")] = "",
    org: params.Org = params.DEFAULT_ORG_ID,
    as_json: params.Json = False,
) -> None:
    """Add an event type, so that endpoints can choose it."""
    out = Output(as_json)
    made = run(_add(org, name, description))
    out.result(wire.event_type(made), people=lambda: out.line(made.name))


async def _add(org: str, name: str, description: str) -> EventType:
    async with session(org, creates=True) as opened:
        return await manage.add_event_type(opened.store, opened.org_id, name, description, opened.now)
