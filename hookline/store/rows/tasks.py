"""Rows of background tasks."""

from __future__ import annotations

import msgspec

from hookline.model import Task, TaskWork
from hookline.store.rows.reading import Reading, Row, struct_of

_work_decoder = msgspec.json.Decoder(TaskWork)


def task(row: Row, read: Reading) -> Task:
    return struct_of(Task, row, read, work=_work_decoder.decode(row["params"]))
