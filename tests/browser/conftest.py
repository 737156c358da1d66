"""Pages in a real Chromium, of a real server on both engines. Whatever a page complains of fails the test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.browser.visitor import Visitor
from tests.browser.world import World, opened
from tests.conftest import ENGINES
from tests.support.chromium import Chromium
from tests.support.postgres import Databases

# What a page looks like does not depend on the engine: such tests ask for one.
one_engine = pytest.mark.parametrize("world", ["sqlite"], indirect=True)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Tests run where their browser does; see `Chromium`."""
    visitor: Visitor | None = pyfuncitem.funcargs.get("visitor")
    if visitor is None:
        return None
    names = pyfuncitem._fixtureinfo.argnames
    visitor.chromium.run(lambda: pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    found = Chromium()
    try:
        found.open()
        yield found
    finally:
        found.close()


@pytest.fixture(scope="session", params=ENGINES)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One server for all tests of an engine."""
    engine: str = request.param
    directory = tmp_path_factory.mktemp(f"browser-{engine}")
    with database(engine, request, directory) as url, opened(engine, url, directory) as found:
        yield found


@contextmanager
def database(engine: str, request: pytest.FixtureRequest, directory: Path) -> Iterator[str]:
    if engine == "sqlite":
        yield f"sqlite:///{directory}/hookline.db"
        return
    databases: Databases = request.getfixturevalue("postgres_databases")
    name = databases.create(request.getfixturevalue("postgres_template"))
    yield databases.server.url(name)
    databases.drop(name)


@pytest.fixture
def visitor(chromium: Chromium, world: World) -> Iterator[Visitor]:
    """Opens pages; at the end none of them may have complained."""
    found = Visitor(chromium, world)
    yield found
    chromium.run(found.leave)
    found.check()
