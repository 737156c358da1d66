"""`publish` on SQLAlchemy connections: sessions, options, transactions on SQLite, and objects that are refused."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import UnboundExecutionError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

from hookline.outbox import NotInTransaction, UnknownConnection, publish, publish_async
from tests.outbox.conftest import PostgresShop, SqliteShop
from tests.outbox.desks import engine_url
from tests.support.pages import page

GUIDE = "docs/guides/publish-in-a-transaction.md"


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    n: Mapped[int] = mapped_column(primary_key=True)


@pytest.fixture
def sqlite_engine(sqlite_shop: SqliteShop) -> Iterator[sa.Engine]:
    engine = sa.create_engine(engine_url(sqlite_shop.url, "pysqlite"))
    yield engine
    engine.dispose()


@pytest.fixture(params=["psycopg", "psycopg2"])
def postgres_engine(request: pytest.FixtureRequest, postgres_shop: PostgresShop) -> Iterator[sa.Engine]:
    engine = sa.create_engine(engine_url(postgres_shop.url, request.param))
    yield engine
    engine.dispose()


@pytest.fixture
async def async_engine(postgres_shop: PostgresShop) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(engine_url(postgres_shop.url, "asyncpg"))
    yield engine
    await engine.dispose()


# ── sessions ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_session_is_not_flushed(postgres_engine: sa.Engine, postgres_shop: PostgresShop) -> None:
    with Session(postgres_engine) as session:
        order = Order(n=7)
        session.add(order)
        made = publish(session, "acme", "order.paid", {"order": 7})
        assert order in session.new
        session.commit()
    assert (postgres_shop.orders(), postgres_shop.event_ids()) == (1, [made])


def test_begin_of_a_session_and_of_its_maker(postgres_engine: sa.Engine, postgres_shop: PostgresShop) -> None:
    maker = sessionmaker(postgres_engine)
    with maker.begin() as session:
        made = publish(session, "acme", "order.paid", {})
    with pytest.raises(ZeroDivisionError):
        _publish_and_fail(maker)
    assert postgres_shop.event_ids() == [made]


def _publish_and_fail(maker: sessionmaker[Session]) -> None:
    with maker.begin() as session:
        publish(session, "acme", "order.paid", {})
        raise ZeroDivisionError


def test_a_session_inside_a_transaction_of_its_connection(
    postgres_engine: sa.Engine, postgres_shop: PostgresShop
) -> None:
    """Test suites use this pattern to roll back everything at the end."""
    with postgres_engine.connect() as connection:
        outer = connection.begin()
        with Session(connection, join_transaction_mode="create_savepoint") as session:
            publish(session, "acme", "order.paid", {})
            session.commit()
            publish(session, "acme", "order.paid", {})
            session.rollback()
        count = connection.execute(sa.text("SELECT count(*) FROM hookline.outbox")).scalar_one()
        outer.rollback()
    assert (count, postgres_shop.outbox()) == (1, [])


def test_a_session_with_several_databases_is_ambiguous(sqlite_engine: sa.Engine, sqlite_shop: SqliteShop) -> None:
    with Session(binds={Order: sqlite_engine}) as session:
        with pytest.raises(UnboundExecutionError) as failed:
            publish(session, "acme", "order.paid", {})
        assert "bind_arguments" in failed.value.__notes__[0]
        made = publish(session.connection(bind_arguments={"mapper": Order}), "acme", "order.paid", {})
        session.commit()
    assert sqlite_shop.event_ids() == [made]


# ── connections and their options ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("options", [{"stream_results": True}, {"yield_per": 5}, {"compiled_cache": None}])
def test_execution_options_for_reading_do_not_matter(
    postgres_engine: sa.Engine, postgres_shop: PostgresShop, options: dict[str, Any]
) -> None:
    with postgres_engine.connect().execution_options(**options) as connection:
        made = publish(connection, "acme", "order.paid", {})
        connection.commit()
    assert postgres_shop.event_ids() == [made]


async def test_execution_options_for_reading_do_not_matter_async(
    async_engine: AsyncEngine, postgres_shop: PostgresShop
) -> None:
    async with async_engine.connect() as plain:
        connection = await plain.execution_options(stream_results=True, yield_per=5)
        made = await publish_async(connection, "acme", "order.paid", {})
        await connection.commit()
    assert postgres_shop.event_ids() == [made]


def test_a_refused_connection_has_no_open_transaction(sqlite_engine: sa.Engine, postgres_engine: sa.Engine) -> None:
    for engine in (sqlite_engine, postgres_engine):
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            with pytest.raises(NotInTransaction):
                publish(connection, "acme", "order.paid", {})
            assert not connection.in_transaction()
            with connection.begin(), pytest.raises(NotInTransaction):
                publish(connection, "acme", "order.paid", {})


def test_autocommit_of_the_engine_is_refused(postgres_shop: PostgresShop, sqlite_shop: SqliteShop) -> None:
    for shop, driver in ((postgres_shop, "psycopg"), (sqlite_shop, "pysqlite")):
        engine = sa.create_engine(engine_url(shop.url, driver), isolation_level="AUTOCOMMIT")
        with Session(engine) as session, pytest.raises(NotInTransaction):
            publish(session, "acme", "order.paid", {})
        engine.dispose()
        assert shop.outbox() == []


async def test_begin_of_an_async_engine(async_engine: AsyncEngine, postgres_shop: PostgresShop) -> None:
    async with async_engine.begin() as connection:
        made = await publish_async(connection, "acme", "order.paid", {})
    with pytest.raises(ZeroDivisionError):
        await _publish_and_fail_async(async_engine)
    assert postgres_shop.event_ids() == [made]


async def _publish_and_fail_async(engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        await publish_async(connection, "acme", "order.paid", {})
        raise ZeroDivisionError


# ── SQLite ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def begun_engine(sqlite_engine: sa.Engine) -> sa.Engine:
    """Return an engine that sends BEGIN itself, as SQLAlchemy's manual and our guide recommend for savepoints."""
    recipe = re.search(r"```python\n(@event.listens_for.*?)```", page(GUIDE), re.DOTALL)
    assert recipe is not None
    exec(recipe[1], {"engine": sqlite_engine, "event": sa.event})
    return sqlite_engine


