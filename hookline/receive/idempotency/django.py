"""The idempotency middleware for Django, sync and async.

    MIDDLEWARE = [..., "hookline.receive.idempotency.django.IdempotencyMiddleware"]
    HOOKLINE_IDEMPOTENCY = {"STORE": "shop.keys.store", "REQUIRED": True, "ONLY": ["/webhooks/"]}

The names are those of `IdempotencySettings` in capitals. Objects and functions may be given by their dotted path. For
several sets of settings, make several subclasses, each with `store` and `options`. Under ASGI the middleware needs
ASYNC_STORE.

A verified webhook is `request.hookline_webhook`. Put the middleware after CsrfViewMiddleware and after authentication.
The middleware may send a saved response without calling the view, so CSRF and authentication must be checked before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, cast

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured, RequestDataTooBig
from django.db import connections
from django.http import HttpRequest, HttpResponse, UnreadablePostError
from django.utils.module_loading import import_string

from hookline.errors import InvalidInput
from hookline.outbox.coroutines import run_sync, settled
from hookline.receive.idempotency import problems
from hookline.receive.idempotency.core import CLAIMS, Claim, content_length, examine, is_new, needs_body, plan
from hookline.receive.idempotency.hold import AsyncHolder, BaseHolder, Hold, Holder
from hookline.receive.idempotency.keys import AsyncKeyStore, KeyStore, StoredResponse
from hookline.receive.idempotency.problems import Answered
from hookline.receive.idempotency.recording import Recording
from hookline.receive.idempotency.settings import IdempotencySettings, IncomingRequest
from hookline.receive.idempotency.wsgi import RecordedBody
from hookline.signing.headers import Headers

__all__ = ["IdempotencyMiddleware"]

_OBJECTS = frozenset({"store", "async_store", "verifier", "key", "scope", "url", "keeps"})


class _Pending:
    """A request whose idempotency key is acquired just before its view is called. With a synchronous store, the
    coroutines of this class never wait."""

    hold: Hold | None = None

    def __init__(self, holder: BaseHolder, claim: Claim) -> None:
        self._holder = holder
        self._claim = claim

    async def take(self) -> HttpResponse | None:
        """Take the key. Return None if the view must run, otherwise the response to send instead."""
        try:
            self.hold = await self._holder.take(self._claim)
        except Answered as answered:
            return to_django(answered.response)
        return None

    async def run(self, view: View) -> HttpResponse:
        """Call the view. If `take` gave this request the key, save the response, or release the key after an error."""
        try:
            response = await settled(view(self))
        except BaseException:
            if self.hold is not None:
                await self.hold.release()
            raise
        if self.hold is not None:
            await self._save(self.hold, response)
        return response

    async def _save(self, hold: Hold, response: HttpResponse) -> None:
        recording = _recorded(self._holder.settings, response)
        if response.streaming and not response.is_async and not self._holder.is_async and not recording.is_known:
            _record_stream(recording, hold, response)
            return
        if response.streaming:
            # The stream is sent after this method ends, and stops if the client disconnects, so its body is not saved.
            recording.leave_out_body()
        await hold.settle(recording)


View = Callable[[_Pending | None], Any]


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
            self._holder, self.process_view = AsyncHolder(store, self._settings), self._take
        else:
            self._holder = Holder(store, self._settings)
            self.process_view = lambda request, *_: run_sync(self._take(request))

    def _configured(self) -> tuple[IdempotencySettings, Any]:
        given: dict[str, Any] = {}
        if self.store is None and self.async_store is None:
            given = _read_settings(getattr(django_settings, "HOOKLINE_IDEMPOTENCY", None))
        stores = {"STORE": given.pop("store", self.store), "ASYNC_STORE": given.pop("async_store", self.async_store)}
        needed = "ASYNC_STORE" if self._is_async else "STORE"
        if stores[needed] is None:
            raise ImproperlyConfigured(
                f"the idempotency middleware needs {needed} here, which is not given: "
                "STORE is for WSGI and beside sync middleware, ASYNC_STORE (such as AsyncSqliteKeys) for ASGI"
            )
        try:
            return self.options or IdempotencySettings(**given), stores[needed]
        except (InvalidInput, TypeError) as fault:
            raise ImproperlyConfigured(f"HOOKLINE_IDEMPOTENCY: {fault}") from None

    def __call__(self, request: HttpRequest) -> Any:
        response = guarded(self._holder, request, lambda pending: self._respond(request, pending))
        return response if self._is_async else run_sync(response)

    def _respond(self, request: HttpRequest, pending: _Pending | None) -> Any:
        setattr(request, self._mark, pending)
        return self.get_response(request)

    async def _take(self, request: HttpRequest, *_: Any) -> HttpResponse | None:
        pending: _Pending | None = getattr(request, self._mark, None)
        return None if pending is None else await pending.take()


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
    """Return the claim of a request, or None if its view runs without a key. Raise `Answered` to refuse it."""
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
    method, path, below = request.method or "", request.path, request.path_info
    return IncomingRequest(method, path, query, headers, url, request, body, below=below)


def _body(request: HttpRequest, headers: Headers, limit: int) -> bytes:
    length = content_length(headers)
    try:
        if length is None and not hasattr(request, "_body"):
            request._body = request.read(limit + 1)  # a chunked body: `request.body` has no limit for it
        body = cast("bytes", request.body)
    except RequestDataTooBig:
        raise Answered(problems.body_too_large(limit)) from None
    except UnreadablePostError:
        raise Answered(problems.BODY_INCOMPLETE) from None
    if len(body) > limit:
        raise Answered(problems.body_too_large(limit))
    if length is not None and len(body) < length:
        raise Answered(problems.BODY_INCOMPLETE)
    return body


# ── one view ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def guarded(holder: BaseHolder, request: HttpRequest, view: View) -> HttpResponse:
    """Call `view` if the request passes the checks of `admit`. Otherwise return the error response of `admit`.

    The argument of `view` is a `_Pending` object, which takes the request's key later. It is None if the request has
    no key.
    """
    try:
        claim = admit(holder.settings, request)
    except Answered as answered:
        return to_django(answered.response)
    if claim is None:
        return await settled(view(None))
    pending = _Pending(holder, claim)
    # Under ASGI, Django cancels a request when its client goes away. The view must run to its end even then.
    if isinstance(holder, AsyncHolder):
        return await holder.outlive(lambda: pending.run(view), lambda: False)
    return await pending.run(view)


def once(holder: Holder, request: HttpRequest, view: Callable[[], HttpResponse]) -> HttpResponse:
    _check_not_atomic()
    return run_sync(once_async(holder, request, view))


async def once_async(holder: BaseHolder, request: HttpRequest, view: Callable[[], Any]) -> HttpResponse:
    async def respond(pending: _Pending | None) -> HttpResponse:
        if pending is None:
            return await settled(view())
        response = await pending.take()
        return _rendered(await settled(view())) if response is None else response

    return await guarded(holder, request, respond)


def _check_not_atomic() -> None:
    """Refuse ATOMIC_REQUESTS: the response would be saved before the commit, which may still fail."""
    if any(conn.settings_dict["ATOMIC_REQUESTS"] and conn.in_atomic_block for conn in connections.all()):
        advice = "use the middleware, or @transaction.non_atomic_requests around it"
        raise ImproperlyConfigured(f"@idempotent inside ATOMIC_REQUESTS: {advice}")


def _rendered(response: HttpResponse) -> HttpResponse:
    render = getattr(response, "render", None)
    return response if render is None else render()


# ── the response ──────────────────────────────────────────────────────────────────────────────────────────────────


def _record_stream(recording: Recording, hold: Hold, response: HttpResponse) -> None:
    body = RecordedBody(response.streaming_content, recording, hold)
    close = response.close

    def close_after_body() -> None:
        """Close the recorded body before Django closes the stream that the body reads from.

        Closing the body reads the rest of that stream. A stream that is already closed looks like one that has ended,
        so an incomplete response would be saved as complete.
        """
        body.close()
        close()

    response.streaming_content = body
    response.close = close_after_body


def _recorded(settings: IdempotencySettings, response: HttpResponse) -> Recording:
    recording = Recording(settings)
    headers = [*response.items(), *(("set-cookie", cookie.OutputString()) for cookie in response.cookies.values())]
    recording.start(response.status_code, headers)
    if not response.streaming:
        recording.feed(response.content)
    return recording


def to_django(response: StoredResponse) -> HttpResponse:
    made = HttpResponse(response.body, status=response.status)
    del made.headers["content-type"]
    for name, value in response.text_headers():
        if name == "set-cookie":
            made.cookies.load(value)
        else:
            made.headers[name] = value
    return made
