"""The SQL and Python examples in the guides about publishing run as printed. For other languages the test runs their
SQL statements."""

from __future__ import annotations

import asyncio
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest

from hookline.store import Store
from tests.support.pages import ROOT, blocks, page, section
from tests.support.scene import Scene

PUBLISH = "docs/guides/publish-in-a-transaction.md"
LANGUAGES_PAGE = "docs/guides/publish-from-other-languages.md"
LANGUAGES = ("ruby", "go", "java", "php", "js")
PAYLOAD = '{"order": 7, "total": "19.90"}'

TABLES = """
CREATE TABLE orders (id integer PRIMARY KEY, paid_at timestamptz);
INSERT INTO orders (id) VALUES (7), (8);
CREATE TABLE users (
    id integer PRIMARY KEY, tenant text, email text, nick text, password_hash text, last_seen_at timestamptz, extra json);
INSERT INTO users VALUES
    (5, 'acme', 'ada@old.example', NULL, 'x', now(), '{"a": 1}'),
    (6, 'acme', 'bob@old.example', 'bob', 'y', now(), NULL);
"""


def statements(language: str) -> Iterator[str]:
    """Return the SQL statements of the example, with PostgreSQL's own placeholders."""
    (example,) = blocks(language, page(LANGUAGES_PAGE))
    for statement in re.findall(r'"((?:BEGIN|UPDATE|SELECT|COMMIT|ROLLBACK)\b[^"]*)"', example):
        first, *others = statement.split("?")
        yield first + "".join(f"${number}{text}" for number, text in enumerate(others, 1))


@pytest.fixture
def engine() -> str:
    return "postgres"


