"""One handler instead of a whole application.

    @app.post("/webhooks/stripe")  # Flask, with a store that does not await; also a Django view
    @idempotent(keys, IdempotencySettings(verifier=verifier))
    def stripe(): ...

With an async store: endpoints of Starlette, sync and async, and async views of Django. FastAPI turns what a function returns into
a response only after any decorator: there a router's routes are made of another class,

    router = APIRouter(route_class=idempotent_route(keys, settings))

and for Litestar the middleware is given to the route. Where none of these fits, the middleware with `only=("/webhooks/stripe",)`
does. `only` does not count here: whatever reaches the handler is for it. An exception frees the key, also one that the
framework makes a response of.
"""

from __future__ import annotations

import functools
import inspect
import io
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from hookline.errors import InvalidInput
from hookline.receive.idempotency.keys import AsyncKeyStore, KeyStore
from hookline.receive.idempotency.settings import IdempotencySettings

if TYPE_CHECKING:
    from fastapi.routing import APIRoute

__all__ = ["idempotent", "idempotent_route"]

Handler = TypeVar("Handler", bound=Callable[..., Any])

_REQUESTS = {("starlette", "Request"), ("django", "HttpRequest")}


def idempotent(
    store: KeyStore | AsyncKeyStore, settings: IdempotencySettings | None = None
) -> Callable[[Handler], Handler]:
    begin = getattr(store, "begin", None)
    if begin is None:
        raise InvalidInput(
            "write @idempotent(store) or @idempotent(store, settings), with one of hookline.receive.stores"
        )
    chosen = _for_one(settings)
    guard: Any = _AsyncGuard if inspect.iscoroutinefunction(begin) else _Guard

    def decorate(handler: Handler) -> Handler:
        return cast("Handler", guard(handler, store, chosen).wrapped())

    return decorate


def idempotent_route(store: AsyncKeyStore, settings: IdempotencySettings | None = None) -> type[APIRoute]:
    """For FastAPI: the class of a router's routes."""
    from fastapi.routing import APIRoute

    from hookline.receive.idempotency.asgi import IdempotencyMiddleware

    guard = IdempotencyMiddleware(_nobody, store, _for_one(settings))

    class IdempotentRoute(APIRoute):
        async def handle(self, scope: Any, receive: Any, send: Any) -> None:
            await guard.call(super().handle, scope, receive, send)

    return IdempotentRoute


def _for_one(settings: IdempotencySettings | None) -> IdempotencySettings:
    """Whatever reaches a decorated handler is for it: no method and no spelling of its path gets around the verifier."""
    return msgspec.structs.replace(settings or IdempotencySettings(), only=("/",))


def _package(args: tuple[Any, ...]) -> tuple[str, int]:
    """Whose request is among the first two arguments, and where: a method has itself in front."""
    for place, arg in enumerate(args[:2]):
        for kind in type(arg).__mro__:
            package = kind.__module__.partition(".")[0]
            if (package, kind.__name__) in _REQUESTS:
                return package, place
    return "", 0


class _Guard:
    """For a store that does not await: Flask's views, which may, and Django's, which may not."""

    def __init__(self, handler: Callable[..., Any], store: KeyStore, settings: IdempotencySettings) -> None:
        from hookline.receive.idempotency.wsgi import IdempotencyMiddleware

        self._handler = handler
        self._middleware = IdempotencyMiddleware(_nobody, store, settings)

    def wrapped(self) -> Callable[..., Any]:
        @functools.wraps(self._handler)
        def call(*args: Any, **options: Any) -> Any:
            package, place = _package(args)
            if package == "django" and not inspect.iscoroutinefunction(self._handler):
                return self._django(args[place], functools.partial(self._handler, *args, **options))
            if package == "" and _is_in_flask():
                return self._flask(functools.partial(self._handler, *args, **options))
            raise _not_here("a store that does not await is for Flask and for sync views of Django", package)

        return call

    def _flask(self, view: Callable[[], Any]) -> Any:
        import flask

        started: dict[str, Any] = {}

        def start_response(status: str, headers: list[tuple[str, str]], *_: Any) -> Any:
            started.update(status=status, headers=headers)

        def app(environ: dict[str, Any], start_response: Any) -> Any:
            return flask.make_response(flask.current_app.ensure_sync(view)())(environ, start_response)

        rewind(flask.request)
        chunks = self._middleware.call(app, flask.request.environ, start_response)
        return flask.current_app.response_class(chunks, **started)

    def _django(self, request: Any, view: Callable[[], Any]) -> Any:
        from hookline.receive.idempotency.django import once

        return once(self._middleware.holder, request, view)


class _AsyncGuard:
    """For an async store: Starlette's endpoints, sync and async, and Django's async views."""

    def __init__(self, handler: Callable[..., Any], store: AsyncKeyStore, settings: IdempotencySettings) -> None:
        from hookline.receive.idempotency.asgi import IdempotencyMiddleware

        self._handler = handler
        self._middleware = IdempotencyMiddleware(_nobody, store, settings)

    def wrapped(self) -> Callable[..., Any]:
        @functools.wraps(self._handler)
        async def call(*args: Any, **options: Any) -> Any:
            package, place = _package(args)
            if package == "starlette":
                return self._starlette(functools.partial(self._handler, *args[:place]))
            if package == "django" and inspect.iscoroutinefunction(self._handler):
                return await self._django(args[place], functools.partial(self._handler, *args, **options))
            raise _not_here("an async store is for Starlette and for async views of Django", package)

        return call

    def _starlette(self, endpoint: Callable[..., Any]) -> Any:
        from starlette.routing import request_response

        return functools.partial(self._middleware.call, request_response(endpoint))  # a response is an ASGI application

    async def _django(self, request: Any, view: Callable[[], Any]) -> Any:
        from hookline.receive.idempotency.django import once_async

        return await once_async(self._middleware.holder, request, view)


def _nobody(*_: Any) -> Any:
    raise AssertionError("each call brings its own application")


def _is_in_flask() -> bool:
    flask = sys.modules.get("flask")
    return flask is not None and bool(flask.has_request_context())


def rewind(request: Any) -> None:
    """What was read of the body before (a `before_request` that looked at it) is read once more."""
    if "stream" in vars(request):
        request.environ["wsgi.input"] = io.BytesIO(request.get_data(cache=True))


def _not_here(reason: str, package: str) -> InvalidInput:
    found = f"this is {package.capitalize()}" if package else "no request of a framework was found"
    return InvalidInput(f"@idempotent: {reason}; {found}. FastAPI has idempotent_route, and all have the middleware")
