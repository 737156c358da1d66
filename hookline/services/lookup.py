"""Look up the object that a caller names. An object that the caller may not see gives the same error as a missing
one."""

from __future__ import annotations

from msgspec import Struct

from hookline import ids
from hookline.errors import NoSuch
from hookline.model.callers import Caller
from hookline.model.catalogue import Application
from hookline.model.endpoints import Endpoint
from hookline.model.messages import Message
from hookline.services.deps import Deps


class EndpointRef(Struct, frozen=True):
    """An endpoint as a caller names it: by its id, or by id or uid within an application."""

    endpoint: str
    app: str | None = None  # id or uid of the application


class MessageRef(Struct, frozen=True):
    """A message as a caller names it: by its id, or by id or event id within an application."""

    message: str
    app: str | None = None  # id or uid of the application


async def application(deps: Deps, by: Caller, ref: str) -> Application:
    """Return the application with this id or uid."""
    if by.app is not None:
        found = by.app if ref in (by.app.id, by.app.uid) else None
    else:
        found = await deps.store.catalogue.application(by.org_id, ref) if storable(ref) else None
    if found is None:
        raise NoSuch("application", ref)
    return found


async def endpoint(deps: Deps, by: Caller, ref: EndpointRef) -> Endpoint:
    found = await _endpoint(deps, by, ref) if storable(ref.endpoint) else None
    if found is None or (by.app is not None and found.app_no != by.app.no):
        raise NoSuch("endpoint", ref.endpoint)
    return found


async def _endpoint(deps: Deps, by: Caller, ref: EndpointRef) -> Endpoint | None:
    if ref.app is None:
        return await deps.store.catalogue.endpoint_by_id(by.org_id, ref.endpoint)
    return await deps.store.catalogue.endpoint((await application(deps, by, ref.app)).no, ref.endpoint)


async def message(deps: Deps, by: Caller, ref: MessageRef) -> Message:
    found = await _message(deps, by, ref) if storable(ref.message) else None
    if found is None:
        raise NoSuch("message", ref.message)
    return found


async def _message(deps: Deps, by: Caller, ref: MessageRef) -> Message | None:
    if ref.app is not None:
        return await deps.store.history.message((await application(deps, by, ref.app)).no, ref.message)
    found = await deps.store.history.message_by_id(ref.message) if ids.minted_at(ref.message) is not None else None
    return found if found is not None and await _reaches(deps, by, found) else None


async def _reaches(deps: Deps, by: Caller, message: Message) -> bool:
    if by.app is not None:
        return message.app_no == by.app.no
    return await deps.store.catalogue.application(by.org_id, message.app_id) is not None


def storable(ref: str) -> bool:
    """Return whether the database can contain this text. PostgreSQL refuses a NUL character."""
    return "\x00" not in ref
