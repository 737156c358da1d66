"""Stores for every test, on both engines. `-k sqlite` and `-k postgres` select one."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import shutil
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import structlog
from _pytest.faulthandler import fault_handler_stderr_fd_key
from hypothesis import settings

from hookline.model.catalogue import Application, Organization
from hookline.security.vault import Vault, new_key
from hookline.store import Store, StoreOptions, open_store
from tests.support import factory
from tests.support.postgres import Databases, PostgresServer, clear_stale
from tests.support.raw import Raw, open_raw
from tests.support.scene import Scene

ENGINES = ("sqlite", "postgres")
LAST_WORDS = 60.0  # maximum seconds for the teardown of a failed test

OpenStoreWith = Callable[[StoreOptions], Awaitable[Store]]


# Property tests check results, not speed: a busy machine must not fail them.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

# By default structlog prints the local variables of every frame of a traceback, which takes a second for each
# traceback.
structlog.configure(
    processors=[
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ]
)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "store_options(**fields): the StoreOptions that `store` and `second` are opened with"
    )
    # A command that a shell runs in the background ignores SIGINT, and one under `nohup` ignores SIGHUP. The processes
    # that the tests start would inherit this.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    # The test servers have no TLS. A driver that asks for TLS would create a context for each connection.
    os.environ.setdefault("PGSSLMODE", "disable")


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """End a failed test that hangs in its teardown. pytest stops its own timeout after a failure, in case somebody
    debugs the test."""
    shown = node.config.stash.get(fault_handler_stderr_fd_key, None)
    if shown is not None:
        faulthandler.dump_traceback_later(LAST_WORDS, file=shown, exit=True)


# ── databases ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """The PostgreSQL server that all tests share. A test that stops or crashes a server uses
    `support.postgres.private_server`."""
    clear_stale()
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture(scope="session")
def postgres_databases(postgres: PostgresServer) -> Iterator[Databases]:
    databases = Databases(postgres)
    yield databases
    databases.close()


@pytest.fixture(scope="session")
def postgres_template(postgres: PostgresServer, postgres_databases: Databases) -> str:
    """A migrated database without rows. Copying it is faster than a migration for each test."""
    name = postgres_databases.create()
    postgres_databases.run(lambda: migrate(postgres.url(name)))
    return name


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file without rows."""
    made = tmp_path_factory.mktemp("template") / "hookline.db"
    asyncio.run(migrate(f"sqlite:///{made}"))
    return made


async def migrate(url: str) -> None:
    store = await open_store(url, vault=Vault([new_key()]), options=StoreOptions(pool_size=2))
    await store.migrate()
    await store.close()


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def empty_url(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database that was never migrated."""
    yield from _urls(engine, request, tmp_path, migrated=False)


@pytest.fixture
def database_url(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A migrated database for this test alone."""
    yield from _urls(engine, request, tmp_path, migrated=True)


def _urls(engine: str, request: pytest.FixtureRequest, directory: Path, *, migrated: bool) -> Iterator[str]:
    if engine == "postgres":
        yield from _postgres_url(request, migrated=migrated)
        return
    file = directory / "hookline.db"
    if migrated:
        shutil.copy(request.getfixturevalue("sqlite_template"), file)
    yield f"sqlite:///{file}"


def _postgres_url(request: pytest.FixtureRequest, *, migrated: bool) -> Iterator[str]:
    databases: Databases = request.getfixturevalue("postgres_databases")
    if not migrated:
        name = databases.create()
        yield databases.server.url(name)
        databases.drop(name)
        return
    template: str = request.getfixturevalue("postgres_template")
    name = databases.create(template)
    yield databases.server.url(name)
    databases.give_back(name, template)


# ── stores ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def vault() -> Vault:
    return Vault([new_key()])


@pytest.fixture
def options(request: pytest.FixtureRequest) -> StoreOptions:
    """The options of the store. A test sets them with `@pytest.mark.store_options(lease=5.0)`."""
    marker = request.node.get_closest_marker("store_options")
    return StoreOptions(**({"pool_size": 3} | (marker.kwargs if marker else {})))


@pytest.fixture
async def open_store_with(database_url: str, vault: Vault) -> AsyncIterator[OpenStoreWith]:
    """Open further handles on the test's database, as other workers would. They are closed at the end."""
    opened: list[Store] = []

    async def open_with(options: StoreOptions) -> Store:
        handle = await open_store(database_url, vault=vault, options=options)
        opened.append(handle)
        return handle

    yield open_with
    for handle in reversed(opened):
        await handle.close()


@pytest.fixture
async def store(open_store_with: OpenStoreWith, options: StoreOptions) -> Store:
    return await open_store_with(options)


@pytest.fixture
async def second(store: Store, open_store_with: OpenStoreWith, options: StoreOptions) -> Store:
    """A second handle on the same database, as another worker has."""
    return await open_store_with(options)


@pytest.fixture
async def raw(store: Store, database_url: str) -> AsyncIterator[Raw]:
    """Direct access to the database of the store, once it is migrated."""
    connection = await open_raw(database_url)
    yield connection
    await connection.close()


@pytest.fixture
async def organization(store: Store) -> Organization:
    return await store.catalogue.save_organization(factory.organization())


@pytest.fixture
async def app(store: Store, organization: Organization) -> Application:
    return await store.catalogue.create_application(organization.id, factory.new_application())


@pytest.fixture
async def scene(
    store: Store, database_url: str, raw: Raw, organization: Organization, app: Application
) -> AsyncIterator[Scene]:
    """The store with one application. At the end, every lane with work must have a wake token."""
    stage = Scene(store, database_url, raw, organization, app)
    yield stage
    if not stage.broken_on_purpose:
        assert await store.upkeep.find_stuck_lanes(repair=False) == []
