"""`migrate` and `token`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer
from msgspec import Struct

from hookline.cli import params
from hookline.cli.output import Output
from hookline.cli.session import load_config, run, session
from hookline.config import Config, shown_url
from hookline.engine.sources.setup import install
from hookline.errors import HooklineError, InvalidInput
from hookline.server import logs
from hookline.server.process import open_configured
from hookline.server.sockets import shown_address
from hookline.services import tokens
from hookline.store.protocols import SCHEMA_VERSION

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
    store = await open_configured(config)
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
        float | None, typer.Option("--days", help="How long it is valid.", show_default="30, 28 with --app")
    ] = None,
    link: Annotated[
        bool, typer.Option("--link", help="Instead, a link that signs in to the dashboard once, within 10 minutes.")
    ] = False,
    revoke_all: Annotated[
        bool,
        typer.Option("--revoke-all", help="First make void every token issued until now: of the application, or all."),
    ] = False,
    as_json: params.Json = False,
) -> None:
    """Make a token for the API, or a link that signs in to the dashboard.

    curl -H "Authorization: Bearer $(hookline token)" http://127.0.0.1:8071/api/v1/app

    hookline token --link                sign in to the dashboard

    hookline token --revoke-all          after one has leaked; API keys stay valid

    Standard output has the token or the link alone; standard error says when it ends. A service that stays needs an API key:
    `hookline keys create NAME`.
    """
    out = Output(as_json)
    if days is not None:
        params.check_number("--days", days, LONGEST_TOKEN)
    if link and (app is not None or days is not None):
        raise InvalidInput(
            "--link takes neither --app nor --days: it signs in to the whole dashboard, within 10 minutes"
        )
    made = run(_token(org, app, days, link=link, revoke_all=revoke_all))
    out.result(made, people=lambda: _print_token(out, made))


class Made(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """`token` or `url`."""

    token: str | None = None
    url: str | None = None
    org_id: str
    app_id: str | None
    expires_at: datetime


def _print_token(out: Output, made: Made) -> None:
    out.line(made.token or made.url or "")
    what = "signs in once, until" if made.url else "valid until"
    out.aside(f"{what} {made.expires_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC")


async def _token(org: str, app_ref: str | None, days: float | None, *, link: bool, revoke_all: bool) -> Made:
    async with session(org) as opened:
        if revoke_all:
            await tokens.revoke_all(opened.deps, opened.by, app_ref)
        if link:
            made = await tokens.issue_sign_in(opened.deps, opened.by)
            config = opened.config
            url = sign_in_link(config.public_url or shown_address(config.host, config.port), made.token)
            return Made(url=url, org_id=org, app_id=None, expires_at=made.expires_at)
        lifetime = None if days is None else days * 86_400
        made = await tokens.issue(opened.deps, opened.by, app_ref, lifetime)
        app_id = None if made.app is None else made.app.id
        return Made(token=made.token, org_id=org, app_id=app_id, expires_at=made.expires_at)


def sign_in_link(address: str, token: str) -> str:
    """The token is behind the #: browsers do not send that part."""
    return f"{address}/login#token={token}"
