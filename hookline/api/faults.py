"""What msgspec and our own checks say of a request, in words for its sender: where the fault is, and what to give instead."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Struct, inspect

INSTANT = "give an instant with its offset, such as 2026-01-31T12:00:00Z"
NAME = r"^[a-zA-Z0-9\-_.]+$"  # of most of what callers name

_AT = re.compile(r" - at `\$(?P<path>.*)`$")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_MISSING = re.compile(r"^Object missing required field `(?P<name>.*)`$")
_NO_CHOICE = re.compile(r"^Invalid enum value (?P<value>.*)$", re.DOTALL)
_NO_INSTANT = re.compile(r"^(Invalid RFC3339|Expected `datetime` with a timezone|Expected `datetime( \| null)?`)")
_OWN = re.compile(r"^(?P<path>[A-Za-z]\w*(\.\w+)*): (?P<words>.*)$", re.DOTALL)


class Fault(Struct, frozen=True):
    loc: tuple[str, ...]  # the steps to it, such as `policy`, `cap`
    words: str


def of_shape(error: Exception, shape: Any = None) -> Fault:
    """Of msgspec. Where `shape` is known, an enumeration's choices are told."""
    text = str(error)
    found = _AT.search(text)
    loc, text = ((), text) if found is None else (_steps(found["path"]), text[: found.start()])
    if missing := _MISSING.match(text):
        return Fault((*loc, missing["name"]), "is required")
    if wrong := _NO_CHOICE.match(text):
        choices = [] if shape is None else _choices(inspect.type_info(shape), list(loc))
        return Fault(loc, f"{wrong['value']} is none of {', '.join(choices)}" if choices else text)
    if _NO_INSTANT.match(text):
        return Fault(loc, INSTANT)
    return Fault(loc, text.replace(f"matching regex {NAME!r}", "of the characters a-z A-Z 0-9 - _ ."))


def of_check(error: Exception, *, in_body: bool) -> Fault:
    """Of our own checks, which begin with the field: `deliver_at: more than 30 days ahead`. It stays, as callers spell it."""
    found = _OWN.match(str(error))
    if found is None:
        return Fault((), str(error))
    steps = tuple(_camel(step) if in_body else step for step in found["path"].split("."))
    return Fault(steps, f"{'.'.join(steps)}: {found['words']}")


class Unfit(msgspec.ValidationError):
    """A body of another shape than the operation's, with the fault that msgspec found."""

    def __init__(self, error: msgspec.ValidationError, shape: Any) -> None:
        self.fault = of_shape(error, shape)
        super().__init__(": ".join(part for part in (".".join(self.fault.loc), self.fault.words) if part))


def _steps(path: str) -> tuple[str, ...]:
    return tuple(name or index for name, index in _STEP.findall(path))


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(part.capitalize() for part in others)


def _choices(kind: inspect.Type, steps: list[str]) -> list[str]:
    """The values of the enumeration that the steps lead to."""
    match kind:
        case inspect.Metadata():
            return _choices(kind.type, steps)
        case inspect.UnionType():
            return next((found for each in kind.types if (found := _choices(each, steps))), [])
        case inspect.EnumType() if not steps:
            return [str(member.value) for member in kind.cls]
        case inspect.LiteralType() if not steps:
            return [str(value) for value in kind.values]
        case inspect.StructType() if steps:
            fields = (field for field in kind.fields if field.encode_name == steps[0])
            return next((_choices(field.type, steps[1:]) for field in fields), [])
        case inspect.ListType() | inspect.VarTupleType() if steps:
            return _choices(kind.item_type, steps[1:])
    return []
