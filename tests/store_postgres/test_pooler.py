"""Connection poolers: Hookline refuses a pooler that moves connections between sessions, and says what to change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from asyncpg import exceptions as pg

from hookline.errors import ConfigError, HooklineError, StoreUnavailable
from hookline.security.vault import Vault, new_key
from hookline.store import StoreOptions, open_store
from hookline.store.postgres import database, pooler
from tests.support.pgbouncer import IGNORED, PgBouncer
from tests.support.postgres import PostgresServer


@contextmanager
def pgbouncer(server: PostgresServer, mode: str, ignored: str = IGNORED) -> Iterator[str]:
    found = PgBouncer.find(server, mode, ignored=ignored)
    if found is None:
        pytest.skip("this machine has no pgbouncer")
    try:
        found.start()
        yield found.url
    finally:
        found.stop()


async def refusal(url: str) -> HooklineError | None:
    try:
        store = await open_store(url, vault=Vault([new_key()]), options=StoreOptions(pool_size=8))
    except HooklineError as error:
        return error
    await store.close()
    return None


async def test_a_store_opens_behind_a_pooler_in_session_mode(postgres: PostgresServer) -> None:
    with pgbouncer(postgres, "session") as url:
        assert await refusal(url) is None


@pytest.mark.parametrize("mode", ["transaction", "statement"])
async def test_a_store_refuses_a_pooler_without_sessions(mode: str, postgres: PostgresServer) -> None:
    with pgbouncer(postgres, mode) as url:
        error = await refusal(url)
    assert isinstance(error, ConfigError | StoreUnavailable)
    assert str(error) == pooler.NEEDS_SESSIONS


async def test_a_pooler_that_refuses_settings_gets_the_line_for_its_configuration(
    postgres: PostgresServer,
) -> None:
    with pgbouncer(postgres, "session", ignored="extra_float_digits") as url:
        error = await refusal(url)
    assert isinstance(error, StoreUnavailable)
    assert f"ignore_startup_parameters = {', '.join(sorted(IGNORED.split(',')))}" in str(error)


def test_the_advice_for_errors_of_a_pooler() -> None:
    moved = pg.InvalidSQLStatementNameError('prepared statement "__asyncpg_stmt_1__" does not exist')
    assert pooler.advice(moved, database.INDEXED) == pooler.NEEDS_SESSIONS
    refused = pg.ProtocolViolationError("unsupported startup parameter: jit")
    assert "plan_cache_mode" in str(pooler.advice(refused, database.INDEXED))
    assert "application_name" not in str(pooler.advice(refused, database.INDEXED))
    assert pooler.advice(pg.ProtocolViolationError("invalid message"), database.INDEXED) is None
