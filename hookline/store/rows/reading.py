"""How the values of each engine are converted to Python values."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, Protocol, TypeVar, get_args, get_origin

import msgspec
from msgspec import Struct
from msgspec.structs import fields

from hookline.model.policy import PolicyOverride
from hookline.store.rows.documents import read_policy

T = TypeVar("T")
S = TypeVar("S", bound=Struct)


class Row(Protocol):
    """A database row, as both drivers return it."""

    def __getitem__(self, name: str, /) -> Any: ...


class Reading(Struct, frozen=True):
    """Converts the column values of one database engine to Python values. NULL becomes None."""

    instant: Callable[[Any], datetime]
    texts: Callable[[Any], tuple[str, ...]]

    def struct(self, model: type[S], row: Row, **given: Any) -> S:
        """Build a struct from the columns that have the names of its fields. `given` has the values of the other
        fields.

        It is slower than a constructor call, so claim and record do not use it.
        """
        for name, kind in _kinds(model):
            if name not in given:
                given[name] = self._converted(row[name], kind)
        return model(**given)

    def _converted(self, value: Any, kind: Any) -> Any:
        if kind is bool:
            return bool(value)  # NULL is False
        if value is None:
            return None
        if kind is datetime:
            return self.instant(value)
        if kind == tuple[str, ...]:
            return self.texts(value)
        if kind is PolicyOverride:
            return read_policy(value)
        if get_origin(kind) is dict:
            return msgspec.json.decode(value)
        if isinstance(kind, type) and issubclass(kind, Enum):
            return kind(value)
        return value


def maybe(read: Callable[[Any], T], value: Any) -> T | None:
    return None if value is None else read(value)


@cache
def _kinds(model: type[Struct]) -> tuple[tuple[str, Any], ...]:
    """Return the fields of a struct and their types, without `| None`."""
    return tuple((field.name, _required(field.type)) for field in fields(model))


def _required(kind: Any) -> Any:
    if not isinstance(kind, UnionType):
        return kind
    (found,) = [each for each in get_args(kind) if each is not type(None)]
    return found
