"""`apps list|add|throttle`."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from hookline.api import wire
from hookline.cli import params
from hookline.cli.command import CreatingCommand, OrgCommand
from hookline.cli.group import CommandGroup
from hookline.errors import InvalidInput
from hookline.model.catalogue import Application, ApplicationChange, NewApplication
from hookline.services import applications

app = CommandGroup(help="Applications: the customers whose endpoints get webhooks.")


@app.command("list")
async def list_apps(cmd: OrgCommand, paging: params.Paging) -> None:
    """List applications."""
    cmd.out.listing(
        await cmd.read(lambda store: store.catalogue.applications(cmd.org, paging.page)),
        document=wire.application,
        columns=("id", "uid", "name", "throttle", "created"),
        cells=lambda each: (each.id, each.uid, each.name, _rate(each), each.created_at),
        empty="No applications yet. Add one: hookline apps add demo",
    )


@app.command("add")
async def add(
    cmd: CreatingCommand,
    uid: Annotated[str, Argument(help="Your own id for it, such as a customer number.")],
    name: Annotated[str | None, Option(help="A name to display.", show_default="the uid")] = None,
    throttle: Annotated[
        int | None, Option(help="Maximum requests per second to all of its endpoints together.")
    ] = None,
) -> None:
    """Add an application.

    hookline apps add acme --name "Acme Inc."
    """
    new = NewApplication(name=name or uid, uid=uid, throttle_rate=throttle)
    created = await cmd.call(applications.create, new)
    cmd.out.answer(wire.application(created), created.id)


@app.command("throttle")
async def throttle(
    cmd: OrgCommand,
    ref: params.AppArgument,
    rate: Annotated[int | None, Argument(metavar="[RATE]", help="Maximum requests per second.")] = None,
    off: Annotated[bool, Option("--off", help="Remove the limit.")] = False,
) -> None:
    """Limit the requests to all endpoints of an application together. Running workers apply the limit at once.

    hookline apps throttle acme 50
    """
    if (rate is None) != off:
        raise InvalidInput("give a rate, or --off")
    changed = await cmd.call(applications.change, ref, ApplicationChange(throttle_rate=rate))
    cmd.out.answer(wire.application(changed), f"{changed.id}: {_rate(changed) or 'no limit'}")


def _rate(app: Application) -> str | None:
    return None if app.throttle_rate is None else f"{app.throttle_rate}/s"
