"""The handlers, a module per resource; each has its `OPERATIONS`."""

from __future__ import annotations

from hookline.api.operation import Operation
from hookline.api.routes import (
    alerts,
    applications,
    attempts,
    authentication,
    dead,
    endpoints,
    event_types,
    ingest,
    keys,
    lanes,
    messages,
    operational,
    statistics,
    tasks,
)

OPERATIONS: list[Operation] = [
    *applications.OPERATIONS,
    *event_types.OPERATIONS,
    *endpoints.OPERATIONS,
    *lanes.OPERATIONS,
    *statistics.OPERATIONS,
    *ingest.OPERATIONS,
    *messages.OPERATIONS,
    *attempts.OPERATIONS,
    *dead.OPERATIONS,
    *tasks.OPERATIONS,
    *keys.OPERATIONS,
    *authentication.OPERATIONS,
    *operational.OPERATIONS,
    *alerts.OPERATIONS,
]
