"""Fill the fields of a struct from objects that have attributes of the same names."""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec import Struct

S = TypeVar("S", bound=Struct)


def fill(shape: type[S], *found: object, **others: Any) -> S:
    """Return a struct. Each of its fields gets the attribute of the same name from an object of `found`.

    If several objects have the attribute, the first object counts. `others` has further values, which take precedence.
    """
    same: dict[str, Any] = {}
    for each in reversed(found):
        same |= {name: getattr(each, name) for name in shape.__struct_fields__ if hasattr(each, name)}
    return shape(**same | others)
