"""The Alembic operations for the outbox, run in a real Alembic environment."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import psycopg
import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, create_engine, text

from hookline.errors import Conflict
from hookline.outbox import publish
from hookline.testing import clear, published
from tests.outbox.page import python_under
from tests.support.postgres import Databases

ENV = """
import asyncio
from alembic import context
from sqlalchemy import Column, Integer, MetaData, Table, create_engine, pool
from sqlalchemy.ext.asyncio import create_async_engine
{imported}

url = context.config.get_main_option("sqlalchemy.url")
metadata = MetaData()
Table("orders", metadata, Column("id", Integer, primary_key=True))
shared = dict(target_metadata=metadata, include_schemas={schemas})


def run(connection):
    context.configure(connection=connection, **shared)
    with context.begin_transaction():
        context.run_migrations()


async def run_async():
    engine = create_async_engine(url, poolclass=pool.NullPool)
    async with engine.connect() as connection:
        await connection.run_sync(run)
    await engine.dispose()


if context.is_offline_mode():
    context.configure(url=url, literal_binds=True, **shared)
    with context.begin_transaction():
        context.run_migrations()
elif "asyncpg" in url or "aiosqlite" in url:
    asyncio.run(run_async())
else:
    engine = create_engine(url, poolclass=pool.NullPool)
    with engine.connect() as connection:
        run(connection)
    engine.dispose()
"""
TEMPLATE = '''"""${message}"""
from alembic import op
import sqlalchemy as sa
${imports if imports else ""}

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade():
    ${upgrades if upgrades else "pass"}


def downgrade():
    ${downgrades if downgrades else "pass"}
'''
REVISION = f"""
from alembic import op
{python_under("Alembic")[0]}

revision, down_revision = "1", None
"""


class Scripts:
    """An Alembic environment with one revision, written by hand or generated."""

    def __init__(self, folder: Path, url: str, *, by_hand: bool = True, schemas: bool = False) -> None:
        self.url = url
        self.folder = folder
        (folder / "versions").mkdir(parents=True)
        imported = "" if by_hand else "import hookline.outbox.alembic"
        (folder / "env.py").write_text(ENV.format(imported=imported, schemas=schemas))
        (folder / "script.py.mako").write_text(TEMPLATE)
        if by_hand:
            (folder / "versions" / "1_outbox.py").write_text(REVISION)
        self.output = StringIO()
        self.config = Config(output_buffer=self.output)
        self.config.set_main_option("script_location", str(folder))
        self.config.set_main_option("sqlalchemy.url", url.replace("%", "%%"))
        self.config.set_main_option("path_separator", "os")

    def generate(self, name: str) -> str:
        command.revision(self.config, name, autogenerate=True, rev_id=name)
        [made] = (self.folder / "versions").glob(f"{name}_*.py")
        return made.read_text()


@pytest.fixture(scope="module")
def one_database(postgres_databases: Databases) -> Iterator[str]:
    name = postgres_databases.create()
    yield postgres_databases.server.url(name)
    postgres_databases.drop(name)


@pytest.fixture
def postgres_url(one_database: str) -> Iterator[str]:
    yield one_database
    with psycopg.connect(one_database) as conn:
        conn.execute("SET client_min_messages = error")
        conn.execute("DROP SCHEMA IF EXISTS hookline CASCADE; DROP SCHEMA public CASCADE; CREATE SCHEMA public")


@pytest.fixture
def engine_url(driver: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    if driver in ("pysqlite", "aiosqlite"):
        return f"sqlite+{driver}:///{tmp_path}/shop.db"
    url: str = request.getfixturevalue("postgres_url")
    return _with_driver(url, driver)


def _with_driver(url: str, driver: str) -> str:
    """Add the driver to the URL, and set the search path to `public` where the driver allows it. The role of the tests
    has the same name as Hookline's schema, so PostgreSQL would otherwise create all tables in that schema."""
    path = "" if driver == "asyncpg" else "?options=-csearch_path%3Dpublic"
    return url.replace("postgresql:", f"postgresql+{driver}:") + path


def _sync(url: str) -> str:
    return url.replace("asyncpg", "psycopg").replace("aiosqlite", "pysqlite")


@pytest.fixture
def conn(engine_url: str) -> Iterator[Connection]:
    engine = create_engine(_sync(engine_url))
    with engine.connect() as made:
        yield made
    engine.dispose()


