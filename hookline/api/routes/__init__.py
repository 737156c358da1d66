"""The handlers, one module per resource. Importing a module adds its operations to `OPERATIONS`."""

from hookline.api.operation import OPERATIONS as OPERATIONS
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
