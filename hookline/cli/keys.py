"""`keys create|list|revoke`."""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import timedelta
from typing import Annotated

import typer

from hookline.api.wire.keys import api_key, api_key_made
from hookline.cli import params
from hookline.cli.output import Cell, Output
from hookline.cli.session import Session, in_session
from hookline.model import ApiKey, Scope
from hookline.services import api_keys
from hookline.store.protocols import Page

LONGEST = 36_500.0  # days

app = typer.Typer(
    help="API keys: with a scope, for one application or all, revocable one by one.", no_args_is_help=True
)


@app.command("create")
def create(
    name: Annotated[str, typer.Argument(help="For people: who uses it, and where.")],
    scope: Annotated[Scope, typer.Option("--scope", help="What its holder may do.")] = Scope.FULL,
    app_ref: Annotated[str | None, typer.Option("--app", help="For this application only (id or uid).")] = None,
    days: Annotated[
        float | None, typer.Option("--days", help="How long it is valid.", show_default="until it is revoked")
    ] = None,
    org: params.Org = params.DEFAULT_ORG_ID,
    as_json: params.Json = False,
) -> None:
    """Make an API key. It is printed this once; only its hash is kept.

    hookline keys create "checkout service" --scope publish
    """
    out = Output(as_json)
    if days is not None:
        params.check_number("--days", days, LONGEST)

    def work(opened: Session) -> Awaitable[tuple[ApiKey, str]]:
        expires_at = None if days is None else opened.now + timedelta(days=days)
        return api_keys.create(opened.deps, opened.by, name=name, scope=scope, app=app_ref, expires_at=expires_at)

    made, key = in_session(org, work, creates=True)
    out.result(api_key_made(made, key), people=lambda: out.line(key))


@app.command("list")
def list_keys(
    org: params.Org = params.DEFAULT_ORG_ID,
    limit: params.Limit = 50,
    after: params.After = None,
    as_json: params.Json = False,
) -> None:
    """List the API keys that were not revoked, with their last use."""
    out = Output(as_json)
    page = Page(limit=limit, iterator=after)
    found = in_session(org, lambda opened: opened.store.api_keys(org, page))
    out.listing(
        found,
        document=api_key,
        columns=("id", "name", "scope", "application", "ends in", "created", "expires", "last used"),
        cells=_cells,
        empty="No API keys. Make one: hookline keys create NAME",
    )


def _cells(key: ApiKey) -> tuple[Cell, ...]:
    what = (key.id, key.name, key.scope.value, key.app_id or "all", key.hint)
    return (*what, key.created_at, key.expires_at, key.last_used_at)


@app.command("revoke")
def revoke(
    key_id: Annotated[str, typer.Argument(help="Such as key_2b..., as `keys list` shows it.")],
    org: params.Org = params.DEFAULT_ORG_ID,
    as_json: params.Json = False,
) -> None:
    """Revoke an API key, for good. Servers notice within moments."""
    out = Output(as_json)
    in_session(org, lambda opened: api_keys.revoke(opened.deps, opened.by, key_id))
    out.result({"revoked": key_id}, people=lambda: out.line(f"revoked {key_id}"))
