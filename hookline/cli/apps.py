"""`apps list|add|throttle`."""

from __future__ import annotations

from typing import Annotated

import typer

from hookline.api import wire
from hookline.cli import params
from hookline.cli.output import Output
from hookline.cli.session import run, session
from hookline.errors import InvalidInput
from hookline.model import Application, ApplicationChange, NewApplication
from hookline.services import manage
from hookline.store.protocols import Page

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
    out.listing(
        found,
        document=wire.application,
        columns=("id", "uid", "name", "throttle", "created"),
        cells=lambda each: (each.id, each.uid, each.name, _rate(each), each.created_at),
        empty="No applications yet. Make one: hookline apps add demo",
    )


async def _list(org: str, page: Page) -> list[Application]:
    async with session(org) as opened:
        return await opened.store.applications(opened.org_id, page)


@app.command("add")
def add(
    uid: Annotated[str, typer.Argument(help="Your own name for it, such as a customer's id.")],
    name: Annotated[str | None, typer.Option("--name", help="For people.", show_default="the uid")] = None,
    throttle: Annotated[
        int | None, typer.Option("--throttle", help="Most requests a second, to all of its endpoints together.")
    ] = None,
    org: params.Org = params.DEFAULT_ORG_ID,
    as_json: params.Json = False,
) -> None:
    """Add an application.

    hookline apps add acme --name "Acme Inc."
    """
    out = Output(as_json)
    made = run(_add(org, NewApplication(name=name or uid, uid=uid, throttle_rate=throttle)))
    out.result(wire.application(made), people=lambda: out.line(made.id))


async def _add(org: str, new: NewApplication) -> Application:
    async with session(org, creates=True) as opened:
        made = await manage.add_application(opened.store, opened.org_id, new)
        await opened.remember("application.create", made.id, app_id=made.id)
        return made


@app.command("throttle")
def throttle(
    ref: Annotated[str, typer.Argument(metavar="APP", help="Its id or uid.")],
    rate: Annotated[int | None, typer.Argument(metavar="[RATE]", help="Most requests a second.")] = None,
    off: Annotated[bool, typer.Option("--off", help="Let it go at full speed.")] = False,
    org: params.Org = params.DEFAULT_ORG_ID,
    as_json: params.Json = False,
) -> None:
    """Limit the requests to all endpoints of an application together. Workers keep to it at once.

    hookline apps throttle acme 50
    """
    if (rate is None) != off:
        raise InvalidInput("give a rate, or --off")
    out = Output(as_json)
    changed = run(_throttle(org, ref, ApplicationChange(throttle_rate=rate)))
    told = _rate(changed) or "no limit"
    out.result(wire.application(changed), people=lambda: out.line(f"{changed.id}: {told}"))


async def _throttle(org: str, ref: str, change: ApplicationChange) -> Application:
    async with session(org) as opened:
        found = await manage.find_application(opened.store, opened.org_id, ref)
        changed = await manage.change_application(opened.store, found, change)
        await opened.remember(
            "application.edit", changed.id, app_id=changed.id, detail=f"throttle: {_rate(changed) or 'none'}"
        )
        return changed


def _rate(app: Application) -> str | None:
    return None if app.throttle_rate is None else f"{app.throttle_rate}/s"
