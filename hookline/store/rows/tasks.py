"""Rows of background tasks."""

from __future__ import annotations

import msgspec

from hookline.model import Task, TaskKind, TaskStatus, TaskWork
from hookline.store.rows.reading import Reading, Row

_work_decoder = msgspec.json.Decoder(TaskWork)


def task(row: Row, read: Reading) -> Task:
    return Task(
        id=row["id"],
        org_id=row["org_id"],
        app_no=row["app_no"],
        app_id=row["app_id"],
        endpoint_no=row["endpoint_no"],
        endpoint_id=row["endpoint_id"],
        kind=TaskKind(row["kind"]),
        status=TaskStatus(row["status"]),
        work=_work_decoder.decode(row["params"]),
        done=row["done"],
        skipped=row["skipped"],
        total=row["total"],
        position=row["position"],
        error=row["error"],
        created_at=read.instant(row["created_at"]),
        updated_at=read.instant(row["updated_at"]),
    )
