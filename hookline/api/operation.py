"""API operations as data: method, path, parameters, responses, and who may call them.

Routing, the scopes of API keys and the OpenAPI document all use the same list.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

from msgspec import Meta, Struct

from hookline.api.wire.base import doc
from hookline.web.authorize import Access, Needs

PREFIX = "/api/v1"

Handler = Callable[..., Awaitable[object]]
H = TypeVar("H", bound=Handler)


class Query(Struct, frozen=True, kw_only=True):
    """The parameters of the query string. A field has the name of its parameter. Unknown parameters are refused."""


Limit = Annotated[int, Meta(ge=1, le=250)]
Iterator = Annotated[str, Meta(max_length=512)]


class Order(StrEnum):
    ASCENDING = "ascending"
    DESCENDING = "descending"


class ListQuery(Query, frozen=True, kw_only=True):
    limit: Limit = 50
    iterator: Iterator | None = None


class OrderedQuery(ListQuery, frozen=True, kw_only=True):
    """The parameters of a listing that can be sorted in both directions."""

    order: Order = Order.ASCENDING


# A filter of Svix's SDKs that Hookline does not have. The value `false` is accepted, because it filters nothing.
NoFilter = Annotated[Literal["false"] | None, doc("Not supported: leave it out.")]
Expanded = Annotated[bool, doc("Accepted for compatibility. The status `sending` is always shown.")]


class Operation(Access, frozen=True, kw_only=True):
    name: str  # unique name such as v1.application.list; the `operationId` in the OpenAPI document
    method: str
    path: str  # path without PREFIX
    handler: Handler
    summary: str
    answers: dict[int, Any]  # successful responses by status: the shape of the JSON, or None if there is no body
    body: Any = None  # shape of the JSON in the request
    body_optional: bool = False
    body_decoded: bool = False  # the handler takes the decoded body; otherwise it reads the body itself
    query: type[Query] | None = None
    traced: bool = False  # the operation continues the trace of the request's `traceparent` header
    own: bool = False  # the operation acts on the caller's token, so an idempotency key counts only for that token
    old_names: tuple[str, ...] = ()  # other paths that call the same operation

    @property
    def tag(self) -> str:
        return self.name.split(".")[1]


OPERATIONS: list[Operation] = []  # all operations of the API, once `hookline.api.routes` is imported


def operation(
    method: str, path: str, name: str, *, status: int | tuple[int, ...] = 200, body: Any = None, **more: Any
) -> Callable[[H], H]:
    """Return a decorator that adds an operation to `OPERATIONS`. The decorator reads the signature of the handler:

    - `asked: X`: the query parameters, decoded into X.
    - `given: X`: the body, decoded into X.
    - `-> X`: the JSON shape of a successful response. None is a 204 without a body.
    - The first line of the docstring is the summary in the OpenAPI document.

    If `status` is a tuple, its first status is the default. The handler can set `call.status` to another one of them.
    """
    statuses = (status,) if isinstance(status, int) else status

    def add(handler: H) -> H:
        types = get_type_hints(handler)
        shown = types["return"]
        made = Operation(
            name=name,
            method=method,
            path=path,
            handler=handler,
            answers={204: None} if shown is type(None) else dict.fromkeys(statuses, shown),
            summary=(handler.__doc__ or "").partition("\n")[0],
            query=types.get("asked"),
            body=types.get("given", body),
            body_decoded="given" in types,
            **{"needs": Needs.READ if method == "GET" else Needs.WRITE} | more,
        )
        OPERATIONS.append(made)
        return handler

    return add
