"""Tests of the PostgreSQL engine alone: hazards that SQLite does not have."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.raw import RawPostgres


@pytest.fixture
def engine() -> str:
    return "postgres"


@pytest.fixture
async def other(store: object, database_url: str) -> AsyncIterator[RawPostgres]:
    """A second session in the same database."""
    session = await RawPostgres.connect(database_url)
    yield session
    await session.close()
