"""`token`: create an API token, or a link that signs in to the dashboard."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from msgspec import Struct
from typer import Option

from hookline.cli import params
from hookline.cli.command import OrgCommand
from hookline.cli.output import Output
from hookline.cli.session import Session
from hookline.errors import InvalidInput
from hookline.server.sockets import shown_address
from hookline.services import tokens


class Created(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The document of `--json`. It has either `token` or `url`."""

    token: str | None = None
    url: str | None = None
    org_id: str
    app_id: str | None
    expires_at: datetime


async def token(
    cmd: OrgCommand,
    app: params.OnlyApp = None,
    days: Annotated[float | None, Option(help="Days until it expires.", show_default="30, 28 with --app")] = None,
    link: Annotated[
        bool, Option("--link", help="Print a link that signs in to the dashboard once, within 10 minutes.")
    ] = False,
    revoke_all: Annotated[
        bool,
        Option("--revoke-all", help="First revoke all tokens issued until now: of the application, or all."),
    ] = False,
) -> None:
    """Create a token for the API, or a link that signs in to the dashboard.

    curl -H "Authorization: Bearer $(hookline token)" http://127.0.0.1:8071/api/v1/app

    hookline token --link                sign in to the dashboard

    hookline token --revoke-all          after a token has leaked; API keys stay valid

    `--revoke-all` revokes the tokens of the organization and of all its applications. With `--app`, it revokes only the
    tokens of that application.

    Standard output has only the token or the link. Standard error has the time when it expires. A long-running service
    needs an API key instead: `hookline keys create NAME`.
    """
    params.check_number("--days", days, params.MAX_DAYS)
    if link and (app is not None or days is not None):
        raise InvalidInput(
            "--link takes neither --app nor --days: it signs in to the whole dashboard, within 10 minutes"
        )
    async with cmd.session() as opened:
        if revoke_all:
            await tokens.revoke_all(opened.deps, opened.by, app)
        created = await (_link(opened) if link else _token(opened, app, days))
    cmd.out.result(created, as_text=lambda: _print(cmd.out, created))


async def _link(opened: Session) -> Created:
    issued = await tokens.issue_sign_in(opened.deps, opened.by)
    config = opened.config
    url = sign_in_link(config.public_url or shown_address(config.host, config.port), issued.token)
    return Created(url=url, org_id=opened.org_id, app_id=None, expires_at=issued.expires_at)


async def _token(opened: Session, app: str | None, days: float | None) -> Created:
    issued = await tokens.issue(opened.deps, opened.by, app, None if days is None else days * 86_400)
    app_id = None if issued.app is None else issued.app.id
    return Created(token=issued.token, org_id=opened.org_id, app_id=app_id, expires_at=issued.expires_at)


def _print(out: Output, created: Created) -> None:
    out.line(created.token or created.url or "")
    words = "signs in once, until" if created.url else "valid until"
    out.aside(f"{words} {created.expires_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC")


def sign_in_link(address: str, token: str) -> str:
    """Put the token after the #, because browsers do not send that part to the server."""
    return f"{address}/login#token={token}"
