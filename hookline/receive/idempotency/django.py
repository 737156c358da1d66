"""For Django, sync and async.

    MIDDLEWARE = [..., "hookline.receive.idempotency.django.IdempotencyMiddleware"]
    HOOKLINE_IDEMPOTENCY = {"STORE": "shop.keys.store", "REQUIRED": True, "ONLY": ["/webhooks/"]}

The names are those of `IdempotencySettings` in capitals; objects and functions may be given by their dotted path. Several sets
of settings are several subclasses, each with `store` and `options`. Where Django runs the middleware async, it needs ASYNC_STORE.

A verified webhook is `request.hookline_webhook`. Put it after CsrfViewMiddleware and whatever signs users in: a kept answer is
given where the view would have been called, so that those have had their say.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar, cast

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured, RequestDataTooBig
from django.db import connections
from django.http import HttpRequest, HttpResponse, UnreadablePostError
from django.utils.module_loading import import_string

from hookline.errors import InvalidInput
from hookline.receive.idempotency import problems
from hookline.receive.idempotency.core import CLAIMS, Claim, announced, examine, is_new, needs_body, plan
from hookline.receive.idempotency.hold import Hold, Holder
from hookline.receive.idempotency.hold_async import AsyncHold, AsyncHolder
from hookline.receive.idempotency.keys import AsyncKeyStore, KeyStore, StoredResponse
from hookline.receive.idempotency.problems import Answered
from hookline.receive.idempotency.recording import Recording
from hookline.receive.idempotency.settings import IdempotencySettings, IncomingRequest
from hookline.receive.idempotency.wsgi import RecordedBody
from hookline.signing.headers import Headers

__all__ = ["IdempotencyMiddleware"]

_OBJECTS = frozenset({"store", "async_store", "verifier", "key", "scope", "url", "keeps"})


class _Pending:
    """A request on its way to its view, where its key is taken."""

    hold: Hold | AsyncHold | None = None

    def __init__(self, claim: Claim) -> None:
        self.claim = claim


class IdempotencyMiddleware:
    sync_capable = True
    async_capable = True

    store: ClassVar[KeyStore | None] = None
    async_store: ClassVar[AsyncKeyStore | None] = None
    options: ClassVar[IdempotencySettings | None] = None

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self.get_response = get_response
        self._is_async = iscoroutinefunction(get_response)
        self._settings, store = self._configured()
        self._mark = f"_hookline_{id(self)}"
        self._holder: Any
        self.process_view: Callable[..., Any]
        if self._is_async:
            markcoroutinefunction(self)
            self._holder, self.process_view = AsyncHolder(store, self._settings), self._take_async
        else:
            self._holder, self.process_view = Holder(store, self._settings), self._take

    def _configured(self) -> tuple[IdempotencySettings, Any]:
        given: dict[str, Any] = {}
        if self.store is None and self.async_store is None:
            given = _read_settings(getattr(django_settings, "HOOKLINE_IDEMPOTENCY", None))
        stores = {"STORE": given.pop("store", self.store), "ASYNC_STORE": given.pop("async_store", self.async_store)}
        needed = "ASYNC_STORE" if self._is_async else "STORE"
        if stores[needed] is None:
            raise ImproperlyConfigured(
                f"the idempotency middleware runs here with {needed}, which is not given: "
                "STORE is for WSGI and beside sync middleware, ASYNC_STORE (such as AsyncSqliteKeys) for ASGI"
            )
        try:
            return self.options or IdempotencySettings(**given), stores[needed]
        except (InvalidInput, TypeError) as fault:
            raise ImproperlyConfigured(f"HOOKLINE_IDEMPOTENCY: {fault}") from None

    # ── sync ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def __call__(self, request: HttpRequest) -> Any:
        if self._is_async:
            return self._call_async(request)
        try:
            claim = admit(self._settings, request)
        except Answered as answered:
            return to_django(answered.response)
        if claim is None:
            return self.get_response(request)
        pending = _Pending(claim)
        setattr(request, self._mark, pending)
        try:
            response = self.get_response(request)
        except BaseException:
            if pending.hold is not None:
                cast("Hold", pending.hold).release()
            raise
        return response if pending.hold is None else keep(self._settings, cast("Hold", pending.hold), response)

    def _take(self, request: HttpRequest, *_: Any) -> HttpResponse | None:
        pending = getattr(request, self._mark, None)
        if pending is None:
            return None
        try:
            pending.hold = self._holder.take(pending.claim)
        except Answered as answered:
            return to_django(answered.response)
        return None

    # ── async ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _call_async(self, request: HttpRequest) -> HttpResponse:
        try:
            claim = admit(self._settings, request)
        except Answered as answered:
            return to_django(answered.response)
        if claim is None:
            return await self.get_response(request)
        pending = _Pending(claim)
        setattr(request, self._mark, pending)
        return await outlive(self._holder, lambda: self.get_response(request), lambda: pending.hold)

    async def _take_async(self, request: HttpRequest, *_: Any) -> HttpResponse | None:
        pending = getattr(request, self._mark, None)
        if pending is None:
            return None
        try:
            pending.hold = await self._holder.take(pending.claim)
        except Answered as answered:
            return to_django(answered.response)
        return None


def _read_settings(given: object) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise ImproperlyConfigured("the idempotency middleware needs HOOKLINE_IDEMPOTENCY, a dict with a STORE")
    found = {str(name).lower(): value for name, value in given.items()}
    return {
        name: import_string(value) if name in _OBJECTS and isinstance(value, str) else value
        for name, value in found.items()
    }


# ── the request ───────────────────────────────────────────────────────────────────────────────────────────────────


def admit(settings: IdempotencySettings, request: HttpRequest) -> Claim | None:
    """What its key stands for; None: it is the view's alone. Raises `Answered`."""
    chosen = plan(settings, request.method or "", request.path, request.path_info)
    if not chosen:
        return None
    headers = Headers(request.headers)
    if not needs_body(settings, chosen, headers):
        return None
    examined, claim = examine(settings, chosen, incoming(settings, request, headers))
    if examined.webhook is not None:
        request.hookline_webhook = examined.webhook
    return claim if claim is not None and is_new(claim, vars(request).setdefault(CLAIMS, set())) else None


