"""`keys create|list|revoke`."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from typer import Argument, Option

from hookline.api.wire.keys import api_key, api_key_made
from hookline.cli import params
from hookline.cli.command import CreatingCommand, OrgCommand
from hookline.cli.group import CommandGroup
from hookline.cli.output import Cell
from hookline.model.actors import ApiKey, Scope
from hookline.services import api_keys

app = CommandGroup(help="API keys. A key has a scope, is for one application or all, and is revoked on its own.")


@app.command("create")
async def create(
    cmd: CreatingCommand,
    name: Annotated[str, Argument(help="A name that says who uses the key, and where.")],
    scope: Annotated[Scope, Option(help="What the key allows.")] = Scope.FULL,
    app_ref: params.OnlyApp = None,
    days: Annotated[float | None, Option(help="Days until it expires.", show_default="until it is revoked")] = None,
) -> None:
    """Create an API key and print it. Hookline stores only a hash, so it cannot print the key again.

    hookline keys create "checkout service" --scope publish
    """
    params.check_number("--days", days, params.MAX_DAYS)
    async with cmd.session() as opened:
        expires_at = None if days is None else opened.now + timedelta(days=days)
        created, key = await api_keys.create(
            opened.deps, opened.by, name=name, scope=scope, app=app_ref, expires_at=expires_at
        )
    cmd.out.answer(api_key_made(created, key), key)


@app.command("list")
async def list_keys(cmd: OrgCommand, paging: params.Paging) -> None:
    """List the API keys that are not revoked, with their last use."""
    cmd.out.listing(
        await cmd.read(lambda store: store.access.api_keys(cmd.org, paging.page)),
        document=api_key,
        columns=("id", "name", "scope", "application", "ends in", "created", "expires", "last used"),
        cells=_cells,
        empty="No API keys. Create one: hookline keys create NAME",
    )


def _cells(key: ApiKey) -> tuple[Cell, ...]:
    first = (key.id, key.name, key.scope.value, key.app_id or "all", key.hint)
    return (*first, key.created_at, key.expires_at, key.last_used_at)


@app.command("revoke")
async def revoke(
    cmd: OrgCommand, key_id: Annotated[str, Argument(help="The key's id, key_..., as `keys list` shows it.")]
) -> None:
    """Revoke an API key for ever. Running servers refuse it within seconds."""
    await cmd.call(api_keys.revoke, key_id)
    cmd.out.answer({"revoked": key_id}, f"revoked {key_id}")
