"""Operators: people who sign in to the dashboard with a password."""

from __future__ import annotations

from hookline.errors import NoSuch
from hookline.model import Scope
from hookline.model.callers import Caller
from hookline.model.operators import Operator, operator_name
from hookline.security import passwords
from hookline.services import audit
from hookline.services.deps import Deps


async def create(deps: Deps, by: Caller, name: str, role: Scope, password: str) -> Operator:
    name = operator_name(name)
    new = Operator(
        name=name, org_id=by.org_id, role=role, password=_hashed(password, name), created_at=await deps.store.now()
    )
    return await audit.noted(
        deps, deps.store.create_operator(new), lambda _: audit.entry(by, "operator.create", name, detail=role.value)
    )


async def find(deps: Deps, by: Caller, name: str) -> Operator:
    """Of the caller's organization, although names are unique in the whole deployment."""
    name = operator_name(name)
    found = await deps.store.operator(name)
    if found is None or found.org_id != by.org_id:
        raise NoSuch("operator", name)
    return found


async def set_role(deps: Deps, by: Caller, name: str, role: Scope) -> Operator:
    """From now on, also in sessions that are open."""
    found = await find(deps, by, name)
    changing = deps.store.change_operator(found.name, role=role)
    return await audit.noted(deps, changing, lambda _: audit.entry(by, "operator.role", found.name, detail=role.value))


async def set_password(deps: Deps, by: Caller, name: str, password: str) -> Operator:
    """It ends the sessions that were begun with the old password."""
    found = await find(deps, by, name)
    changing = deps.store.change_operator(found.name, password=_hashed(password, found.name))
    return await audit.noted(deps, changing, lambda _: audit.entry(by, "operator.password", found.name))


async def sign_out(deps: Deps, by: Caller, name: str) -> int:
    """The number of sessions that this ended."""
    found = await find(deps, by, name)
    ending = deps.store.end_sessions(found.name)
    return await audit.noted(deps, ending, lambda _: audit.entry(by, "operator.sign_out", found.name))


async def delete(deps: Deps, by: Caller, name: str) -> Operator:
    """Their sessions end now."""
    found = await find(deps, by, name)
    deleting = deps.store.delete_operator(found.name)
    await audit.noted(deps, deleting, lambda _: audit.entry(by, "operator.delete", found.name))
    return found


def _hashed(password: str, name: str) -> str:
    return passwords.hashed(passwords.check(password, name))