def incoming(settings: IdempotencySettings, request: HttpRequest, headers: Headers) -> IncomingRequest:
    body = _body(request, headers, settings.max_body)
    url = f"{request.scheme}://{headers.get('host', '')}{request.get_full_path()}"
    query = request.META.get("QUERY_STRING", "").encode("utf-8", "surrogatepass")
    return IncomingRequest(
        request.method or "", request.path, query, headers, url, request, body, below=request.path_info
    )


def _body(request: HttpRequest, headers: Headers, limit: int) -> bytes:
    length = announced(headers)
    try:
        if length is None and not hasattr(request, "_body"):
            request._body = request.read(limit + 1)  # chunked: `request.body` would have no bound
        body = cast("bytes", request.body)
    except RequestDataTooBig:
        raise Answered(problems.body_too_large(limit)) from None
    except UnreadablePostError:
        raise Answered(problems.body_incomplete()) from None
    if len(body) > limit:
        raise Answered(problems.body_too_large(limit))
    if length is not None and len(body) < length:
        raise Answered(problems.body_incomplete())
    return body


# ── one view ──────────────────────────────────────────────────────────────────────────────────────────────────────


def once(holder: Holder, request: HttpRequest, view: Callable[[], HttpResponse]) -> HttpResponse:
    _check_not_atomic()
    try:
        claim = admit(holder.settings, request)
        hold = None if claim is None else holder.take(claim)
    except Answered as answered:
        return to_django(answered.response)
    if hold is None:
        return view()
    try:
        return keep(holder.settings, hold, _rendered(view()))
    except BaseException:
        hold.release()
        raise


async def once_async(
    holder: AsyncHolder, request: HttpRequest, view: Callable[[], Awaitable[HttpResponse]]
) -> HttpResponse:
    try:
        claim = admit(holder.settings, request)
    except Answered as answered:
        return to_django(answered.response)
    if claim is None:
        return await view()
    pending = _Pending(claim)

    async def taken() -> HttpResponse:
        try:
            pending.hold = await holder.take(claim)
        except Answered as answered:
            return to_django(answered.response)
        return _rendered(await view())

    return await outlive(holder, taken, lambda: pending.hold)


def _check_not_atomic() -> None:
    """The answer would be kept before the transaction around the view commits, and be wrong if it does not."""
    if any(conn.settings_dict["ATOMIC_REQUESTS"] and conn.in_atomic_block for conn in connections.all()):
        raise ImproperlyConfigured(
            "@idempotent inside ATOMIC_REQUESTS: use the middleware, or @transaction.non_atomic_requests around it"
        )


def _rendered(response: HttpResponse) -> HttpResponse:
    render = getattr(response, "render", None)
    return response if render is None else render()


# ── the response ──────────────────────────────────────────────────────────────────────────────────────────────────


def keep(settings: IdempotencySettings, hold: Hold, response: HttpResponse) -> HttpResponse:
    recording = _recorded(settings, response)
    if response.streaming and not response.is_async and not recording.is_known:
        _record_stream(recording, hold, response)
    else:
        hold.settle(_without_stream(recording, response))
    return response


def _record_stream(recording: Recording, hold: Hold, response: HttpResponse) -> None:
    body = RecordedBody(response.streaming_content, recording, hold)
    close = response.close

    def close_after_body() -> None:
        """By itself Django closes the source first: what came of it so far would be the whole."""
        body.close()
        close()

    response.streaming_content = body
    response.close = close_after_body


async def outlive(
    holder: AsyncHolder, view: Callable[[], Awaitable[HttpResponse]], held: Callable[[], Any]
) -> HttpResponse:
    """Under ASGI Django cancels a request whose client went away: the view, which may be in a thread, goes on."""

    async def work() -> HttpResponse:
        try:
            response = await view()
        except BaseException:
            if (hold := held()) is not None:
                await hold.release()
            raise
        if (hold := held()) is not None:
            await hold.settle(_without_stream(_recorded(holder.settings, response), response))
        return response

    return await holder.outlive(work, lambda: False)


def _recorded(settings: IdempotencySettings, response: HttpResponse) -> Recording:
    recording = Recording(settings)
    headers = [*response.items(), *(("set-cookie", cookie.OutputString()) for cookie in response.cookies.values())]
    recording.start(
        response.status_code, [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    )
    if not response.streaming:
        recording.feed(response.content)
    return recording


def _without_stream(recording: Recording, response: HttpResponse) -> Recording:
    """Async, its chunks come after the middleware, and stop coming when the client is gone."""
    if response.streaming:
        recording.leave_out_body()
    return recording


def to_django(response: StoredResponse) -> HttpResponse:
    pairs = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers]
    made = HttpResponse(response.body, status=response.status)
    del made.headers["content-type"]
    for name, value in pairs:
        if name == "set-cookie":
            made.cookies.load(value)
        else:
            made.headers[name] = value
    return made
