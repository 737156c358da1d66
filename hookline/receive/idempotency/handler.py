"""Idempotency for one handler instead of a whole application.

    @app.post("/webhooks/stripe")  # Flask, with a synchronous store; also a Django view
    @idempotent(keys, IdempotencySettings(verifier=verifier))
    def stripe(): ...

An async store is for endpoints of Starlette, sync and async, and for async views of Django. FastAPI makes the response
after all decorators have run. So a FastAPI router needs another route class:

    router = APIRouter(route_class=idempotent_route(keys, settings))

For Litestar, give the middleware to the route. If none of these fits, use the middleware with
`only=("/webhooks/stripe",)`. In a decorator or a route class, `only` has no effect: every request that reaches the
handler is protected. An exception frees the key, even if the framework turns the exception into a response.
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
        forms = "@idempotent(store) or @idempotent(store, settings)"
        raise InvalidInput(f"write {forms}, with one of hookline.receive.stores")
    chosen = _for_every_path(settings)
    guard: Any = _guarded_async if inspect.iscoroutinefunction(begin) else _guarded

    def decorate(handler: Handler) -> Handler:
        return cast("Handler", guard(handler, store, chosen))

    return decorate


def idempotent_route(store: AsyncKeyStore, settings: IdempotencySettings | None = None) -> type[APIRoute]:
    """Return a route class for a FastAPI router."""
    from fastapi.routing import APIRoute

    from hookline.receive.idempotency.asgi import IdempotencyMiddleware

    guard = IdempotencyMiddleware(_no_app, store, _for_every_path(settings))

    class IdempotentRoute(APIRoute):
        async def handle(self, scope: Any, receive: Any, send: Any) -> None:
            await guard.call(super().handle, scope, receive, send)

    return IdempotentRoute


def _for_every_path(settings: IdempotencySettings | None) -> IdempotencySettings:
    """Return the settings with `only` set to every path, so that the verifier checks each request of the decorated
    handler, whatever its method and the spelling of its path."""
    return msgspec.structs.replace(settings or IdempotencySettings(), only=("/",))


def _package(args: tuple[Any, ...]) -> tuple[str, int]:
    """Return the framework of the request, and the request's index in `args`: 0, or 1 if the handler is a method."""
    for place, arg in enumerate(args[:2]):
        for kind in type(arg).__mro__:
            package = kind.__module__.partition(".")[0]
            if (package, kind.__name__) in _REQUESTS:
                return package, place
    return "", 0


def _guarded(handler: Callable[..., Any], store: KeyStore, settings: IdempotencySettings) -> Callable[..., Any]:
    """Make a handler idempotent with a synchronous store: a view of Flask (sync or async) or a sync Django view."""
    from hookline.receive.idempotency.wsgi import IdempotencyMiddleware

    middleware = IdempotencyMiddleware(_no_app, store, settings)

    @functools.wraps(handler)
    def call(*args: Any, **options: Any) -> Any:
        package, place = _package(args)
        view = functools.partial(handler, *args, **options)
        if package == "django" and not inspect.iscoroutinefunction(handler):
            from hookline.receive.idempotency.django import once

            return once(middleware.holder, args[place], view)
        if package == "" and _is_in_flask():
            return _call_flask(middleware, view)
        raise _refused("a synchronous store is for Flask and for sync views of Django", package)

    return call


def _call_flask(middleware: Any, view: Callable[[], Any]) -> Any:
    import flask

    started: dict[str, Any] = {}

    def start_response(status: str, headers: list[tuple[str, str]], *_: Any) -> Any:
        started.update(status=status, headers=headers)

    def app(environ: dict[str, Any], start_response: Any) -> Any:
        return flask.make_response(flask.current_app.ensure_sync(view)())(environ, start_response)

    rewind(flask.request)
    chunks = middleware.call(app, flask.request.environ, start_response)
    return flask.current_app.response_class(chunks, **started)


def _guarded_async(
    handler: Callable[..., Any], store: AsyncKeyStore, settings: IdempotencySettings
) -> Callable[..., Any]:
    """Make a handler idempotent with an async store: a Starlette endpoint (sync or async) or an async Django view."""
    from hookline.receive.idempotency.asgi import IdempotencyMiddleware

    middleware = IdempotencyMiddleware(_no_app, store, settings)

    @functools.wraps(handler)
    async def call(*args: Any, **options: Any) -> Any:
        package, place = _package(args)
        if package == "starlette":
            from starlette.routing import request_response

            app = request_response(functools.partial(handler, *args[:place]))
            return functools.partial(middleware.call, app)  # Starlette calls a response as an ASGI application
        if package == "django" and inspect.iscoroutinefunction(handler):
            from hookline.receive.idempotency.django import once_async

            return await once_async(middleware.holder, args[place], functools.partial(handler, *args, **options))
        raise _refused("an async store is for Starlette and for async views of Django", package)

    return call


def _no_app(*_: Any) -> Any:
    raise AssertionError("this application is never called")


def _is_in_flask() -> bool:
    flask = sys.modules.get("flask")
    return flask is not None and bool(flask.has_request_context())


def rewind(request: Any) -> None:
    """Let the body of a request be read again if it was read before, such as by a `before_request` function."""
    if "stream" in vars(request):
        request.environ["wsgi.input"] = io.BytesIO(request.get_data(cache=True))


def _refused(reason: str, package: str) -> InvalidInput:
    found = f"this is {package.capitalize()}" if package else "no request of a framework was found"
    return InvalidInput(f"@idempotent: {reason}; {found}. Use idempotent_route for FastAPI, or the middleware")
