"""The OpenAPI 3.1 document, generated from the operations and from the shapes that validate requests."""

from hookline.api.openapi.document import all_shapes, describe, document
from hookline.api.openapi.problems import PROBLEMS
from hookline.api.openapi.served import routes
from hookline.api.openapi.webhooks import webhooks

__all__ = ["PROBLEMS", "all_shapes", "describe", "document", "routes", "webhooks"]
