from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate

LABEL = "hookline_outbox"


class HooklineOutboxConfig(AppConfig):
    name = "hookline.outbox.django"
    label = LABEL
    verbose_name = "Hookline outbox"

    def ready(self) -> None:
        post_migrate.connect(_without_migrations, sender=self)


def _without_migrations(using: str, **_: Any) -> None:
    """Create the table where migrations are switched off (`MIGRATION_MODULES`, pytest-django's `--no-migrations`).

    Django then creates only the tables of models, and the outbox has no model.
    """
    from django.db import connections, router
    from django.db.migrations.loader import MigrationLoader

    from hookline.outbox.setup import create_table

    module, _explicit = MigrationLoader.migrations_module(LABEL)
    if module is None and router.allow_migrate(using, LABEL):
        create_table(connections[using])
