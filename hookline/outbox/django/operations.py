"""The migration operation that sets up the outbox."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import NotSupportedError, router
from django.db.migrations.operations.base import Operation

from hookline.outbox import setup
from hookline.outbox.adapters.base import Engine, engine_of
from hookline.outbox.errors import UnknownConnection


class CreateOutbox(Operation):
    """Set up the outbox, unless the database has it already. The reverse migration removes the outbox, and fails while
    events wait in it."""

    reduces_to_sql = True
    reversible = True

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Do nothing: the outbox has no model, so the state of the models does not change."""

    def database_forwards(self, app_label: str, schema_editor: Any, _before: Any, _after: Any) -> None:
        _apply(app_label, schema_editor, setup.create_table, setup.statements)

    def database_backwards(self, app_label: str, schema_editor: Any, _before: Any, _after: Any) -> None:
        _apply(app_label, schema_editor, setup.drop_table, setup.drop_statements)

    def describe(self) -> str:
        return "Set up Hookline's outbox"

    @property
    def migration_name_fragment(self) -> str:
        return "hookline_outbox"


def _apply(
    app_label: str,
    schema_editor: Any,
    change: Callable[[Any], None],
    statements: Callable[[Engine], tuple[str, ...]],
) -> None:
    """Change the database. If Django only prints the SQL (`sqlmigrate`), give it the statements instead."""
    connection = schema_editor.connection
    if not router.allow_migrate(connection.alias, app_label):
        return
    try:
        engine = engine_of(connection.vendor)
    except UnknownConnection as unknown:
        advice = f"keep the app hookline_outbox out of the database {connection.alias!r}"
        raise NotSupportedError(f"{unknown}: {advice} with allow_migrate() of a database router") from None
    if not schema_editor.collect_sql:
        change(connection)
        return
    for statement in statements(engine):
        schema_editor.execute(statement, params=None)
