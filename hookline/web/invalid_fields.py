"""Turns errors of msgspec and of Hookline's own checks into messages for the caller: which field is wrong, and what is
expected."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from msgspec import inspect

from hookline.errors import AboutField, InvalidInput

INSTANT = "give an instant with its offset, such as 2026-01-31T12:00:00Z"
UNSUPPORTED = "is not supported here: leave it out"
NAME = r"^[a-zA-Z0-9\-_.]+$"  # the pattern of most names that callers choose

_AT = re.compile(r" - at `\$(?P<path>.*)`$")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_MISSING = re.compile(r"^Object missing required field `(?P<name>.*)`$")
_UNKNOWN = re.compile(r"^Object contains unknown field `(?P<name>.*)`$", re.DOTALL)
# The error for a field that is declared as `None`. The API does not support such a field. It is declared only so that
# the response can say so.
_NOTHING = re.compile(r"^Expected `null`")
_NO_CHOICE = re.compile(r"^Invalid enum value (?P<value>.*)$", re.DOTALL)
_NO_INSTANT = re.compile(r"^(Invalid RFC3339|Expected `datetime` with a timezone|Expected `datetime( \| null)?`)")
# Matches the path of a field in the request. An `AboutField.field` that does not match is a description, not a path.
_PATH = re.compile(r"[A-Za-z]\w*(\.\w+)*")

MAX_NAME = 64  # an error message shows at most this many characters of an unknown name; longer names get no suggestion

_info = lru_cache(maxsize=256)(inspect.type_info)  # cached, because one batch may have a thousand errors


class InvalidField(InvalidInput):
    """A field of the body, a parameter of the query string, or a header has an invalid value."""

    def __init__(self, loc: tuple[str, ...], words: str, within: str = "body") -> None:
        """`loc` is the path of the field: `("policy", "cap")` is `cap` in `policy`. `words` says what is wrong.
        `within` is `body`, `query` or `header`."""
        super().__init__(words, field=".".join(loc))
        self.loc = loc
        self.within = within


def of_shape(error: Exception, shape: Any = None, within: str = "body") -> InvalidField:
    """Convert a msgspec error to an `InvalidField`.

    With `shape`, the text lists the allowed values of an enumeration.
    """
    loc, words = _described(error, shape)
    return InvalidField(loc, words, within)


def _described(error: Exception, shape: Any) -> tuple[tuple[str, ...], str]:
    text = str(error)
    found = _AT.search(text)
    loc, text = ((), text) if found is None else (_steps(found["path"]), text[: found.start()])
    if unknown := _UNKNOWN.match(text):
        return _unknown_field(loc, unknown["name"], shape)
    if _NOTHING.match(text):
        return loc, UNSUPPORTED
    if missing := _MISSING.match(text):
        return (*loc, missing["name"]), "is required"
    if wrong := _NO_CHOICE.match(text):
        choices = [] if shape is None else _choices(shape, loc)
        if len(choices) == 1:  # the API declares unsupported features as enumerations of one value
            return loc, UNSUPPORTED
        return loc, f"{wrong['value']} is none of {', '.join(choices)}" if choices else text
    if _NO_INSTANT.match(text):
        return loc, INSTANT
    return loc, text.replace(f"matching regex {NAME!r}", "of the characters a-z A-Z 0-9 - _ .")


def of_check(error: AboutField, within: str) -> InvalidField:
    """Convert an error of Hookline's own checks to an `InvalidField`, with the field name that the request uses."""
    field = error.field.replace(" ", "_")
    if not _PATH.fullmatch(field):
        return InvalidField((), str(error), within)
    steps = tuple(_camel(step) if within == "body" else step for step in field.split("."))
    return InvalidField(steps, f"{'.'.join(steps)}: {error.words}", within)


def unknown(name: str, known: Sequence[str], what: str) -> str:
    """Return the message for an unknown field or parameter, with a suggestion if a known name is similar."""
    near = nearest(name, known)
    return f"unknown {what}; did you mean {near}?" if near else f"unknown {what}"


def _unknown_field(loc: tuple[str, ...], name: str, shape: Any) -> tuple[tuple[str, ...], str]:
    known = () if shape is None else _field_names(shape, loc)
    words = unknown(name, known, "field")
    if plain(name).startswith("transformation"):
        words = "is not supported: Hookline does not transform payloads"
    return (*loc, shortened(name)), words


def shortened(name: str) -> str:
    return name if len(name) <= MAX_NAME else f"{name[:MAX_NAME]}…"


def nearest(name: str, known: Sequence[str]) -> str | None:
    """Return the known name that is most similar to `name`; None if no name is similar.

    For example, `event_types` gives `eventTypes`, and `filter` gives `filterTypes`.
    """
    if not name or len(name) > MAX_NAME:  # the time to compare grows with the square of the length
        return None
    spelt = {plain(each): each for each in reversed(known)}
    longer = sorted((each for each in spelt if each.startswith(plain(name))), key=len)
    found = longer or difflib.get_close_matches(plain(name), spelt, n=1)
    return spelt[found[0]] if found and plain(name) else None


def plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _steps(path: str) -> tuple[str, ...]:
    return tuple(name or index for name, index in _STEP.findall(path))


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(part.capitalize() for part in others)


def _field_names(shape: Any, steps: tuple[str, ...]) -> tuple[str, ...]:
    """Return the field names of the object at this path."""
    for kind in _types_at(_info(shape), steps):
        if isinstance(kind, inspect.StructType):
            return tuple(field.encode_name for field in kind.fields)
    return ()


def _choices(shape: Any, steps: tuple[str, ...]) -> list[str]:
    """Return the values of the enumeration at this path."""
    for kind in _types_at(_info(shape), steps):
        if isinstance(kind, inspect.EnumType):
            return [str(member.value) for member in kind.cls]
        if isinstance(kind, inspect.LiteralType):
            return [str(value) for value in kind.values]
    return []


def _types_at(kind: inspect.Type, steps: tuple[str, ...]) -> Iterator[inspect.Type]:
    """Yield the types that the value at this path may have."""
    match kind:
        case inspect.Metadata():
            yield from _types_at(kind.type, steps)
        case inspect.UnionType():
            for each in kind.types:
                yield from _types_at(each, steps)
        case _ if not steps:
            yield kind
        case inspect.StructType():
            for field in kind.fields:
                if field.encode_name == steps[0]:
                    yield from _types_at(field.type, steps[1:])
        case inspect.ListType() | inspect.VarTupleType():
            yield from _types_at(kind.item_type, steps[1:])
