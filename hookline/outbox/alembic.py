"""The outbox in Alembic: `op.create_hookline_outbox()` and `op.drop_hookline_outbox()`.

Import this module in your `env.py`. Then `alembic revision --autogenerate` adds the outbox if it is missing, and does
not change Hookline's own tables. Import this module also in a revision that you write yourself.
"""

from __future__ import annotations

from typing import Any, ClassVar

from alembic import util
from alembic.autogenerate import comparators, renderers
from alembic.autogenerate.api import AutogenContext
from alembic.operations import MigrateOperation, Operations
from alembic.operations.ops import UpgradeOps

from hookline.outbox import setup
from hookline.outbox.adapters.base import engine_of

_TABLE, _SCHEMA = "hookline_outbox", "hookline"
_CHANGES = {  # by operation: the function that changes a database, and the function that returns the same change as SQL
    "create_hookline_outbox": (setup.create_table, setup.statements),
    "drop_hookline_outbox": (setup.drop_table, setup.drop_statements),
}


class _OutboxOperation(MigrateOperation):
    """An operation without arguments. It changes the database or, in offline mode, prints the SQL."""

    name: ClassVar[str]

    @classmethod
    def invoke(cls, operations: Operations) -> None:
        operations.invoke(cls())


@Operations.register_operation("create_hookline_outbox", "invoke")
class CreateHooklineOutbox(_OutboxOperation):
    """Set up the outbox, unless the database has it already."""

    name = "create_hookline_outbox"

    def reverse(self) -> DropHooklineOutbox:
        return DropHooklineOutbox()


@Operations.register_operation("drop_hookline_outbox", "invoke")
class DropHooklineOutbox(_OutboxOperation):
    """Remove the outbox. Fails while events wait in it. On PostgreSQL the outbox stays, without an error, if
    Hookline's own tables are in the same schema or if another role made it."""

    name = "drop_hookline_outbox"

    def reverse(self) -> CreateHooklineOutbox:
        return CreateHooklineOutbox()


@Operations.implementation_for(_OutboxOperation)
def _run(operations: Operations, operation: _OutboxOperation) -> None:
    """Change the database, or print the statements in offline mode.

    The statements are printed without `execute`, because Alembic's `execute` would read each `:name` in them as a
    parameter.
    """
    context = operations.get_context()
    change, statements = _CHANGES[operation.name]
    if not context.as_sql:
        change(operations.get_bind())
        return
    for statement in statements(engine_of(context.dialect.name)):
        context.impl.static_output(f"{statement};")


# ── autogenerate ──────────────────────────────────────────────────────────────────────────────────────────────────


@renderers.dispatch_for(_OutboxOperation)
def _rendered(context: AutogenContext, operation: _OutboxOperation) -> str:
    context.imports.add("import hookline.outbox.alembic")
    return f"{context.opts['alembic_module_prefix'] or ''}{operation.name}()"


# Before 1.18 Alembic had no priorities: comparators ran in the order of registration.
_LAST: dict[str, Any] = {"priority": util.DispatchPriority.LAST} if hasattr(util, "DispatchPriority") else {}


@comparators.dispatch_for("schema", **_LAST)
def _compare(context: AutogenContext, upgrade: UpgradeOps, _schemas: Any) -> None:
    """Add the outbox if it is missing. Remove Alembic's own operations on the outbox and on Hookline's tables.

    Alembic's comparison runs first. It would drop these tables, because they have no model.
    """
    upgrade.ops[:] = [op for op in upgrade.ops if not _is_of_hookline(op)]
    if context.connection is not None and not setup.is_there(context.connection):
        upgrade.ops.append(CreateHooklineOutbox())


def _is_of_hookline(op: MigrateOperation) -> bool:
    """Return whether an operation changes the outbox or Hookline's own tables."""
    table, schema = getattr(op, "table_name", None), getattr(op, "schema", None)
    return table == _TABLE or (table is not None and schema == _SCHEMA)
