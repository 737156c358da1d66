"""`apps list|add|throttle`."""

from __future__ import annotations

from typing import Annotated

import typer

from hookline.api import wire
from hookline.cli import params
from hookline.cli.output import Output
from hookline.cli.session import in_session
from hookline.errors import InvalidInput
from hookline.model import Application, ApplicationChange, NewApplication
from hookline.services import applications
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
    page = Page(limit=limit, iterator=after)
    found = in_session(org, lambda opened: opened.store.applications(org, page))
    out.listing(
        found,
        document=wire.application,
        columns=("id", "uid", "name", "throttle", "created"),
        cells=lambda each: (each.id, each.uid, each.name, _rate(each), each.created_at),
        empty="No applications yet. Make one: hookline apps add demo",
    )


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
    new = NewApplication(name=name or uid, uid=uid, throttle_rate=throttle)
    made = in_session(org, lambda opened: applications.create(opened.deps, opened.by, new), creates=True)
    out.result(wire.application(made), people=lambda: out.line(made.id))


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
    change = ApplicationChange(throttle_rate=rate)
    changed = in_session(org, lambda opened: applications.change(opened.deps, opened.by, ref, change))
    told = _rate(changed) or "no limit"
    out.result(wire.application(changed), people=lambda: out.line(f"{changed.id}: {told}"))


def _rate(app: Application) -> str | None:
    return None if app.throttle_rate is None else f"{app.throttle_rate}/s"
