"""Applications: create, change and delete them, and give access to their portal."""

from __future__ import annotations

from base64 import urlsafe_b64encode

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import asdict

from hookline import ids
from hookline.errors import Conflict, InvalidInput, NoSuch
from hookline.model.actors import Scope
from hookline.model.audit import NewAuditEntry
from hookline.model.callers import Caller
from hookline.model.catalogue import Application, ApplicationChange, NewApplication
from hookline.rules.checks import catalogue
from hookline.security.tokens import PORTAL_LIFETIME, issue
from hookline.services import audit, lookup, tokens
from hookline.services.deps import Deps

SHORTEST_PORTAL = 3600  # minimum lifetime of a portal link, in seconds


async def create(deps: Deps, by: Caller, new: NewApplication) -> Application:
    checked = catalogue.check_application(new)
    return await deps.store.catalogue.create_application(
        by.org_id, checked, note=lambda app: _entry(by, "create", app, app.name[:200])
    )


async def get_or_create(deps: Deps, by: Caller, new: NewApplication) -> tuple[Application, bool]:
    """Return the application with the uid of `new`, and whether this call created it. `new` is always checked."""
    catalogue.check_application(new)
    found = None if new.uid is None else await deps.store.catalogue.application(by.org_id, new.uid)
    if found is not None:
        return found, False
    try:
        return await create(deps, by, new), True
    except Conflict:  # another caller has just created the application
        return await lookup.application(deps, by, new.uid or ""), False


async def find_or_create(deps: Deps, by: Caller, ref: str, new: NewApplication | None) -> Application:
    """Return the application with this id or uid. If it does not exist and `new` describes it, create it with `ref` as
    its uid."""
    found = await deps.store.catalogue.application(by.org_id, ref) if lookup.storable(ref) else None
    if found is not None:
        return found
    if new is None or ref.startswith(ids.APP):
        raise NoSuch("application", ref)
    if new.uid not in (None, ref):
        raise InvalidInput("must be the one in the path, or be left out", field="application.uid")
    made, _ = await get_or_create(deps, by, msgspec.structs.replace(new, uid=ref))
    return made


async def put(deps: Deps, by: Caller, ref: str, change: ApplicationChange) -> tuple[Application, bool]:
    """Change the application, or create it if it does not exist. Also return whether it was created.

    A new application gets the uid in `change`, or `ref` if `change` has no uid.
    """
    catalogue.check_application(change)
    found = await deps.store.catalogue.application(by.org_id, ref)
    if found is None:
        if ref.startswith(ids.APP):
            raise NoSuch("application", ref)
        given = {name: value for name, value in asdict(change).items() if value is not UNSET}
        uid = ref if given.get("uid") is None else change.uid
        try:
            return await create(deps, by, NewApplication(**given | {"uid": uid})), True
        except Conflict:  # another caller has just created the application, or the uid in the change is taken
            found = await deps.store.catalogue.application(by.org_id, ref)
            if found is None:
                raise
    return await _change(deps, by, found, change), False


async def change(deps: Deps, by: Caller, ref: str, change: ApplicationChange) -> Application:
    return await _change(deps, by, await lookup.application(deps, by, ref), change)


async def _change(deps: Deps, by: Caller, found: Application, change: ApplicationChange) -> Application:
    def note(app: Application) -> NewAuditEntry:
        return _entry(by, "edit", app, audit.differences(found, app))

    changed = await deps.store.catalogue.change_application(found.no, catalogue.check_application(change), note=note)
    deps.forget_application(changed)
    return changed


async def delete(deps: Deps, by: Caller, ref: str) -> Application:
    """Delete the application with its endpoints."""
    found = await lookup.application(deps, by, ref)
    entry = _entry(by, "delete", found, found.name[:200])
    await deps.store.catalogue.delete_application(found.no, note=lambda _: entry)
    deps.forget_application(found)
    return found


# ── portal ────────────────────────────────────────────────────────────────────────────────────────────────────────


class PortalLink(Struct, frozen=True, kw_only=True):
    app: Application
    url: str  # contains the token in its fragment, which browsers do not send and servers do not log
    token: str

    def __repr__(self) -> str:
        return f"PortalLink(app={self.app.id!r}, …)"


async def portal_link(
    deps: Deps,
    by: Caller,
    ref: str,
    address: str,
    *,
    lifetime: int = int(PORTAL_LIFETIME),
    scope: Scope = Scope.FULL,
    publish: bool = False,
    new: NewApplication | None = None,
) -> PortalLink:
    """Create a sign-in link to the portal. `address` is the URL of this server. If the application does not exist, it
    is created from `new`."""
    found = await lookup.application(deps, by, ref) if new is None else None
    if not SHORTEST_PORTAL <= lifetime <= PORTAL_LIFETIME:
        raise InvalidInput(f"takes {SHORTEST_PORTAL} to {PORTAL_LIFETIME:.0f} seconds", field="expiry")
    app = found or await find_or_create(deps, by, ref, new)
    token = issue(
        deps.token_secret,
        app.org_id,
        app_id=app.id,
        now=deps.wall(),
        lifetime=lifetime,
        scope=scope,
        portal=True,
        publish=publish,
    )
    login = urlsafe_b64encode(msgspec.json.encode({"appId": app.id, "token": token})).rstrip(b"=").decode()
    await deps.store.access.add_audit([_entry(by, "portal_link", app, f"{scope.value}, {lifetime} s")])
    return PortalLink(app=app, url=f"{address}/login#key={login}", token=token)


async def end_portal(deps: Deps, by: Caller, ref: str) -> Application:
    """Revoke all portal links, portal sessions and API tokens of the application. API keys stay valid."""
    found = await lookup.application(deps, by, ref)
    await tokens.revoke_issued(deps, by.org_id, found, _entry(by, "end_portal", found))
    return found


def _entry(by: Caller, verb: str, app: Application, detail: str = "") -> NewAuditEntry:
    return audit.entry(by, f"application.{verb}", app.id, app_id=app.id, detail=detail)
