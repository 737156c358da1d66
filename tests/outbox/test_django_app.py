"""The Django app and the test mixin, in real Django processes with their own project."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from hookline import signing
from tests.outbox.page import python_under

SECRET = signing.new_secret()

SETTINGS = """
import json, os
DATABASES = json.loads(os.environ["PROJECT_DATABASES"])
INSTALLED_APPS = ["hookline.outbox.django", "shop"]
SECRET_KEY = "x"
USE_TZ = True
ROOT_URLCONF = "shop.urls"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASE_ROUTERS = os.environ.get("PROJECT_ROUTERS", "").split()
if os.environ.get("PROJECT_NO_MIGRATIONS"):
    MIGRATION_MODULES = {"hookline_outbox": None, "shop": None}
"""

FILES = {
    "settings.py": SETTINGS,
    "shop/__init__.py": "",
    "shop/models.py": """
        from django.db import models

        class Order(models.Model):
            total = models.CharField(max_length=20)
        """,
    "shop/migrations/__init__.py": "",
    "shop/migrations/0001_initial.py": """
        from django.db import migrations, models

        class Migration(migrations.Migration):
            operations = [
                migrations.CreateModel("Order", [
                    ("id", models.BigAutoField(primary_key=True, auto_created=True, serialize=False, verbose_name="ID")),
                    ("total", models.CharField(max_length=20)),
                ]),
            ]
        """,
    "shop/routers.py": """
        class OnlyDefault:
            def allow_migrate(self, db, app_label, **hints):
                return db == "default" if app_label == "hookline_outbox" else None
        """,
    "shop/urls.py": f"""
        import standardwebhooks
        from django.http import HttpResponse
        from django.urls import path
        from django.views.decorators.csrf import csrf_exempt
        from django.views.decorators.http import require_POST

        @csrf_exempt
        @require_POST
        def hook(request):
            payload = standardwebhooks.Webhook("{SECRET}").verify(request.body, dict(request.headers))
            return HttpResponse(str(payload["order"]), status=202)

        urlpatterns = [path("hooks/", hook), path("webhooks/", hook)]
        """,
    "shop/pay.py": """
        from django.db import transaction
        from hookline.outbox.django import publish
        from shop.models import Order

        def pay(total, using="default"):
            with transaction.atomic(using=using):
                order = Order.objects.using(using).create(total=total)
                publish("acme", "order.paid", {"order": order.pk, "total": total}, using=using, tags=["paid"])
                return order
        """,
    "other_vendor/__init__.py": "",
    "other_vendor/base.py": """
        from django.db.backends.sqlite3 import base

        class DatabaseWrapper(base.DatabaseWrapper):
            vendor = "mysql"
        """,
}


class Project:
    def __init__(self, folder: Path, databases: dict[str, Any]) -> None:
        self.folder = folder
        self.databases = databases
        for name, text in FILES.items():
            self.write(name, text)

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))

    def manage(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return self._run([sys.executable, "-W", "error", "-m", "django", *arguments], environment)

    def script(self, text: str, **environment: str) -> Any:
        """Run the script and return its output, decoded from JSON."""
        start = "import django, json; django.setup()\nfrom django.core.management import call_command\n"
        done = self._run([sys.executable, "-W", "error", "-c", start + textwrap.dedent(text)], environment)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def _run(self, command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        given = {"DJANGO_SETTINGS_MODULE": "settings", "PROJECT_DATABASES": json.dumps(self.databases)} | environment
        return subprocess.run(
            command, cwd=self.folder, env=os.environ | given, capture_output=True, text=True, check=False, timeout=120
        )


def database(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path[1:],
        "HOST": parts.hostname,
        "PORT": parts.port,
        "USER": parts.username,
        "OPTIONS": {"options": "-c search_path=public"},  # The database role has the same name as Hookline's schema.
    }


@pytest.fixture
def project(empty_url: str, tmp_path: Path) -> Project:
    given = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "shop.db")}
    return Project(tmp_path, {"default": given if empty_url.startswith("sqlite") else database(empty_url)})


@pytest.fixture
def on_sqlite(tmp_path: Path) -> Project:
    files = {name: str(tmp_path / f"{name}.db") for name in ("default", "other")}
    return Project(
        tmp_path, {name: {"ENGINE": "django.db.backends.sqlite3", "NAME": file} for name, file in files.items()}
    )


# ── migrations ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_migration_can_be_applied_and_reversed_and_keeps_waiting_events(project: Project) -> None:
    seen = project.script("""
        from django.db import connection, transaction
        from hookline.testing import clear, published
        from hookline.outbox import NotInTransaction, event
        from hookline.outbox.django import publish, publish_many
        from hookline.outbox.setup import is_there
        from shop.pay import pay

        seen = {}
        call_command("migrate", verbosity=0)
        pay("19.90")
        try:
            with transaction.atomic():
                pay("42.00")
                raise RuntimeError
        except RuntimeError:
            pass
        with transaction.atomic():
            seen["many"] = publish_many([event("acme", "order.sent", {"n": n}, event_id=f"e{n}") for n in (1, 2)])
        seen["published"] = [[one.event_type, one.payload, one.tags] for one in published(connection)]
        try:
            publish("acme", "order.paid", {})
        except NotInTransaction as error:
            seen["outside"] = str(error)
        try:
            call_command("migrate", "hookline_outbox", "zero", verbosity=0)
        except Exception as error:
            seen["refused"] = str(error)
        seen["kept"] = len(published(connection))
        clear(connection)
        call_command("migrate", "hookline_outbox", "zero", verbosity=0)
        seen["gone"] = not is_there(connection)
        call_command("migrate", verbosity=0)
        seen["back"] = published(connection)
        print(json.dumps(seen))
    """)
    assert seen["published"] == [
        ["order.paid", {"order": 1, "total": "19.90"}, ["paid"]],
        ["order.sent", {"n": 1}, None],
        ["order.sent", {"n": 2}, None],
    ]
    assert seen["many"] == ["e1", "e2"]
    assert "atomic" in seen["outside"]
    assert "still has 3 event" in seen["refused"]
    assert (seen["kept"], seen["gone"], seen["back"]) == (3, True, [])


def test_makemigrations_finds_no_changes_and_sqlmigrate_works(project: Project) -> None:
    seen = project.script("""
        import io
        from django.core.management import call_command

        def shown(*given, **options):
            out = io.StringIO()
            call_command(*given, stdout=out, **options)
            return out.getvalue()

        call_command("check")
        print(json.dumps([
            shown("makemigrations", check_changes=True, dry_run=True),
            shown("sqlmigrate", "hookline_outbox", "0001"),
            shown("sqlmigrate", "hookline_outbox", "0001", backwards=True),
        ]))
    """)
    assert "No changes" in seen[0]
    postgres = "postgresql" in project.databases["default"]["ENGINE"]
    assert ("CREATE OR REPLACE FUNCTION hookline.publish_events" if postgres else "hookline_outbox (") in seen[1]
    assert "%Y-%m-%dT" in seen[1] or postgres
    assert ("DROP TABLE hookline.outbox" if postgres else "hookline_outbox is kept") in seen[2]


@pytest.mark.parametrize("engine", ["postgres"])
def test_the_migration_does_not_change_an_outbox_that_hookline_created(database_url: str, tmp_path: Path) -> None:
    project = Project(tmp_path, {"default": database(database_url)})
    with psycopg.connect(database_url) as conn:
        tables = "SELECT relname, relnatts FROM pg_class WHERE relnamespace = 'hookline'::regnamespace ORDER BY 1"
        before = conn.execute(tables).fetchall()
        conn.commit()
        for target in ([], ["hookline_outbox", "zero"], []):
            done = project.manage("migrate", *target)
            assert done.returncode == 0, done.stderr
        assert conn.execute(tables).fetchall() == before
        conn.execute("SELECT hookline.publish('acme', 'order.paid', '{}')")
        conn.rollback()
        conn.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")


def test_each_database_gets_the_tables_that_its_router_allows(on_sqlite: Project) -> None:
    look = """
        from django.db import connections
        from hookline.outbox.setup import is_there
        from shop.pay import pay
        from hookline.testing import published

        call_command("migrate", verbosity=0)
        call_command("migrate", database="other", verbosity=0)
        if is_there(connections["other"]):
            pay("1.00", using="other")
        there = [alias for alias in connections if is_there(connections[alias])]
        print(json.dumps([there, [len(published(connections[alias])) for alias in there]]))
    """
    assert on_sqlite.script(look, PROJECT_ROUTERS="shop.routers.OnlyDefault") == [["default"], [0]]
    for file in on_sqlite.folder.glob("*.db"):
        file.unlink()
    assert on_sqlite.script(look) == [["default", "other"], [0, 1]]


def test_an_unsupported_database_is_refused_with_a_hint(on_sqlite: Project) -> None:
    on_sqlite.databases["other"]["ENGINE"] = "other_vendor"
    done = on_sqlite.manage("migrate", "hookline_outbox", "--database", "other")
    assert done.returncode != 0
    assert "not mysql: keep the app hookline_outbox out of the database 'other'" in done.stderr
    allowed = on_sqlite.manage(
        "migrate", "hookline_outbox", "--database", "other", PROJECT_ROUTERS="shop.routers.OnlyDefault"
    )
    assert allowed.returncode == 0, allowed.stderr


# ── users' tests ──────────────────────────────────────────────────────────────────────────────────────────────────

TESTS = f"""
    from django.db import connection, transaction
    from django.test import Client, SimpleTestCase, TestCase, TransactionTestCase
    from hookline.outbox.django import publish
    from hookline.testing import AppEndpoint, FakeEndpoint
    from hookline.testing.django import OutboxTestMixin
    from shop.models import Order
    from shop.pay import pay


    class PayTest(OutboxTestMixin, TestCase):
        @classmethod
        def setUpTestData(cls):
            pay("1.00")

        def test_what_was_published_is_seen(self):
            order = pay("19.90")
            event = self.assertPublished("order.paid", app="acme", payload={{"total": "19.90"}}, count=1)
            self.assertEqual(event.payload["order"], order.pk)
            self.assertNotPublished("order.refunded")
            self.assertEqual(len(self.published()), 1)

        def test_every_test_begins_anew(self):
            self.assertEqual(self.published(), [])
            self.assertNotPublished()

        def test_a_rolled_back_block_published_nothing(self):
            with self.assertRaises(RuntimeError), transaction.atomic():
                pay("19.90")
                raise RuntimeError
            self.assertNotPublished()
            with self.assertRaisesRegex(AssertionError, "nothing was published"):
                self.assertPublished("order.paid")

        def test_it_is_delivered_to_a_fake_endpoint(self):
            pay("19.90")
            with FakeEndpoint() as endpoint:
                endpoint.answer_next(500)
                self.assertFalse(self.deliver(endpoint)[0].delivered)
                self.assertTrue(self.deliver(endpoint)[0].delivered)
                self.assertEqual([one.attempt for one in endpoint.requests], [1, 2])
                self.assertEqual(endpoint.requests[1].json()["total"], "19.90")

        def test_it_is_delivered_to_a_view(self):
            order = pay("19.90")
            [attempt] = self.deliver(AppEndpoint(self.client, "/hooks/", secret="{SECRET}"))
            self.assertEqual((attempt.answer.status, attempt.answer.body), (202, str(order.pk).encode()))

        async def test_it_is_delivered_to_a_view_by_the_async_client(self):
            from asgiref.sync import sync_to_async
            from hookline.testing import deliver_async
            order = await sync_to_async(pay)("19.90")
            events = await sync_to_async(self.published)()
            [attempt] = await deliver_async(events, AppEndpoint(self.async_client, "/hooks/", secret="{SECRET}"))
            self.assertEqual(attempt.answer.status, 202)

        def test_deferred_constraints_can_be_checked(self):
            pay("19.90")
            connection.check_constraints()
            self.assertPublished("order.paid")


    class CommittedTest(OutboxTestMixin, TransactionTestCase):
        def test_first(self):
            pay("19.90")
            self.assertPublished("order.paid", count=1)

        def test_second_does_not_see_the_first(self):
            pay("19.90")
            self.assertPublished("order.paid", count=1)


    class PlainTest(OutboxTestMixin, SimpleTestCase):
        def test_no_database_is_touched(self):
            pass
"""


PAGE_IMPORTS = f"""
from django.test import TestCase
from hookline.testing import AppEndpoint
from hookline.testing.django import OutboxTestMixin
from shop.pay import pay

SECRET = "{SECRET}"

"""


@pytest.mark.parametrize("migrations", [True, False])
def test_users_can_test_what_they_publish(project: Project, migrations: bool) -> None:
    project.write("shop/tests.py", TESTS)
    project.write("shop/test_page.py", PAGE_IMPORTS + python_under("Django's test cases")[0])
    done = project.manage("test", "--noinput", PROJECT_NO_MIGRATIONS="" if migrations else "yes")
    assert done.returncode == 0, done.stderr
    assert "Ran 11 tests" in done.stderr
