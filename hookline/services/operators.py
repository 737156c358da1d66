"""Operators: people who sign in to the dashboard with a password."""

from __future__ import annotations

from hookline.errors import NoSuch
from hookline.model.actors import Scope
from hookline.model.audit import Note
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
    return await deps.store.access.create_operator(new, note=_note(by, "create", name, role.value))


async def find(deps: Deps, by: Caller, name: str) -> Operator:
    """Return the operator with this name. Raise `NoSuch` if the caller's organization has no such operator.

    Names are unique in the whole deployment.
    """
    name = operator_name(name)
    found = await deps.store.access.operator(name)
    if found is None or found.org_id != by.org_id:
        raise NoSuch("operator", name)
    return found


async def set_role(deps: Deps, by: Caller, name: str, role: Scope) -> Operator:
    """Change the role. It applies at once, also to open sessions."""
    found = await find(deps, by, name)
    note = _note(by, "role", found.name, role.value)
    return await deps.store.access.change_operator(found.name, role=role, note=note)


async def set_password(deps: Deps, by: Caller, name: str, password: str) -> Operator:
    """Change the password. This ends the sessions that began with the old password."""
    found = await find(deps, by, name)
    hashed = _hashed(password, found.name)
    return await deps.store.access.change_operator(found.name, password=hashed, note=_note(by, "password", found.name))


async def sign_out(deps: Deps, by: Caller, name: str) -> int:
    """End all sessions of the operator. Return their number."""
    found = await find(deps, by, name)
    return await deps.store.access.end_sessions(found.name, note=_note(by, "sign_out", found.name))


async def delete(deps: Deps, by: Caller, name: str) -> Operator:
    """Delete the operator and end all their sessions."""
    found = await find(deps, by, name)
    await deps.store.access.delete_operator(found.name, note=_note(by, "delete", found.name))
    return found


def _note(by: Caller, verb: str, name: str, detail: str = "") -> Note[object]:
    entry = audit.entry(by, f"operator.{verb}", name, detail=detail)
    return lambda _: entry


def _hashed(password: str, name: str) -> str:
    return passwords.hashed(passwords.check(password, name))
