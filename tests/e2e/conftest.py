"""Fixtures of the end-to-end tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.postgres import Databases
from tests.support.redis import RedisServer


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def keys(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The store in which the receiver keeps its idempotency keys."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/keys.db"
    elif request.param == "redis":
        server = RedisServer()
        server.start()
        yield server.url
        server.close()
    else:
        databases: Databases = request.getfixturevalue("postgres_databases")
        name = databases.create()
        yield databases.server.url(name)
        databases.drop(name)


@pytest.fixture(params=["the same PostgreSQL", "another PostgreSQL", "a SQLite file"])
def urls(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Database URLs of Hookline and of the application that publishes."""
    if request.param == "a SQLite file":
        yield f"sqlite:///{tmp_path}/hookline.db", f"sqlite:///{tmp_path}/shop.db"
        return
    databases: Databases = request.getfixturevalue("postgres_databases")
    names = [databases.create(request.getfixturevalue("postgres_template")), databases.create()]
    ours, others = map(databases.server.url, names)
    yield ours, ours if request.param == "the same PostgreSQL" else others
    for name in names:
        databases.drop(name)
