"""`migrate` and `token`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from msgspec import Struct

from hookline import clock
from hookline.cli import logs, params
from hookline.cli.output import Output
from hookline.cli.session import Session, load_config, run, session
from hookline.config import Config, shown_url
from hookline.errors import HooklineError
from hookline.sources.setup import install
from hookline.store import open_store
from hookline.store.base import SCHEMA_VERSION
from hookline.vault import Vault

LONGEST_TOKEN = 36_500.0  # days


class Installed(Struct, frozen=True, kw_only=True, omit_defaults=True):
    outbox: str
    changed: bool | None = None
    error: str | None = None


def migrate(as_json: params.Json = False) -> None:
    """Bring the database to this release's version. `serve` does it by itself unless HOOKLINE_AUTO_MIGRATE=false.

    Also sets the outbox up in every database of HOOKLINE_OUTBOX_URLS, which `serve` does not: they are the applications' own.

    Safe to run anywhere, any number of times: one lock, forward only.
    """
    out = Output(as_json)
    config = load_config()
    logs.configure(config)
    applied = run(_migrate(config))
    outboxes, failure = run(_install(config.outbox_urls))
    document = {"applied": applied, "version": SCHEMA_VERSION, "outboxes": outboxes}
    out.result(document, people=lambda: _print(out, applied, outboxes))
    if failure is not None:
        raise failure


async def _migrate(config: Config) -> list[int]:
    store = await open_store(config.database_url, vault=Vault(config.secret_keys), options=config.store_options())
    try:
        return await store.migrate()
    finally:
        await store.close()


async def _install(urls: Sequence[str]) -> tuple[list[Installed], HooklineError | None]:
    """In each of them, whatever becomes of the others; and the first failure."""
    done = []
    failure: HooklineError | None = None
    for url in urls:
        try:
            done.append(Installed(outbox=shown_url(url), changed=await install(url)))
        except HooklineError as error:
            failure = failure or error
            done.append(Installed(outbox=shown_url(url), error=str(error)))
    return done, failure


def _print(out: Output, applied: Sequence[int], outboxes: Sequence[Installed]) -> None:
    words = ", ".join(map(str, applied))
    out.line(f"applied {words}" if applied else f"nothing to do: version {SCHEMA_VERSION}")
    for one in outboxes:
        if one.error is None:
            out.line(f"{one.outbox}: the outbox {'is set up' if one.changed else 'was set up already'}")


def token(
    org: params.Org = params.DEFAULT_ORG_ID,
    app: Annotated[str | None, typer.Option("--app", help="For this application only (id or uid).")] = None,
    days: Annotated[
        float | None, typer.Option("--days", help="How long it is valid.", show_default="3650, 28 with --app")
    ] = None,
    revoke_all: Annotated[
        bool,
        typer.Option("--revoke-all", help="First make void every token issued until now: of the application, or all."),
    ] = False,
    as_json: params.Json = False,
) -> None:
    """Make a token for the API.

    curl -H "Authorization: Bearer $(hookline token)" http://127.0.0.1:8071/api/v1/app

    hookline token --revoke-all          after one has leaked; API keys stay valid
    """
    out = Output(as_json)
    if days is not None:
        params.check_number("--days", days, LONGEST_TOKEN)
    made = run(_token(org, app, days, revoke_all))
    out.result(made, people=lambda: out.line(made["token"] or ""))


async def _token(org: str, app_ref: str | None, days: float | None, revoke_all: bool) -> dict[str, str | None]:
    async with session(org) as opened:
        app = None if app_ref is None else await opened.application(app_ref)
        if revoke_all:
            await opened.store.revoke_tokens(opened.org_id, None if app is None else app.no, clock.wall())
        app_id = None if app is None else app.id
        if revoke_all:
            await opened.remember("token.revoke_all", app_id or opened.org_id, app_id=app_id)
        await opened.remember("token.create", app_id or opened.org_id, app_id=app_id)
        return {"token": issue(opened, app_id, days), "orgId": opened.org_id, "appId": app_id}


def issue(opened: Session, app_id: str | None = None, days: float | None = None) -> str:
    from hookline import tokens

    return tokens.issue(
        opened.config.jwt_secret,
        opened.org_id,
        app_id=app_id,
        now=clock.wall(),
        lifetime=None if days is None else days * 86_400,
    )
