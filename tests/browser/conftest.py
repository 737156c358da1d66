"""Pages in a real Chromium, from a real server on both engines. An error in the browser's console fails the test."""

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

# The layout of a page does not depend on the engine, so such tests use one engine.
one_engine = pytest.mark.parametrize("world", ["sqlite"], indirect=True)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run each test in the thread of its browser; see `Chromium`."""
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
    """Open pages for a test. At the end, no page may have logged an error."""
    found = Visitor(chromium, world)
    yield found
    chromium.run(found.leave)
    found.check()
