"""The handlers, one module per resource. Each module has its list of `OPERATIONS`."""

from __future__ import annotations

from hookline.api.operation import Operation
from hookline.api.routes import (
    alerts,
    applications,
    attempts,
    authentication,
    dead_letters,
    endpoint_state,
    endpoints,
    event_types,
    keys,
    messages,
    operational,
    publish,
    statistics,
    tasks,
)

OPERATIONS: list[Operation] = [
    *applications.OPERATIONS,
    *event_types.OPERATIONS,
    *endpoints.OPERATIONS,
    *endpoint_state.OPERATIONS,
    *statistics.OPERATIONS,
    *publish.OPERATIONS,
    *messages.OPERATIONS,
    *attempts.OPERATIONS,
    *dead_letters.OPERATIONS,
    *tasks.OPERATIONS,
    *keys.OPERATIONS,
    *authentication.OPERATIONS,
    *operational.OPERATIONS,
    *alerts.OPERATIONS,
]
