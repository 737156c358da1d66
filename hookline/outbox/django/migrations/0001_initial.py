from __future__ import annotations

from django.db import migrations

from hookline.outbox.django.operations import CreateOutbox


class Migration(migrations.Migration):
    initial = True
    dependencies: list[tuple[str, str]] = []  # noqa: RUF012
    operations = [CreateOutbox()]  # noqa: RUF012
