"""API tokens: issue and revoke them."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from hookline.errors import Forbidden
from hookline.model.audit import NewAuditEntry
from hookline.model.callers import Caller
from hookline.model.catalogue import Application
from hookline.security import tokens
from hookline.services import audit, lookup
from hookline.services.deps import Deps


class Issued(Struct, frozen=True, kw_only=True):
    token: str
    app: Application | None
    expires_at: datetime

    def __repr__(self) -> str:
        return f"Issued(expires_at={self.expires_at!r}, …)"


async def issue(deps: Deps, by: Caller, app: str | None = None, lifetime: float | None = None) -> Issued:
    """Issue a token for the organization or for one of its applications. The lifetime is in seconds."""
    found = None if app is None else await lookup.application(deps, by, app)
    if lifetime is None:
        lifetime = tokens.ORG_LIFETIME if found is None else tokens.APP_LIFETIME
    now, app_id = deps.wall(), None if found is None else found.id
    token = tokens.issue(deps.token_secret, by.org_id, app_id=app_id, now=now, lifetime=lifetime)
    await deps.store.access.add_audit([_entry(by, "token.create", found)])
    return Issued(token=token, app=found, expires_at=now + timedelta(seconds=lifetime))


async def issue_sign_in(deps: Deps, by: Caller) -> Issued:
    """Issue the token of a sign-in link for the organization's dashboard. It works once and expires within minutes."""
    now = deps.wall()
    token = tokens.issue_link(deps.token_secret, by.org_id, now=now)
    await deps.store.access.add_audit([_entry(by, "token.create", None, "sign-in link")])
    return Issued(token=token, app=None, expires_at=now + timedelta(seconds=tokens.LINK_LIFETIME))


async def revoke(deps: Deps, by: Caller) -> None:
    """Revoke the token that the caller uses for this request."""
    if by.token is None or by.expires_at is None:
        raise Forbidden("an API key is revoked by its id, with DELETE /api/v1/api-key/{key_id}")
    if by.app is None:
        raise Forbidden("an organization's token is not logged out by its holder: POST /api/v1/auth/revoke-tokens")
    entry = _entry(by, "token.revoke", by.app)
    await deps.store.access.revoke_token(by.token, by.expires_at, note=lambda revoked: entry if revoked else None)
    deps.forget_callers(lambda known: known.token == by.token)


async def revoke_all(deps: Deps, by: Caller, app: str | None = None) -> None:
    """Revoke every token issued so far for the organization or for one application. API keys stay valid."""
    found = None if app is None else await lookup.application(deps, by, app)
    await revoke_issued(deps, by.org_id, found, _entry(by, "token.revoke_all", found))


async def revoke_issued(deps: Deps, org_id: str, app: Application | None, entry: NewAuditEntry) -> None:
    app_no = None if app is None else app.no
    await deps.store.access.revoke_tokens(org_id, app_no, deps.wall(), note=lambda _: entry)
    deps.forget_callers(lambda known: known.key_id is None and known.org_id == org_id)


def _entry(by: Caller, action: str, app: Application | None, detail: str = "") -> NewAuditEntry:
    app_id = None if app is None else app.id
    return audit.entry(by, action, app_id or by.org_id, app_id=app_id, detail=detail)
