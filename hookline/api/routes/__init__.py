"""The handlers, a module per resource; each has its `OPERATIONS`."""

from __future__ import annotations

from hookline.api.operation import Operation
from hookline.api.routes import applications, endpoints, messages

OPERATIONS: list[Operation] = [*applications.OPERATIONS, *endpoints.OPERATIONS, *messages.OPERATIONS]
