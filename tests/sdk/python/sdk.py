"""The SDK under test, of either generation: its names, its methods, and a record of the methods that were called."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import svix
from svix import api
from svix.exceptions import HttpError, HTTPValidationError

VERSION: str = svix.__version__
_REQUEST = re.compile(r'method="(\w+)",\s*path="([^"]+)"')


def first(owner: Any, *names: str) -> Any:
    """Return the attribute of `owner` with the first of `names` that this generation of the SDK has."""
    return getattr(owner, next(name for name in names if hasattr(owner, name)))


EndpointUpsert = first(api, "EndpointUpsertIn", "EndpointUpdate")
EventTypeUpsert = first(api, "EventTypeUpsertIn", "EventTypeUpdate")
OperationalUpsert = first(api, "OperationalWebhookEndpointUpsertIn", "OperationalWebhookEndpointUpdate")
FILTER = "event_types" if "event_types" in api.EndpointIn.model_fields else "filter_types"


class Client:
    """The SDK's own client, or one of its resources. It records the name of each method that is called."""

    def __init__(self, target: Any, called: set[str], name: str = "") -> None:
        self._target, self._called, self._name = target, called, name

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        path = f"{self._name}.{name}" if self._name else name
        if inspect.ismethod(found):
            return self._noting(found, path)
        return Client(found, self._called, path)

    def _noting(self, method: Callable[..., Any], path: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            self._called.add(path)
            return method(*arguments, **named)

        return call


def methods(kind: type = api.Svix, prefix: str = "", seen: set[object] | None = None) -> Iterator[tuple[str, str, str]]:
    """Return each method of the SDK that makes a request: its name, and the request's method and path."""
    seen = set() if seen is None else seen
    for name, found in vars(kind).items():
        if isinstance(found, property):
            yield from methods(_returned(found), f"{prefix}{name}.", seen)
        elif inspect.isfunction(found) and not name.startswith("_") and found not in seen:
            seen.add(found)
            request = _REQUEST.search(inspect.getsource(found))
            assert request, f"svix {VERSION}: {prefix}{name} is written in a way that is new to this test"
            yield prefix + name, request[1].upper(), request[2]


def _returned(resource: property) -> type:
    assert resource.fget
    annotation = inspect.signature(resource.fget).return_annotation
    found: type = resource.fget.__globals__[annotation] if isinstance(annotation, str) else annotation
    return found


def refused(status: int, code: str, call: Callable[..., Any], *arguments: Any) -> None:
    """Check that the call fails with an error in Svix's format, as the SDK raises it."""
    error = raised(HttpError, call, *arguments)
    assert (error.status_code, error.code) == (status, code)
    assert error.detail


def invalid(call: Callable[..., Any], *arguments: Any) -> None:
    """Check that the call fails with a 422 that names the wrong field, as the SDK raises it."""
    error = raised(HTTPValidationError, call, *arguments)
    assert error.status_code == 422
    assert error.detail
    for fault in error.detail:
        assert fault.loc
        assert fault.msg
        assert fault.type


def raised(kind: Any, call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        answer = call(*arguments)
    except kind as error:
        return error
    raise AssertionError(f"it was to be refused, and answered {answer!r}")
