"""One API request in a handler: the caller, the parameters, and helpers for the response."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from hookline import ids
from hookline.api import query, wire
from hookline.api.query import without_controls
from hookline.errors import InvalidInput
from hookline.model import Application
from hookline.model.callers import Caller
from hookline.services.deps import Deps
from hookline.services.lookup import EndpointRef, MessageRef
from hookline.store.protocols import Page, Store
from hookline.web import body
from hookline.web.context import WebContext

if TYPE_CHECKING:
    from hookline.api.operation import ListQuery, Operation

T = TypeVar("T")

MAX_BODY = 256 * 1024  # maximum bytes of a request without a payload


class Call:
    def __init__(self, request: Request, services: WebContext, caller: Caller, operation: Operation) -> None:
        self.request = request
        self.services = services
        self.caller = caller
        self.operation = operation
        self._raw: bytes | None = None

    @property
    def deps(self) -> Deps:
        return self.services.deps_for(self.caller)

    @property
    def store(self) -> Store:
        return self.deps.store

    def path(self, name: str) -> str:
        value = self.request.path_params[name]
        assert isinstance(value, str)
        return without_controls(name, value)

    async def application(self) -> Application:
        return await self.services.auth.application(self.caller, self.path("app_id"))

    @property
    def endpoint_ref(self) -> EndpointRef:
        """The endpoint and the application that the path names."""
        return EndpointRef(self.path("endpoint_id"), self.path("app_id"))

    @property
    def message_ref(self) -> MessageRef:
        """The message and the application that the path names."""
        return MessageRef(self.path("msg_id"), self.path("app_id"))

    def organization(self) -> str:
        """Return the id of the caller's organization. `Operation.whole` has refused callers limited to one application."""
        return self.caller.org_id

    async def raw_body(self, most: int = MAX_BODY) -> bytes:
        """Return the body. It is read from the connection only once."""
        if self._raw is None:
            tenant = self.caller.org_id if self.caller.app is None else self.caller.app.id
            gathering, seconds = self.services.gathering, self.services.body_time
            self._raw = await body.read_large(self.request, gathering, tenant, limit=most, seconds=seconds)
        if len(self._raw) > most:
            raise body.too_large(most)
        return self._raw

    async def body(self, shape: type[T], most: int = MAX_BODY) -> T:
        assert shape is self.operation.body, "the OpenAPI document has another shape"
        raw = await self.raw_body(most)
        return shape() if not raw and self.operation.body_optional else body.decode(raw, shape)

    def check_query(self) -> None:
        """Refuse unknown parameters, even if the handler does not read the query string."""
        if self.request.scope["query_string"]:
            query.check_names(self.request.query_params, self.operation.query)

    def query(self, shape: type[T]) -> T:
        assert shape is self.operation.query, "the OpenAPI document has other parameters"
        params = self.request.query_params if self.request.scope["query_string"] else query.NONE
        return query.decode(params, shape)


def page_of(asked: ListQuery, prefix: str | None = None) -> Page:
    """Return the page to read from the store. It has one row more than requested, which shows whether more follow; see `listing`.

    `prefix` is the prefix of the ids that are the listing's keys. Any other iterator is refused.
    """
    backwards = asked.iterator is not None and asked.iterator.startswith("-")
    iterator = asked.iterator.removeprefix("-") if asked.iterator else None
    if iterator is not None and not _is_key(iterator, prefix):
        raise InvalidInput(f"{iterator[:40]!r} does not belong to this listing", field="iterator")
    return Page(limit=asked.limit + 1, iterator=iterator, backwards=backwards, descending=asked.descending)


def _is_key(iterator: str, prefix: str | None) -> bool:
    if prefix is None:
        return iterator != ""
    return iterator.startswith(prefix) and ids.minted_at(iterator) is not None


def respond(value: object, status: int = 200) -> Response:
    return Response(wire.encode(value), status, media_type="application/json")


def listing(rows: list[Any], keys: list[str], page: Page, end: str | None = None) -> Response:
    """Return one page of a listing, always in the listing's own order. The store has returned one row more than is shown.

    `end` is set if the store stopped a long search early. The next request continues from there.
    """
    limit = page.limit - 1
    done = len(rows) <= limit and end is None
    shown = slice(-limit, None) if page.backwards else slice(0, limit)
    rows, keys = rows[shown], keys[shown]
    first, last = (keys[0], keys[-1]) if keys else (end, end or page.iterator)
    if end is not None:
        first, last = (end, last) if page.backwards else (first, end)
    return respond(
        wire.ListResponse(data=rows, done=done, iterator=last, prev_iterator=None if first is None else f"-{first}")
    )


def nothing() -> Response:
    return Response(status_code=204)
