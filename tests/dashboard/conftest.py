"""Fixtures: the pages on a real socket, for both database engines, and browsers that have signed in.

`operator` may do everything in the test's organization, and `reader` may only read. `portal` is a customer of the
test's application, and `portal_reader` is a customer who may only read. `chief` is an operator of the whole deployment.
`stranger` has not signed in. `enter` signs in any other user.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from typing import Protocol

import pytest

from hookline import clock, config, ids
from hookline.engine.ingest import GroupCommit
from hookline.model.actors import Scope
from hookline.model.catalogue import Application, Organization
from hookline.observe.tally import Tally
from hookline.security import tokens
from hookline.security.vault import new_key
from hookline.server.web_app import web_context
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
    """More environment variables for the server under test. A test may override this fixture."""
    return {}


@pytest.fixture
async def served(store: Store, database_url: str, settings: dict[str, str]) -> AsyncIterator[WebContext]:
    """The context that the server under test runs with. A test may replace some of its values."""
    read = config.load(
        {
            "HOOKLINE_DATABASE_URL": database_url,
            "HOOKLINE_JWT_SECRET": JWT_SECRET,
            "HOOKLINE_SECRET_KEY": new_key(),
            "HOOKLINE_ALLOW_NETS": "127.0.0.0/8",
            "HOOKLINE_MAX_PAYLOAD": "64KiB",
            "HOOKLINE_RATE_LIMIT_PORTAL": "0",  # some tests read more than a hundred pages per second
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
    """The trusted proxies of the server under test. A test may override this fixture."""
    return ()


@pytest.fixture
async def address(served: WebContext, proxies: tuple[str, ...]) -> AsyncIterator[str]:
    """The address of the server under test, such as `127.0.0.1:12345`."""
    async with serving(served, proxies=proxies) as found:
        yield found


@pytest.fixture
def stranger(address: str) -> Client:
    return Client(address)


@pytest.fixture
def enter(address: str, organization: Organization) -> Enter:
    """Return a function that signs a new browser in to an organization, or to the portal of one application."""

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
    """A browser of an operator of the default organization, who may see the whole deployment."""
    await organizations.open_or_create(store, ids.DEFAULT_ORG, await store.now())
    return await enter(org_id=ids.DEFAULT_ORG)


@pytest.fixture
async def other_app(store: Store, organization: Organization) -> Application:
    """Another application of the same organization. `portal` must not show anything of it."""
    return await store.catalogue.create_application(organization.id, factory.new_application())


# ── one object of each kind, for tests that open every page ───────────────────────────────────────────────────────


@pytest.fixture
async def own(store: Store, organization: Organization, app: Application) -> Holding:
    return await hold(store, organization, app, "own")


@pytest.fixture
async def neighbour(store: Store, organization: Organization, other_app: Application) -> Holding:
    """Objects of another application of the same organization. The portal of `own` must not show them."""
    return await hold(store, organization, other_app, "neighbour")


@pytest.fixture
async def foreign(store: Store) -> Holding:
    """Objects of another organization."""
    other = await store.catalogue.save_organization(factory.organization())
    app = await store.catalogue.create_application(other.id, factory.new_application(name="foreign application"))
    return await hold(store, other, app, "foreign")
