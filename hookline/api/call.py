"""One API request in a handler: the caller, the parameters, and helpers for the response."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from operator import attrgetter
from typing import Any, Concatenate, ParamSpec, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from hookline import ids
from hookline.api import query
from hookline.api.operation import ListQuery, Operation, Order, OrderedQuery
from hookline.api.query import without_controls
from hookline.api.wire.base import ListResponse, as_sent, encode
from hookline.errors import InvalidInput
from hookline.model.callers import Caller
from hookline.model.catalogue import Application
from hookline.model.endpoints import Endpoint
from hookline.model.messages import Message
from hookline.services import lookup
from hookline.services.deps import Deps
from hookline.services.lookup import EndpointRef, MessageRef
from hookline.store import Page, Store, Walk
from hookline.web import body
from hookline.web.context import WebContext

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S")

MAX_BODY = 256 * 1024  # maximum bytes of a request body that has no message payload


class Call:
    def __init__(self, request: Request, services: WebContext, caller: Caller, operation: Operation) -> None:
        self.request = request
        self.services = services
        self.caller = caller
        self.operation = operation
        self.status = next(iter(operation.answers))  # status of the response
        self.headers: dict[str, str] | None = None  # additional headers of the response
        self._raw: bytes | None = None

    @property
    def deps(self) -> Deps:
        return self.services.deps_for(self.caller)

    @property
    def store(self) -> Store:
        return self.deps.store

    async def run(
        self, action: Callable[Concatenate[Deps, Caller, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Call a function of `hookline.services` for the caller of this request."""
        return await action(self.deps, self.caller, *args, **kwargs)

    # ── parameters of the path, and the objects that they name ──

    def path(self, name: str) -> str:
        value = self.request.path_params[name]
        assert isinstance(value, str)
        return without_controls(name, value)

    @property
    def endpoint_ref(self) -> EndpointRef:
        return EndpointRef(self.path("endpoint_id"), self.path("app_id"))

    @property
    def message_ref(self) -> MessageRef:
        return MessageRef(self.path("msg_id"), self.path("app_id"))

    async def application(self) -> Application:
        return await self.services.auth.application(self.caller, self.path("app_id"))

    async def endpoint(self) -> Endpoint:
        return await self.run(lookup.endpoint, self.endpoint_ref)

    async def message(self) -> Message:
        return await self.run(lookup.message, self.message_ref)

    # ── query string and body of the request ──

    async def raw_body(self, most: int = MAX_BODY) -> bytes:
        """Return the body. It is read from the connection only once."""
        if self._raw is None:
            tenant = self.caller.org_id if self.caller.app is None else self.caller.app.id
            gathering, seconds = self.services.gathering, self.services.body_time
            self._raw = await body.read_large(self.request, gathering, tenant, limit=most, seconds=seconds)
        if len(self._raw) > most:
            raise body.too_large(most)
        return self._raw

    def check_query(self) -> None:
        """Refuse unknown parameters, even if the handler does not read the query string."""
        if self.request.scope["query_string"]:
            query.check_names(self.request.query_params, self.operation.query)

    async def handle(self) -> Response:
        """Decode the query and the body, run the handler, and encode its result as JSON."""
        operation = self.operation
        taken: dict[str, object] = {}
        if operation.query is not None:
            params = self.request.query_params if self.request.scope["query_string"] else query.NONE
            taken["asked"] = query.decode(params, operation.query)
        if operation.body_decoded:
            raw = await self.raw_body()
            shape = operation.body
            taken["given"] = shape() if not raw and operation.body_optional else body.decode(raw, shape)
        try:
            found = await operation.handler(self, **taken)
        except InvalidInput as error:
            raise as_sent(error, taken.get("given")) from error
        if found is None:
            return Response(status_code=self.status)
        return Response(encode(found), self.status, self.headers, media_type="application/json")


def page_of(asked: ListQuery, prefix: str | None = None) -> Page:
    """Return the page to read from the store.

    The page has one row more than requested. That row shows whether another page follows; see `listing`.

    If rows are sorted by id, `prefix` is the prefix of these ids. An iterator without this prefix is refused.
    """
    backwards = asked.iterator is not None and asked.iterator.startswith("-")
    iterator = asked.iterator.removeprefix("-") if asked.iterator else None
    if iterator is not None and not _is_key(iterator, prefix):
        raise InvalidInput(f"{iterator[:40]!r} does not belong to this listing", field="iterator")
    descending = isinstance(asked, OrderedQuery) and asked.order == Order.DESCENDING
    return Page(limit=asked.limit + 1, iterator=iterator, backwards=backwards, descending=descending)


def _is_key(iterator: str, prefix: str | None) -> bool:
    if prefix is None:
        return iterator != ""
    return iterator.startswith(prefix) and ids.minted_at(iterator) is not None


def listing(
    found: Walk[T] | list[T], page: Page, shown: Callable[[T], S], key: Callable[[T], Any] = attrgetter("id")
) -> ListResponse[S]:
    """Return one page of a listing. The rows have the same order whether the client pages forwards or backwards.

    `found` has one row more than the page shows, if another page follows.

    `shown` makes the JSON shape of a row, and `key` the iterator that points to it. If the store stopped a long search
    early, the iterator points to the place where the search stopped.
    """
    rows, end = (found.rows, found.end) if isinstance(found, Walk) else (found, None)
    limit = page.limit - 1
    done = len(rows) <= limit and end is None
    rows = rows[-limit:] if page.backwards else rows[:limit]
    first, last = (str(key(rows[0])), str(key(rows[-1]))) if rows else (end, end or page.iterator)
    if end is not None:
        first, last = (end, last) if page.backwards else (first, end)
    return ListResponse(
        data=[shown(row) for row in rows],
        done=done,
        iterator=last,
        prev_iterator=None if first is None else f"-{first}",
    )