@pytest.fixture
async def shop(scene: Scene, database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """Return the application's connection. Hookline has an application "acme" with one endpoint."""
    await scene.raw.execute("UPDATE application SET uid = 'acme'")
    await scene.endpoint()
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute(TABLES)
        yield connection
    finally:
        await connection.close()


async def paid(shop: asyncpg.Connection) -> list[int]:
    return [row["id"] for row in await shop.fetch("SELECT id FROM orders WHERE paid_at IS NOT NULL ORDER BY id")]


async def relayed(scene: Scene, store: Store) -> list[Any]:
    """Relay the outbox. Return the payloads of the resulting messages."""
    await store.pipeline.relay(100)
    return [msgspec.json.decode(job.payload) for job in await scene.claim()]


@pytest.mark.parametrize("language", LANGUAGES)
async def test_the_sql_statements_of_other_languages(
    shop: asyncpg.Connection, scene: Scene, store: Store, language: str
) -> None:
    update, publish = [each for each in statements(language) if each.startswith(("UPDATE", "SELECT"))]
    for order, commits in ((7, True), (8, False)):
        transaction = shop.transaction()
        await transaction.start()
        await shop.execute(update, order)
        event_id = await shop.fetchval(publish, "acme", "order.paid", PAYLOAD)
        assert event_id.startswith("evt_")
        await (transaction.commit() if commits else transaction.rollback())
    assert await paid(shop) == [7]
    assert await relayed(scene, store) == [{"order": 7, "total": "19.90"}]


async def test_jdbc_binds_strings_as_varchar(shop: asyncpg.Connection) -> None:
    _, publish = statements("java")
    await shop.execute(f"PREPARE publish (varchar, varchar, varchar) AS {publish}")
    assert await shop.fetchval(f"EXECUTE publish('acme', 'order.paid', '{PAYLOAD}')")


async def test_the_psql_example(shop: asyncpg.Connection, scene: Scene, store: Store) -> None:
    transaction = blocks("sql", page(LANGUAGES_PAGE))[0]
    await shop.execute(transaction)
    assert await paid(shop) == [7]
    assert await relayed(scene, store) == [{"order": 7, "total": "19.90"}]

    await shop.execute(transaction.replace("COMMIT", "ROLLBACK"))
    await shop.execute(transaction)  # The event id is the same, so no second message is created.
    assert await relayed(scene, store) == []


# ── the trigger ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def watched(shop: asyncpg.Connection) -> asyncpg.Connection:
    await shop.execute(blocks("sql", page(LANGUAGES_PAGE))[1])
    return shop


async def test_a_changed_row_sends_the_columns_that_changed(
    watched: asyncpg.Connection, scene: Scene, store: Store
) -> None:
    await watched.execute("UPDATE users SET email = 'ada@new.example', nick = 'ada', password_hash = 'z' WHERE id = 5")
    assert await relayed(scene, store) == [{"id": 5, "changed": {"email": "ada@new.example", "nick": "ada"}}]


async def test_a_column_that_becomes_null_has_changed(watched: asyncpg.Connection, scene: Scene, store: Store) -> None:
    await watched.execute("UPDATE users SET nick = NULL WHERE id = 6")
    assert await relayed(scene, store) == [{"id": 6, "changed": {"nick": None}}]


async def test_each_changed_row_of_a_statement_sends_an_event(
    watched: asyncpg.Connection, scene: Scene, store: Store
) -> None:
    await watched.execute("UPDATE users SET email = 'all@new.example'")
    sent = await relayed(scene, store)
    assert sorted(each["id"] for each in sent) == [5, 6]


@pytest.mark.parametrize("change", ["email = email, extra = extra", "password_hash = 'z', last_seen_at = now()"])
async def test_an_update_without_changes_sends_nothing(
    watched: asyncpg.Connection, scene: Scene, store: Store, change: str
) -> None:
    await watched.execute(f"UPDATE users SET {change}")
    assert await relayed(scene, store) == []


async def test_a_rolled_back_change_sends_nothing(watched: asyncpg.Connection, scene: Scene, store: Store) -> None:
    with pytest.raises(asyncpg.DivisionByZeroError):
        await watched.execute("UPDATE users SET email = 'x@new.example'; SELECT 1 / 0")
    assert await relayed(scene, store) == []


# ── Python ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", ["README.md", PUBLISH])
def test_the_complete_example(path: str, tmp_path: Path) -> None:
    shown = blocks("python", page(path))[0]
    done = subprocess.run([sys.executable, "-c", shown], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stderr.endswith("RuntimeError: the bank says no\n")
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop:
        assert shop.execute("SELECT id, total FROM orders").fetchall() == [(1, "19.90")]
        (payload,) = shop.execute("SELECT payload FROM hookline_outbox").fetchall()
    assert payload == ('{"order":1,"total":"19.90"}',)


LIBRARIES = [
    block for block in blocks("python", section(PUBLISH, "With your database library")) if "postgresql" in block
]


@pytest.mark.parametrize("shown", LIBRARIES, ids=lambda shown: re.findall(r"^(?:import|from) (\w+)", shown, re.M)[-2])
async def test_the_example_of_each_library(
    shop: asyncpg.Connection, scene: Scene, store: Store, database_url: str, shown: str
) -> None:
    address = database_url.removeprefix("postgresql:")
    script = shown.replace("//localhost/shop", address)
    assert address in script
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert await paid(shop) == [7]
    assert await relayed(scene, store) == [{"order": 7, "total": "19.90"}]


def test_the_django_example(tmp_path: Path) -> None:
    apps, publish = blocks("python", section("docs/guides/set-up-the-outbox.md", "Django"))
    shop = tmp_path / "shop"
    shutil.copytree(ROOT / "examples/django_shop", shop, ignore=shutil.ignore_patterns("__pycache__", "shop.db*"))
    settings = (shop / "settings.py").read_text()
    without = settings.replace(', "hookline.outbox.django"', "")
    assert without != settings
    (shop / "settings.py").write_text(without + apps)
    order = "from shop.models import Order; order = Order(item='tea', cents=450)\n"
    for command in (["migrate"], ["shell", "-c", order + publish]):
        done = subprocess.run(
            [sys.executable, "manage.py", *command], cwd=shop, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    with closing(sqlite3.connect(shop / "shop.db")) as file:
        assert file.execute("SELECT app, payload FROM hookline_outbox").fetchall() == [("acme", '{"order":1}')]
