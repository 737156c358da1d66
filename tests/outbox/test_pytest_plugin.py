"""The pytest fixtures, used by tests as users would write them, with pytest in a separate process."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import psycopg
import pytest

from hookline.outbox.setup import create_table
from tests.outbox.page import python_under

PLUGINS = ("-p", "hookline.pytest_plugin", "-p", "pytest_asyncio.plugin")


def run(folder: Path, files: dict[str, str], *arguments: str, **environment: str) -> str:
    """Run pytest and return its output. The plugins are named explicitly, so that other installed plugins do not
    matter."""
    for name, text in files.items():
        (folder / name).write_text(textwrap.dedent(text))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *PLUGINS, *arguments],
        cwd=folder,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""} | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.stdout + done.stderr


INI = "[pytest]\nfilterwarnings = error\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"

SESSION = """
import pytest
from hookline.outbox.setup import create_table
from sqlalchemy import create_engine, event, text
from sqlalchemy.orm import Session


@pytest.fixture(scope="session")
def engine(tmp_path_factory):
    made = create_engine(f"sqlite:///{tmp_path_factory.mktemp('shop')}/shop.db")

    # SQLAlchemy's manual recommends this: sqlite3 sends no BEGIN before a SAVEPOINT.
    @event.listens_for(made, "connect")
    def leave_it_to_us(connection, _record):
        connection.isolation_level = None

    @event.listens_for(made, "begin")
    def begin(connection):
        connection.exec_driver_sql("BEGIN")

    with made.begin() as connection:
        connection.execute(text("CREATE TABLE orders (total text)"))
        create_table(connection)
    yield made
    made.dispose()


@pytest.fixture
def session(engine):
    with Session(engine) as made:
        yield made  # never committed
"""
SHOP = """
import pytest
from hookline import outbox
from sqlalchemy import text


class Declined(Exception):
    pass


def pay(session, total, declined=False):
    with session.begin_nested():
        session.execute(text("INSERT INTO orders VALUES (:total)"), {"total": total})
        outbox.publish(session, "acme", "order.paid", {"total": total})
        if declined:
            raise Declined

"""
WRONG = """
def test_wrong(session, hookline_outbox):
    pay(session, "1.00")
    hookline_outbox.assert_published("order.refunded")
"""


def test_a_test_that_never_commits_sees_what_it_published(tmp_path: Path) -> None:
    """The test runs the example of the documentation page."""
    fixture, tests = python_under("pytest")
    written = {
        "pytest.ini": INI,
        "conftest.py": f"{SESSION}\n\n{fixture}",
        "test_shop.py": f"{SHOP}\n\n{tests}\n\n{WRONG}",
    }
    shown = run(tmp_path, written)
    assert "1 failed, 2 passed" in shown, shown
    assert "no order.refunded; published were:" in shown
    assert 'order.paid for acme: {"total":"1.00"}' in shown


def test_an_async_session_works_with_the_async_functions(tmp_path: Path, postgres_database: str) -> None:
    files = {
        "pytest.ini": INI,
        "conftest.py": """
            import os
            import asyncpg
            import pytest


            @pytest.fixture
            async def hookline_connection():
                conn = await asyncpg.connect(os.environ["SHOP_URL"])
                transaction = conn.transaction()
                await transaction.start()
                yield conn
                await transaction.rollback()
                await conn.close()
            """,
        "test_shop.py": """
            from hookline import outbox


            async def test_paid(hookline_connection, hookline_outbox, hookline_endpoint):
                await outbox.publish_async(hookline_connection, "acme", "order.paid", {"total": "19.90"})
                await hookline_outbox.assert_published_async("order.paid", count=1)
                [attempt] = await hookline_outbox.deliver_async(hookline_endpoint)
                assert attempt.delivered
                assert await hookline_outbox.deliver_async(hookline_endpoint) == []


            async def test_the_next_one_begins_anew(hookline_outbox):
                await hookline_outbox.assert_not_published_async()
                await hookline_outbox.clear_async()
            """,
    }
    shown = run(tmp_path, files, SHOP_URL=postgres_database)
    assert "2 passed" in shown, shown


@pytest.fixture
def postgres_database(empty_url: str) -> str:
    with psycopg.connect(empty_url) as conn:
        create_table(conn)
    return empty_url


@pytest.fixture
def engine() -> str:
    return "postgres"


def test_a_missing_connection_fixture_gives_a_hint(tmp_path: Path) -> None:
    shown = run(tmp_path, {"test_shop.py": "def test_paid(hookline_outbox):\n    pass\n"})
    assert "1 error" in shown
    assert "define a fixture hookline_connection in conftest.py" in shown


def test_with_django_the_plugin_uses_djangos_connection(tmp_path: Path) -> None:
    files = {
        "conftest.py": """
            import django
            import pytest
            from django.conf import settings

            settings.configure(
                DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
                INSTALLED_APPS=["hookline.outbox.django"],
            )
            django.setup()


            @pytest.fixture(autouse=True)
            def database():
                from django.core.management import call_command
                from django.db import connection, transaction
                call_command("migrate", verbosity=0)
                with transaction.atomic():
                    yield
                    transaction.set_rollback(True)
            """,
        "test_shop.py": """
            from hookline.outbox.django import publish


            def test_paid(hookline_outbox):
                publish("acme", "order.paid", {})
                hookline_outbox.assert_published("order.paid", count=1)


            def test_the_next_one_begins_anew(hookline_outbox):
                hookline_outbox.assert_not_published()
            """,
    }
    shown = run(tmp_path, files)
    assert "2 passed" in shown, shown


def test_a_run_without_the_fixtures_loads_nothing_of_hookline(tmp_path: Path) -> None:
    text = """
        import sys


        def test_light():
            assert sorted(m for m in sys.modules if m.startswith("hookline.")) == ["hookline.pytest_plugin"]
            assert "msgspec" not in sys.modules
        """
    shown = run(tmp_path, {"test_light.py": text})
    assert "1 passed" in shown, shown


def test_the_plugin_is_registered_as_an_entry_point() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert project["project"]["entry-points"]["pytest11"] == {"hookline": "hookline.pytest_plugin"}
