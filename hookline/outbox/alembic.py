"""The outbox in Alembic: `op.create_hookline_outbox()` and `op.drop_hookline_outbox()`.

Import this module in your `env.py`: `alembic revision --autogenerate` then adds the outbox where it is missing, and leaves what
is Hookline's alone. A revision that you write yourself imports it too.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from alembic import util
from alembic.autogenerate import comparators, renderers
from alembic.autogenerate.api import AutogenContext
from alembic.operations import MigrateOperation, Operations
from alembic.operations.ops import UpgradeOps
from sqlalchemy import Connection

from hookline.outbox import setup
from hookline.outbox.handle import engine_of, handle

_TABLE, _SCHEMA = "hookline_outbox", "hookline"


@Operations.register_operation("create_hookline_outbox")
class CreateHooklineOutbox(MigrateOperation):
    """Set the outbox up, unless the database has it already."""

    @classmethod
    def create_hookline_outbox(cls, operations: Operations) -> None:
        operations.invoke(cls())

    def reverse(self) -> DropHooklineOutbox:
        return DropHooklineOutbox()


@Operations.register_operation("drop_hookline_outbox")
class DropHooklineOutbox(MigrateOperation):
    """Take the outbox out. Refuses while events wait in it; leaves it where Hookline's own tables are beside it."""

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
        setup.create_table(_connection(operations))


@Operations.implementation_for(DropHooklineOutbox)
def _drop(operations: Operations, _: DropHooklineOutbox) -> None:
    context = operations.get_context()
    if context.as_sql:
        _print(operations, setup.drop_statements(engine_of(context.dialect.name)))
    else:
        setup.drop_table(_connection(operations))


def _connection(operations: Operations) -> Connection:
    return operations.get_bind()


def _print(operations: Operations, statements: Collection[str]) -> None:
    """As they are: SQLAlchemy would look for parameters in them."""
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


# Before 1.18 Alembic had no priorities: what was registered last came last.
_LAST: dict[str, Any] = {"priority": util.DispatchPriority.LAST} if hasattr(util, "DispatchPriority") else {}


@comparators.dispatch_for("schema", **_LAST)
def _compare(context: AutogenContext, upgrade: UpgradeOps, _schemas: Any) -> None:
    """After Alembic's own comparison, which would drop every table that no model has."""
    upgrade.ops[:] = [op for op in upgrade.ops if not _is_ours(op)]
    if context.connection is not None and not setup.is_there(handle(context.connection)):
        upgrade.ops.append(CreateHooklineOutbox())


def _is_ours(op: MigrateOperation) -> bool:
    """A change of the outbox or of Hookline's own tables."""
    table, schema = getattr(op, "table_name", None), getattr(op, "schema", None)
    return table == _TABLE or (table is not None and schema == _SCHEMA)
