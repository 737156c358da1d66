"""Base classes and types of the JSON shapes.

An object that callers can change has three shapes, each derived from the one before it: `...Patch` requires nothing,
`...Update` has the defaults and required fields of a replacement, and `...In` those of a new object.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct
from msgspec.structs import asdict

from hookline.model import PolicyOverride, Strategy

T = TypeVar("T")
S = TypeVar("S", bound=Struct)

Instant = Annotated[datetime, Meta(tz=True)]  # an instant without an offset is refused


def doc(description: str | None = None, **schema: object) -> Meta:
    """Return a description, and limits that only the OpenAPI document shows.

    The service checks them, so that all front ends give one error.
    """
    return Meta(description=description, extra_json_schema=schema or None)


NAMED = doc(minLength=1, maxLength=256, pattern=r"^[a-zA-Z0-9\-_.]+$")  # names that callers choose

encode = msgspec.json.Encoder().encode


_SECRET = frozenset({"secret", "key", "token", "headers"})  # headers may be credentials for the receiver


class Shape(Struct, frozen=True, kw_only=True, rename="camel"):
    def __repr__(self) -> str:
        """Leave out secrets, because logs and tracebacks show this text."""
        fields = ((name, getattr(self, name)) for name in self.__struct_fields__)
        shown = (f"{name}={_hidden(value) if name in _SECRET else repr(value)}" for name, value in fields)
        return f"{type(self).__name__}({', '.join(shown)})"


def _hidden(value: object) -> str:
    if isinstance(value, dict):
        return repr(dict.fromkeys(value, "…"))
    return repr(None if value is None else "…")


class In(Shape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A body. Unknown fields are refused: a misspelt filter would deliver everything."""


# A field that Svix's SDKs can send and that has no effect here. Null is accepted, any other value is refused.
Unsupported = Annotated[None, doc("Not supported: leave it out.")]


class Out(Shape, frozen=True, kw_only=True):
    pass


def fill(shape: type[S], *found: object, **others: Any) -> S:
    """Fill a shape with the attributes of `found` that have the names of its fields.

    `others` are the remaining fields.

    Of several objects, the first that has the attribute counts.
    """
    same: dict[str, Any] = {}
    for each in reversed(found):
        same |= {name: getattr(each, name) for name in shape.__struct_fields__ if hasattr(each, name)}
    return shape(**same | others)


class ListResponse(Out, Generic[T], frozen=True, kw_only=True):
    data: list[T]
    done: bool
    iterator: str | None = None
    prev_iterator: str | None = None


class Policy(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, rename="camel"):
    """Overrides parts of the retry policy. Unknown fields are refused: a misspelt field would change nothing."""

    strategy: Strategy | None = None
    base: float | None = None
    factor: float | None = None
    cap: float | None = None
    max_attempts: int | None = None
    max_age: float | None = None
    schedule: tuple[float, ...] | None = None
    retry_after_cap: float | None = None

    def override(self) -> PolicyOverride:
        return PolicyOverride(**asdict(self))


def policy(found: PolicyOverride | None) -> Policy | None:
    return None if found is None else Policy(**asdict(found))


# The names that older SDKs have for some fields.
_OLDER = {"event_types": "filter_types", "throttle_rate": "rate_limit"}


def values(given: In, shape: type[Struct]) -> dict[str, Any]:
    """Return the values that a request has for the fields of `shape`."""
    found = {}
    for name in shape.__struct_fields__:
        value, older = getattr(given, name, UNSET), getattr(given, _OLDER.get(name, name), UNSET)
        if (value is None or value is UNSET) and older is not UNSET:
            value = older
        if value is not UNSET:
            found[name] = value.override() if isinstance(value, Policy) else value
    return found
