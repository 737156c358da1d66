"""The operation of this app's migrations."""

from __future__ import annotations

from typing import Any

from django.db import NotSupportedError, router
from django.db.migrations.operations.base import Operation

from hookline.outbox import setup
from hookline.outbox.handle import Engine


class CreateOutbox(Operation):
    """Sets the outbox up, unless the database has it already; backwards takes it out, unless events wait in it."""

    reduces_to_sql = True
    reversible = True

    def state_forwards(self, app_label: str, state: Any) -> None:
        """There is no model."""

    def database_forwards(self, app_label: str, schema_editor: Any, _before: Any, _after: Any) -> None:
        connection = schema_editor.connection
        if not router.allow_migrate(connection.alias, app_label):
            return
        engine = _engine(connection)
        if schema_editor.collect_sql:
            _write(schema_editor, setup.statements(engine))
        else:
            setup.create_table(connection)

    def database_backwards(self, app_label: str, schema_editor: Any, _before: Any, _after: Any) -> None:
        connection = schema_editor.connection
        if not router.allow_migrate(connection.alias, app_label):
            return
        engine = _engine(connection)
        if schema_editor.collect_sql:
            _write(schema_editor, setup.drop_statements(engine))
        else:
            setup.drop_table(connection)

    def describe(self) -> str:
        return "Set up Hookline's outbox"

    @property
    def migration_name_fragment(self) -> str:
        return "hookline_outbox"


def _write(schema_editor: Any, statements: tuple[str, ...]) -> None:
    for statement in statements:
        schema_editor.execute(statement, params=None)


def _engine(connection: Any) -> Engine:
    if connection.vendor == "postgresql":
        return "postgres"
    if connection.vendor == "sqlite":
        return "sqlite"
    raise NotSupportedError(
        f"Hookline's outbox needs PostgreSQL or SQLite, and the database {connection.alias!r} is {connection.vendor}: keep the "
        "app hookline_outbox out of it with allow_migrate() of a database router"
    )
