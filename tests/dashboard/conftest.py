"""The pages over a real socket, on both engines, and people who have signed in to them.

`operator` may do everything in the test's organization, `reader` only look; `portal` is a customer of the test's application,
`portal_reader` one who may only look; `chief` runs the deployment; `stranger` has not signed in. `enter` lets in anybody else.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from typing import Protocol

import pytest

from hookline import clock, config, ids
from hookline.engine.ingest import GroupCommit
from hookline.model import Application, Organization, Scope
from hookline.observe.tally import Tally
from hookline.security import tokens
from hookline.security.vault import new_key
from hookline.server.site import web_context
from hookline.services import organizations
from hookline.store import Store
from hookline.web.context import WebContext
from tests.api.conftest import JWT_SECRET, serving
from tests.dashboard.all_pages import Holding, hold
from tests.dashboard.client import Client
from tests.support import factory

__all__ = ["Client", "Enter"]


class Enter(Protocol):
    def __call__(
        self, *, org_id: str | None = None, app: Application | None = None, scope: Scope = Scope.FULL
    ) -> Awaitable[Client]: ...


@pytest.fixture
def settings() -> dict[str, str]:
    """More of the environment that the server under test is started in; a test may override it."""
    return {}


@pytest.fixture
async def served(store: Store, database_url: str, settings: dict[str, str]) -> AsyncIterator[WebContext]:
    """What the pages under test work with; a test may put other values in its place."""
    read = config.load(
        {
            "HOOKLINE_DATABASE_URL": database_url,
            "HOOKLINE_JWT_SECRET": JWT_SECRET,
            "HOOKLINE_SECRET_KEY": new_key(),
            "HOOKLINE_ALLOW_NETS": "127.0.0.0/8",
            "HOOKLINE_MAX_PAYLOAD": "64KiB",
            **settings,
        }
    )
    tally = Tally()
    ingest = GroupCommit(store, tally=tally)
    given = web_context(store, read, ingest, tally)
    yield given
    await ingest.close()
    await given.schemas.close()


@pytest.fixture
def proxies() -> tuple[str, ...]:
    """Those that were named to the server under test; a test may override it."""
    return ()


@pytest.fixture
async def address(served: WebContext, proxies: tuple[str, ...]) -> AsyncIterator[str]:
    """`127.0.0.1:12345`"""
    async with serving(served, proxies=proxies) as found:
        yield found


@pytest.fixture
def stranger(address: str) -> Client:
    return Client(address)


@pytest.fixture
def enter(address: str, organization: Organization) -> Enter:
    """Sign in: to the organization, or to the portal of one application."""

    async def enter(*, org_id: str | None = None, app: Application | None = None, scope: Scope = Scope.FULL) -> Client:
        app_id = None if app is None else app.id
        org = organization.id if org_id is None else org_id
        token = tokens.issue(JWT_SECRET, org, app_id=app_id, scope=scope, now=clock.wall())
        client = Client(address, portal=app is not None)
        answer = await (client.sign_in(token=token) if app is None else client.sign_in("/portal/login", key=token))
        assert answer.status == 303, answer
        return client

    return enter


@pytest.fixture
async def operator(enter: Enter) -> Client:
    return await enter()


@pytest.fixture
async def reader(enter: Enter) -> Client:
    return await enter(scope=Scope.READ)


@pytest.fixture
async def portal(enter: Enter, app: Application) -> Client:
    return await enter(app=app)


@pytest.fixture
async def portal_reader(enter: Enter, app: Application) -> Client:
    return await enter(app=app, scope=Scope.READ)


@pytest.fixture
async def chief(enter: Enter, store: Store) -> Client:
    """Of the default organization: sees what tells of every other."""
    await organizations.open_or_create(store, ids.DEFAULT_ORG, await store.now())
    return await enter(org_id=ids.DEFAULT_ORG)


@pytest.fixture
async def other_app(store: Store, organization: Organization) -> Application:
    """Another application of the same organization: nothing of it may be seen in `portal`."""
    return await store.create_application(organization.id, factory.new_application())


# ── something of each kind, for those who walk every page ─────────────────────────────────────────────────────────


@pytest.fixture
async def own(store: Store, organization: Organization, app: Application) -> Holding:
    return await hold(store, organization, app, "own")


@pytest.fixture
async def neighbour(store: Store, organization: Organization, other_app: Application) -> Holding:
    """Of the same organization: nothing of it is in the portal of `own`."""
    return await hold(store, organization, other_app, "neighbour")


@pytest.fixture
async def foreign(store: Store) -> Holding:
    """Of another organization."""
    other = await store.save_organization(factory.organization())
    app = await store.create_application(other.id, factory.new_application(name="foreign application"))
    return await hold(store, other, app, "foreign")