DRIVERS = ["pysqlite", "aiosqlite", "psycopg", "psycopg2", "asyncpg"]


@pytest.mark.parametrize("driver", DRIVERS)
def test_upgrade_and_downgrade_keep_waiting_events(engine_url: str, conn: Connection, tmp_path: Path) -> None:
    scripts = Scripts(tmp_path / "alembic", engine_url)
    command.upgrade(scripts.config, "head")
    publish(conn, "acme", "order.paid", {"order": 7})
    conn.commit()
    with pytest.raises(Exception, match=r"still has 1 event") as refused:
        command.downgrade(scripts.config, "base")
    assert isinstance(refused.value, Conflict) == ("sqlite" in engine_url)
    assert len(published(conn)) == 1
    clear(conn)
    conn.commit()
    command.downgrade(scripts.config, "base")
    command.upgrade(scripts.config, "head")
    assert published(conn) == []


@pytest.mark.parametrize("driver", ["pysqlite", "psycopg2"])
def test_offline_mode_prints_sql_that_can_be_run(engine_url: str, conn: Connection, tmp_path: Path) -> None:
    scripts = Scripts(tmp_path / "alembic", engine_url)
    command.upgrade(scripts.config, "head", sql=True)
    command.downgrade(scripts.config, "1:base", sql=True)
    up, down = scripts.output.getvalue().split("-- Running downgrade")
    _run(engine_url, up)
    publish(conn, "acme", "order.paid", {"order": 7})
    assert [one.payload for one in published(conn)] == [{"order": 7}]
    conn.rollback()
    if "sqlite" in engine_url:
        assert "DROP TABLE hookline_outbox" not in down
        assert "hookline_outbox is kept" in down
    else:
        _run(engine_url, "BEGIN;\n-- " + down)
        assert conn.execute(text("SELECT to_regnamespace('hookline') IS NULL")).scalar()


def _run(url: str, script: str) -> None:
    if "sqlite" in url:
        file = sqlite3.connect(url.partition(":///")[2])
        file.executescript(script)
        file.close()
        return
    with psycopg.connect(url.replace("+psycopg2", ""), autocommit=True) as database:
        database.execute(script)


@pytest.mark.parametrize("schemas", [False, True])
@pytest.mark.parametrize("driver", ["pysqlite", "psycopg"])
def test_autogenerate_adds_the_outbox_once_and_never_drops_it(
    engine_url: str, conn: Connection, tmp_path: Path, schemas: bool
) -> None:
    scripts = Scripts(tmp_path / "alembic", engine_url, by_hand=False, schemas=schemas)
    first = scripts.generate("first")
    assert "import hookline.outbox.alembic\n" in first
    up, down = first.split("def downgrade")
    assert "op.create_hookline_outbox()" in up
    assert "op.drop_hookline_outbox()" in down
    assert "op.create_table('orders'" in up
    command.upgrade(scripts.config, "head")
    publish(conn, "acme", "order.paid", {"order": 7})
    conn.commit()
    second = scripts.generate("second")
    assert "hookline" not in second
    assert "op." not in second


@pytest.mark.parametrize("engine", ["postgres"])
def test_autogenerate_ignores_hooklines_own_tables(database_url: str, tmp_path: Path) -> None:
    """The comparison includes every schema of a database that also holds Hookline's own tables."""
    scripts = Scripts(tmp_path / "alembic", _with_driver(database_url, "psycopg"), by_hand=False, schemas=True)
    made = scripts.generate("first")
    assert "hookline" not in made
    assert "drop" not in made.split("def downgrade")[0]


@pytest.mark.parametrize("driver", ["pysqlite"])
def test_other_databases_are_refused(engine_url: str, tmp_path: Path) -> None:
    scripts = Scripts(tmp_path / "alembic", "mysql+pymysql://localhost/shop")
    with pytest.raises(Exception, match="PostgreSQL or SQLite, not mysql"):
        command.upgrade(scripts.config, "head", sql=True)


def test_the_operations_reverse_each_other() -> None:
    from hookline.outbox.alembic import CreateHooklineOutbox, DropHooklineOutbox

    made: Any = CreateHooklineOutbox()
    assert isinstance(made.reverse(), DropHooklineOutbox)
    assert isinstance(made.reverse().reverse(), CreateHooklineOutbox)
