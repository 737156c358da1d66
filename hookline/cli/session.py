"""Open what one command needs: the configuration from the environment, the store and the organization."""

from __future__ import annotations

import getpass
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime

from hookline import clock, config, ids
from hookline.config import Config
from hookline.errors import StoreUnavailable
from hookline.model.actors import Actor, ActorKind
from hookline.model.callers import Caller
from hookline.model.catalogue import Application
from hookline.model.endpoints import Endpoint
from hookline.model.messages import Accepted, NewMessage
from hookline.server import logs, process
from hookline.services import lookup, organizations
from hookline.services.deps import Deps
from hookline.services.lookup import EndpointRef
from hookline.services.schemas.payloads import Schemas
from hookline.store import Store


class Session:
    """The store, the services and the caller of one command. Lookups return only objects of the organization `org_id`."""

    def __init__(self, settings: Config, store: Store, org_id: str, now: datetime) -> None:
        self.config = settings
        self.store = store
        self.org_id = org_id
        self.now = now  # the time by the database's clock when the command started
        self.by = Caller(org_id=org_id, actor=Actor(kind=ActorKind.COMMAND_LINE, name=_user()))
        self.deps = _deps(settings, store)

    async def application(self, ref: str) -> Application:
        return await lookup.application(self.deps, self.by, ref)

    async def endpoint(self, ref: EndpointRef) -> Endpoint:
        return await lookup.endpoint(self.deps, self.by, ref)


def _deps(settings: Config, store: Store) -> Deps:
    async def ingest(new: NewMessage) -> Accepted:
        """Commit one message alone. A command sends a single message, so group commit has no use."""
        (accepted,) = await store.pipeline.ingest([new])
        return accepted

    return settings.fill(
        Deps,
        defaults=["forget_application", "forget_callers"],
        store=store,
        schemas=Schemas(store, clock.monotonic),
        submit=ingest,
        submit_batch=store.pipeline.ingest_batch,
        wall=clock.wall,
        token_secret=settings.jwt_secret,
    )


def _user() -> str | None:
    """Return the operating system's name of the user who runs the command."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # in a container, the user may have no name
        return None


def load_config() -> Config:
    return config.load(os.environ)


def existing_config() -> Config:
    """Load the configuration. Raise `StoreUnavailable` if the SQLite file does not exist.

    The file is checked first, because `load` would create a key file beside the missing database.
    """
    file = config.parse(os.environ).database_file
    if file is not None and not file.exists():
        raise StoreUnavailable(f"no database at {file.absolute()}; `hookline migrate` or `hookline serve` creates it")
    return load_config()


@asynccontextmanager
async def session(org_id: str = ids.DEFAULT_ORG, *, creates: bool = False) -> AsyncIterator[Session]:
    """Open the database. With `creates`, also create it and the default organization if they do not exist yet."""
    settings = load_config() if creates else existing_config()
    logs.configure(settings)  # a migration that waits for a lock writes a log line
    async with process.opened(settings, migrate=None if creates else False) as store:
        now = await store.now()
        if creates:
            await organizations.open_or_create(store, org_id, now)
        else:
            await organizations.check(store, org_id)
        opened = Session(settings, store, org_id, now)
        try:
            yield opened
        finally:
            await opened.deps.schemas.close()