@pytest.mark.parametrize("given", [sa.Engine.connect, Session])
def test_an_application_that_sends_its_own_begin(begun_engine: sa.Engine, sqlite_shop: SqliteShop, given: Any) -> None:
    with given(begun_engine) as connection:
        made = publish(connection, "acme", "order.paid", {})
        assert sqlite_shop.outbox() == []
        connection.commit()
        publish(connection, "acme", "order.paid", {})
        connection.rollback()
    assert sqlite_shop.event_ids() == [made]


def test_with_an_explicit_begin_a_savepoint_may_come_first(begun_engine: sa.Engine, sqlite_shop: SqliteShop) -> None:
    _publish_in_a_savepoint_and_roll_back(begun_engine)
    assert sqlite_shop.outbox() == []


def test_without_an_explicit_begin_a_first_savepoint_is_a_transaction_of_its_own(
    sqlite_engine: sa.Engine, sqlite_shop: SqliteShop
) -> None:
    """Python's sqlite3 sends BEGIN before an INSERT, but not before a SAVEPOINT. The guide warns of this."""
    _publish_in_a_savepoint_and_roll_back(sqlite_engine)
    assert len(sqlite_shop.outbox()) == 1


def _publish_in_a_savepoint_and_roll_back(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        with connection.begin_nested():
            publish(connection, "acme", "order.paid", {})
        connection.rollback()


# ── refused objects ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_other_objects_are_refused_as_connections(sqlite_engine: sa.Engine) -> None:
    raw = sqlite_engine.raw_connection()
    for wrong in (sqlite_engine, sessionmaker(sqlite_engine), raw, sa.text("SELECT 1")):
        with pytest.raises(UnknownConnection, match="give the connection itself"):
            publish(wrong, "acme", "order.paid", {})
        with pytest.raises(UnknownConnection, match="give the connection itself"):
            await publish_async(wrong, "acme", "order.paid", {})
    raw.close()


def test_an_unsupported_dialect_is_refused(sqlite_engine: sa.Engine, sqlite_shop: SqliteShop) -> None:
    sqlite_engine.dialect.name = "mysql"
    with sqlite_engine.connect() as connection:
        with pytest.raises(UnknownConnection, match="PostgreSQL or SQLite, not mysql"):
            publish(connection, "acme", "order.paid", {})
        assert not connection.in_transaction()


async def test_an_async_connection_that_was_not_started(async_engine: AsyncEngine) -> None:
    connection: AsyncConnection = async_engine.connect()
    with pytest.raises(sa.exc.InvalidRequestError):
        await publish_async(connection, "acme", "order.paid", {})
