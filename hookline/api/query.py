"""Decodes query parameters into the types of a `Query`. A list is given by repeating the parameter or by commas."""

from __future__ import annotations

import functools
import re
from collections.abc import Hashable
from datetime import datetime
from typing import Any, NamedTuple, TypeVar, cast, get_args, get_origin, get_type_hints

import msgspec
from starlette.datastructures import QueryParams

from hookline.web import invalid_fields
from hookline.web.errors import Refused
from hookline.web.invalid_fields import InvalidField

T = TypeVar("T")

NONE = QueryParams()

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# Matches the text of a msgspec error for a value of the right type that is too large, too small, too long or too short,
# or does not match a pattern.
_BOUND = re.compile(r"^Expected .*(<=|>=|length|matching)")
_DATE = re.compile(r"\d{4}-")  # a time must start like this, because msgspec would also accept seconds since 1970


class _Field(NamedTuple):
    name: str
    listed: bool
    instant: bool


def decode(params: QueryParams, shape: type[T]) -> T:
    """Decode the parameters.

    As in Svix's server, a value of the wrong type gets a 400. A value of the right type that breaks a limit (of size,
    length or pattern) gets a 422.
    """
    given = {
        field.name: _read(field, values)
        for field in _fields(cast(Hashable, shape))
        if (values := params.getlist(field.name))
    }
    try:
        found = msgspec.convert(given, shape, strict=False)
    except msgspec.ValidationError as error:
        invalid = invalid_fields.of_shape(error, shape, "query")
        if _BOUND.search(str(error)):
            raise invalid from None
        raise _unreadable(invalid.field, invalid.words) from None
    for name in given:
        # msgspec reads the text `null` as None. Without this check, the filter would be ignored.
        if getattr(found, name) is None:
            raise _unreadable(name, "null is not a value; leave it out")
    return found


def check_names(params: QueryParams, shape: type[Any] | None) -> None:
    """Refuse unknown parameters. If a misspelt filter were ignored, the operation would apply to too many rows."""
    known = () if shape is None else tuple(field.name for field in _fields(cast(Hashable, shape)))
    for name in params:
        if name not in known:
            words = invalid_fields.unknown(name, known, "parameter")
            if not known:
                words = f"{words}; this operation has no parameters"
            raise InvalidField((invalid_fields.shortened(name),), words, "query")


@functools.cache
def _fields(shape: Any) -> tuple[_Field, ...]:
    return tuple(_field(name, hint) for name, hint in get_type_hints(shape).items() if not name.startswith("__"))


def _field(name: str, hint: Any) -> _Field:
    parts = (hint, *get_args(hint))
    return _Field(
        name=name,
        listed=any(get_origin(part) in (list, tuple, set, frozenset) for part in parts),
        instant=datetime in parts,
    )


def _read(field: _Field, values: list[str]) -> str | list[str]:
    for value in values:
        without_controls(field.name, value)
        if field.instant and not _DATE.match(value):
            raise _unreadable(field.name, invalid_fields.INSTANT)
    return [part for value in values for part in value.split(",") if part] if field.listed else values[-1]


def _unreadable(name: str, words: str) -> Refused:
    hint = "; write a + as %2B" if words == invalid_fields.INSTANT else ""
    return Refused(400, f"the query string: {name}: {words}{hint}")


def without_controls(name: str, value: str) -> str:
    """Refuse control characters. PostgreSQL fails on NUL, and responses and logs repeat the value."""
    if _CONTROL.search(value):
        raise Refused(400, f"{name} has a control character")
    return value
