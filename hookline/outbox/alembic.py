"""The outbox in Alembic: `op.create_hookline_outbox()` and `op.drop_hookline_outbox()`.

Import this module in your `env.py`. Then `alembic revision --autogenerate` adds the outbox if it is missing, and does not
change Hookline's own tables. Import this module also in a revision that you write yourself.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from alembic import util
from alembic.autogenerate import comparators, renderers
from alembic.autogenerate.api import AutogenContext
from alembic.operations import MigrateOperation, Operations
from alembic.operations.ops import UpgradeOps

from hookline.outbox import setup
from hookline.outbox.adapters.base import engine_of

_TABLE, _SCHEMA = "hookline_outbox", "hookline"


@Operations.register_operation("create_hookline_outbox")
class CreateHooklineOutbox(MigrateOperation):
    """Set up the outbox, unless the database has it already."""

    @classmethod
    def create_hookline_outbox(cls, operations: Operations) -> None:
        operations.invoke(cls())

    def reverse(self) -> DropHooklineOutbox:
        return DropHooklineOutbox()


@Operations.register_operation("drop_hookline_outbox")
class DropHooklineOutbox(MigrateOperation):
    """Remove the outbox. Fails while events wait in it. It stays if Hookline's own tables are beside it."""

    @classmethod
    def drop_hookline_outbox(cls, operations: Operations) -> None:
        operations.invoke(cls())

    def reverse(self) -> CreateHooklineOutbox:
        return CreateHooklineOutbox()


@Operations.implementation_for(CreateHooklineOutbox)
def _create(operations: Operations, _: CreateHooklineOutbox) -> None:
    context = operations.get_context()
    if context.as_sql:
        _print(operations, setup.statements(engine_of(context.dialect.name)))
    else:
        setup.create_table(operations.get_bind())


@Operations.implementation_for(DropHooklineOutbox)
def _drop(operations: Operations, _: DropHooklineOutbox) -> None:
    context = operations.get_context()
    if context.as_sql:
        _print(operations, setup.drop_statements(engine_of(context.dialect.name)))
    else:
        setup.drop_table(operations.get_bind())


def _print(operations: Operations, statements: Collection[str]) -> None:
    """Print the statements unchanged: SQLAlchemy would search them for parameters."""
    impl = operations.get_context().impl
    for statement in statements:
        impl.static_output(f"{statement};")


# ── autogenerate ──────────────────────────────────────────────────────────────────────────────────────────────────


@renderers.dispatch_for(CreateHooklineOutbox)
def _render_create(context: AutogenContext, _: CreateHooklineOutbox) -> str:
    return _rendered(context, "create_hookline_outbox")


@renderers.dispatch_for(DropHooklineOutbox)
def _render_drop(context: AutogenContext, _: DropHooklineOutbox) -> str:
    return _rendered(context, "drop_hookline_outbox")


def _rendered(context: AutogenContext, name: str) -> str:
    context.imports.add("import hookline.outbox.alembic")
    return f"{context.opts['alembic_module_prefix'] or ''}{name}()"


# Before 1.18 Alembic had no priorities: comparators ran in the order of registration.
_LAST: dict[str, Any] = {"priority": util.DispatchPriority.LAST} if hasattr(util, "DispatchPriority") else {}


@comparators.dispatch_for("schema", **_LAST)
def _compare(context: AutogenContext, upgrade: UpgradeOps, _schemas: Any) -> None:
    """Run after Alembic's own comparison, which would drop every table without a model."""
    upgrade.ops[:] = [op for op in upgrade.ops if not _is_of_hookline(op)]
    if context.connection is not None and not setup.is_there(context.connection):
        upgrade.ops.append(CreateHooklineOutbox())


def _is_of_hookline(op: MigrateOperation) -> bool:
    """Return whether an operation changes the outbox or Hookline's own tables."""
    table, schema = getattr(op, "table_name", None), getattr(op, "schema", None)
    return table == _TABLE or (table is not None and schema == _SCHEMA)
