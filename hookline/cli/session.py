"""The database behind one command: configuration from the environment, the store, the organization."""

from __future__ import annotations

import asyncio
import getpass
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TypeVar

from hookline import clock, config, ids
from hookline.config import Config
from hookline.errors import StoreUnavailable
from hookline.model import Accepted, Actor, ActorKind, Application, Endpoint, NewMessage
from hookline.model.callers import Caller
from hookline.rules.guard import Guard
from hookline.server import logs, process
from hookline.services import lookup, organizations
from hookline.services.deps import Deps
from hookline.services.lookup import EndpointRef
from hookline.services.schemas.payloads import Schemas
from hookline.store.protocols import Store

T = TypeVar("T")


class Session:
    """What a command works with. Everything it finds belongs to `org_id`."""

    def __init__(self, settings: Config, store: Store, org_id: str, now: datetime) -> None:
        self.config = settings
        self.store = store
        self.org_id = org_id
        self.now = now  # the database's clock, when the command began
        self.guard = settings.guard()
        self.by = Caller(org_id=org_id, actor=Actor(kind=ActorKind.COMMAND_LINE, name=_user()))
        self.deps = _deps(settings, store, self.guard)

    async def application(self, ref: str) -> Application:
        return await lookup.application(self.deps, self.by, ref)

    async def endpoint(self, ref: str, app: str | None) -> Endpoint:
        """By id; by uid where the application is given."""
        return await lookup.endpoint(self.deps, self.by, EndpointRef(ref, app))


def _deps(settings: Config, store: Store, guard: Guard) -> Deps:
    async def ingest(new: NewMessage) -> Accepted:
        """A command sends one message: there is nothing to share a commit with."""
        (accepted,) = await store.ingest([new])
        return accepted

    return Deps(
        store=store,
        guard=guard,
        schemas=Schemas(store, clock.monotonic),
        submit=ingest,
        submit_batch=store.ingest_batch,
        wall=clock.wall,
        max_payload=settings.max_payload,
        retention_days=settings.retention_days,
        customer_endpoints=settings.customer_endpoints,
        circuit=settings.circuit,
        retry=settings.retry,
        token_secret=settings.jwt_secret,
    )


def _user() -> str | None:
    """Who runs the command, as this machine knows them."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return None


def load_config() -> Config:
    return config.load(os.environ)


def existing_config() -> Config:
    """For commands that do not make a database. Looked at before `load`, which makes the keys beside it."""
    file = config.parse(os.environ).database_file
    if file is not None and not file.exists():
        raise StoreUnavailable(f"no database at {file.absolute()}; `hookline migrate` or `hookline serve` makes it")
    return load_config()


@asynccontextmanager
async def session(org_id: str = ids.DEFAULT_ORG, *, creates: bool = False) -> AsyncIterator[Session]:
    """`creates`: the command may be the first one ever, so the database and the default organization are made."""
    settings = load_config() if creates else existing_config()
    logs.configure(settings)  # a migration may have to wait, and says so
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


def run(work: Coroutine[None, None, T]) -> T:
    """One command's work, to its end or to Ctrl-C."""
    return asyncio.run(work)


def in_session(org: str, work: Callable[[Session], Awaitable[T]], *, creates: bool = False) -> T:
    """Do one thing, and close the database. `creates`: see `session`."""

    async def inside() -> T:
        async with session(org, creates=creates) as opened:
            return await work(opened)

    return run(inside())
