"""What follows the `?`: text, read as the types of a `Query`. Lists may be repeated or separated by commas."""

from __future__ import annotations

import re
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec
from starlette.datastructures import QueryParams

from hookline.api.errors import Refused

T = TypeVar("T")

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_BOUND = re.compile(r"<=|>=|length|matching")  # how msgspec words a value of the right type that is out of bounds


def decode(params: QueryParams, shape: type[T]) -> T:
    """A value of the wrong type is a 400, one out of bounds a 422: as Svix's server has it."""
    given: dict[str, Any] = {}
    for field, listed in _fields(shape):
        values = params.getlist(field)
        if values:
            for value in values:
                without_controls(field, value)
            given[field] = _split(values) if listed else values[-1]
    try:
        return msgspec.convert(given, shape, strict=False)
    except msgspec.ValidationError as error:
        if _BOUND.search(str(error)):
            raise
        raise Refused(400, f"the query string: {error}") from None


def _fields(shape: type) -> list[tuple[str, bool]]:
    return [(name, _is_list(hint)) for name, hint in get_type_hints(shape).items() if not name.startswith("__")]


def _is_list(hint: Any) -> bool:
    return any(getattr(part, "__origin__", part) in (list, tuple) for part in (hint, *get_args(hint)))


def _split(values: list[str]) -> list[str]:
    return [part for value in values for part in value.split(",") if part]


def without_controls(name: str, value: str) -> str:
    """Nothing is named with them, PostgreSQL fails on a NUL, and answers and logs repeat what was asked for."""
    if _CONTROL.search(value):
        raise Refused(400, f"{name} has a control character")
    return value
