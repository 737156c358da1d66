"""Base classes and types of the JSON shapes.

An object that callers can change has three shapes for requests. In `...Patch` no field is required. `...Update`
replaces an object: it has defaults and required fields. `...In` creates an object.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct

from hookline.errors import InvalidInput
from hookline.model.fill import fill
from hookline.model.policy import PolicyOverride, Strategy
from hookline.rules.checks.message import MAX_CHANNEL

T = TypeVar("T")

Instant = Annotated[datetime, Meta(tz=True)]  # a time without a UTC offset is refused


def doc(description: str | None = None, **schema: object) -> Meta:
    """Return a description and limits for the OpenAPI document.

    The limits are not checked here. The services check them, so that the API, the dashboard and the command line give
    the same error.
    """
    return Meta(description=description, extra_json_schema=schema or None)


NAMED = doc(minLength=1, maxLength=256, pattern=r"^[a-zA-Z0-9\-_.]+$")  # limits of names and uids that callers choose
CHANNEL = doc(minLength=1, maxLength=MAX_CHANNEL, pattern=r"^[a-zA-Z0-9\-_.]+$")

encode = msgspec.json.Encoder().encode


_SECRET = frozenset({"secret", "key", "token", "headers"})  # fields that may contain secrets


class Shape(Struct, frozen=True, kw_only=True, rename="camel"):
    def __repr__(self) -> str:
        """Return a text without secrets, because logs and tracebacks show it."""
        fields = ((name, getattr(self, name)) for name in self.__struct_fields__)
        shown = (f"{name}={_hidden(value) if name in _SECRET else repr(value)}" for name, value in fields)
        return f"{type(self).__name__}({', '.join(shown)})"


def _hidden(value: object) -> str:
    if isinstance(value, dict):
        return repr(dict.fromkeys(value, "…"))
    return repr(None if value is None else "…")


class In(Shape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base class of request bodies. Unknown fields are refused, because a misspelt filter would filter nothing."""


# A field of Svix's SDKs that Hookline does not support. Null is accepted, any other value is refused.
Unsupported = Annotated[None, doc("Not supported: leave it out.")]


class Out(Shape, frozen=True, kw_only=True):
    pass


class ListResponse(Out, Generic[T], frozen=True, kw_only=True):
    data: list[T]
    done: bool
    iterator: str | None = None
    prev_iterator: str | None = None


class Policy(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, rename="camel"):
    """Overrides parts of the retry policy. Unknown fields are refused, because they would have no effect."""

    strategy: Strategy | None = None
    base: float | None = None
    factor: float | None = None
    cap: float | None = None
    max_attempts: int | None = None
    max_age: float | None = None
    schedule: tuple[float, ...] | None = None
    retry_after_cap: float | None = None

    def override(self) -> PolicyOverride:
        return fill(PolicyOverride, self)


def policy(found: PolicyOverride | None) -> Policy | None:
    return None if found is None else fill(Policy, found)


# Field → its name in older SDKs.
_OLDER = {"event_types": "filter_types", "throttle_rate": "rate_limit"}


def values(given: In, shape: type[Struct]) -> dict[str, Any]:
    """Return the values of a request for the fields of `shape`. Older SDKs have other names for some fields."""
    found = {}
    for name in shape.__struct_fields__:
        value, older = getattr(given, name, UNSET), getattr(given, _OLDER.get(name, name), UNSET)
        if (value is None or value is UNSET) and older is not UNSET:
            value = older
        if value is not UNSET:
            found[name] = value.override() if isinstance(value, Policy) else value
    return found


def as_sent(error: InvalidInput, given: object) -> InvalidInput:
    """Return the error with the field name that the request used. Requests of older SDKs have older names for some
    fields."""
    older = (_OLDER | {"feature_flags": "feature_flag"}).get(error.field)
    if older is None or _is_set(given, error.field) or not _is_set(given, older):
        return error
    return InvalidInput(error.words, field=older)


def _is_set(given: object, name: str) -> bool:
    return getattr(given, name, None) not in (None, UNSET)
