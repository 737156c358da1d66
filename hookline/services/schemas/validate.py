"""JSON Schema: check the schemas of an event type when it is saved, and validate payloads with the newest schema.

Nothing is fetched: a reference must stay within its schema. The cost of a schema is limited before it is used. There
are limits for the size of its text, for its patterns, and for the number of its parts (see `Bounds`). The regex engine
takes time in proportion to the text that it matches. When a schema is saved, its weight is limited too: the sum of the
costs of its parts. An earlier release did not limit the weight, so a stored schema may be heavier. These limits are
generous. `schemas/payloads.py` runs a check on the event loop only if a stricter limit allows it. It runs all other
checks in a separate process with a time limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any
from urllib.parse import unquote

import jsonschema_rs
import msgspec
from jsonschema_rs import ReferencingError, RegexOptions, Registry, ValidationError, Validator
from msgspec import Struct

from hookline.errors import InvalidInput
from hookline.model.catalogue import EventType

MAX_FAULTS = 5
MAX_PATTERNS = 100
MAX_PARTS = 10_000
MAX_WEIGHT = 10_000  # maximum weight of a schema when it is saved
MAX_WORK = 200_000_000  # maximum result of multiplying a schema's number of parts by a payload's number of values
MAX_NESTED = 100  # maximum depth of a schema, and of a payload if the schema refers to itself
PATTERN_SIZE = 1024 * 1024  # maximum bytes of a compiled pattern
# All faults of a payload are listed only if there can be at most `LISTABLE` of them, and if their number multiplied by
# the payload's size is at most `LISTABLE_SIZE` bytes. The library builds the whole list at once, and each fault may
# contain a copy of the payload.
LISTABLE = 20_000
LISTABLE_SIZE = 64 * 1024 * 1024
# Maximum depth of `unevaluatedProperties` and `unevaluatedItems` within each other, when a schema is saved. The
# library's time doubles with each level.
MAX_UNEVALUATED = 8
CHEAP = 100_000  # maximum `Bounds.cost` of a check on the event loop: a few milliseconds in the worst case
# The event loop lists the faults of a payload only if there can be at most this many. Otherwise a separate process
# validates the payload.
CHEAP_FAULTS = 2_000
CHEAP_TEXT = 64 * 1024  # maximum bytes of a payload that is checked on the event loop
SMALL = 8 * 1024  # maximum bytes of a schema without `_SLOW_TO_COMPILE` that is compiled on the event loop
_SLOW_TO_COMPILE = (b"attern", b"nevaluated")

_LONGEST_FAULT = 200
_REPEATED = re.compile(r"\{\s*(\d{1,9})\s*,?\s*(\d{0,9})", re.A)
_VERSION = re.compile(r"\d+|\D+", re.A)
# Keywords of JSON Schema, by the kind of their value.
_NAMED = ("properties", "patternProperties", "dependentSchemas", "dependencies")  # names and their schemas
_ASIDE = ("$defs", "definitions")  # names and their schemas; a schema counts only where a reference points to it
_DATA = ("enum", "const", "default", "examples", "example")  # data, not schemas
_UNEVALUATED = ("unevaluatedProperties", "unevaluatedItems")
# The cost of expensive keywords, in comparisons.
_WEIGHTS = {
    "contains": 10,
    "format": 10,
    "minimum": 20,  # slow if a number has thousands of digits
    "maximum": 20,
    "exclusiveMinimum": 20,
    "exclusiveMaximum": 20,
    "multipleOf": 100,  # expensive for fractions
    "unevaluatedProperties": 100,
    "unevaluatedItems": 100,
    "uniqueItems": 100,
}
_ELSEWHERE = ("$dynamicRef", "$recursiveRef")

_DIALECTS = (
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    *(f"http://json-schema.org/draft-{number}/schema{end}" for number in ("07", "06", "04") for end in ("#", "")),
)


def _never(_uri: str) -> Any:
    raise ValueError("is not part of the schema")


_NOTHING = Registry([], retriever=_never)

# ── saving ────────────────────────────────────────────────────────────────────────────────────────────────────────


def check_schemas(event_type: EventType) -> None:
    """Check that each schema is a JSON Schema. If validation is on, the newest one must also compile and be within the
    limits."""
    for version, schema in (event_type.schemas or {}).items():
        _check_form(f"schemas.{version}", schema)
    if event_type.validated:
        version, schema = newest_of(event_type)
        _check_bounds(f"schemas.{version}", _bounds(version, schema))
        _validator(version, schema)


def _check_bounds(field: str, bounds: Bounds) -> None:
    if bounds.weight > MAX_WEIGHT:
        raise InvalidInput(f"weighs more than {MAX_WEIGHT} parts, with its references followed", field=field)
    if bounds.unevaluated > MAX_UNEVALUATED:
        words = " or ".join(_UNEVALUATED)
        raise InvalidInput(f"has {words} more than {MAX_UNEVALUATED} levels deep in each other", field=field)


def _check_form(field: str, schema: Any) -> None:
    # This check must come before the library call, because the library would fetch an unknown dialect.
    if isinstance(schema, dict) and schema.get("$schema", _DIALECTS[0]) not in _DIALECTS:
        raise InvalidInput(f"$schema is not one of {', '.join(_DIALECTS)}", field=field)
    try:
        jsonschema_rs.meta.validate(schema, registry=_NOTHING)
    except (ValueError, ReferencingError) as error:
        raise InvalidInput(f"is not a JSON Schema: {_error_text(error)}", field=field) from None


def newest(schemas: Mapping[str, Any]) -> str:
    """Return the highest version. `10` is higher than `9`, and `v10` higher than `v9`."""
    return max(
        schemas, key=lambda version: [(part.isdigit(), _number(part), part) for part in _VERSION.findall(version)]
    )


def _number(part: str) -> int:
    return int(part) if part.isdigit() else 0


def newest_of(event_type: EventType) -> tuple[str, Any]:
    """Return the version that payloads are validated with, and its schema."""
    if not event_type.schemas:
        raise InvalidInput("there is no schema to validate with", field="validated")
    version = newest(event_type.schemas)
    return version, event_type.schemas[version]


def compile_schema(event_type: str, version: str, schema: Any) -> CompiledSchema:
    """Compile a schema. The limits of `_check_bounds` do not apply, because an earlier release may have saved the
    schema without them."""
    bounds = _bounds(version, schema)
    return CompiledSchema(event_type, version, _validator(version, schema), bounds)


def _bounds(version: str, schema: Any) -> Bounds:
    return _Survey(f"schemas.{version}", schema).bounds(schema)


def is_small(text: bytes) -> bool:
    """Return whether a schema can be compiled on the event loop. A schema with patterns or `unevaluated...` keywords
    cannot, because compiling it may be slow: a short pattern can become a large automaton."""
    return len(text) <= SMALL and not any(word in text for word in _SLOW_TO_COMPILE)


def _validator(version: str, schema: dict[str, Any]) -> Validator:
    options = RegexOptions(size_limit=PATTERN_SIZE, dfa_size_limit=PATTERN_SIZE)
    try:
        return jsonschema_rs.validator_for(schema, retriever=_never, pattern_options=options)
    except (ValueError, ReferencingError) as error:
        raise InvalidInput(f"cannot be used to validate: {_error_text(error)}", field=f"schemas.{version}") from None


def _error_text(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return f"at {_pointer(error.instance_path)}: {_short(error.message)}"
    return _short(str(error))


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_FAULT else text[:_LONGEST_FAULT] + "…"


def _pointer(path: list[str | int]) -> str:
    """Return a JSON pointer as in RFC 6901, except that `/` means the whole document."""
    return "/" + "/".join(str(step).replace("~", "~0").replace("/", "~1") for step in path)


# ── cost of a schema ──────────────────────────────────────────────────────────────────────────────────────────────


class Bounds(Struct, frozen=True):
    """The size and cost of a schema, or of one part of it."""

    # Number of parts: schemas, keywords and list entries. If several references point to the same schema, its parts
    # count once for each reference. A recursive reference is one part.
    parts: int = 1
    weight: int = 1  # sum of the costs of all parts that `parts` counts
    height: int = 1  # levels of parts within each other; 1 if no part is nested
    loops: int = 0  # number of recursive references
    branching: bool = False  # the schema has `anyOf` or `oneOf`: one fault may contain the faults of all alternatives
    patterns: int = 0  # estimated maximum of the states in the automata of all patterns together
    unique: int = 0  # number of `uniqueItems`, whose cost is quadratic
    unevaluated: int = 0  # depth of nested `unevaluated...` keywords

    def cost(self, size: int) -> int:
        """Return the cost of validating a payload with `size` values, to compare with `CHEAP`. It is above `CHEAP` if
        the time may be exponential."""
        if self.loops or self.unevaluated:
            return CHEAP + 1
        return size * (self.weight + self.patterns + size * self.unique)


class _Survey:
    """Measure a schema in one walk. Raises `InvalidInput` as soon as a limit is exceeded."""

    def __init__(self, name: str, schema: dict[str, Any]) -> None:
        self._name = name
        self._root = schema
        self._id = "id" if "draft-04" in str(schema.get("$schema")) else "$id"
        self._known_bounds: dict[int, Bounds | None] = {}  # by id() of the schema; None while its parts are visited
        self._patterns = 0

    def bounds(self, schema: Any, depth: int = 0) -> Bounds:
        if not isinstance(schema, dict):
            return Bounds()
        if id(schema) in self._known_bounds:
            return self._known(schema, depth)
        if depth > MAX_NESTED:
            raise self._fault(f"is nested more than {MAX_NESTED} levels deep")
        self._known_bounds[id(schema)] = None
        self._inspect(schema)
        bounds = _sum(schema, [self.bounds(part, depth + 1) for part in self._parts(schema)])
        if bounds.parts > MAX_PARTS:
            raise self._fault(f"has more than {MAX_PARTS} parts, with its references followed")
        self._known_bounds[id(schema)] = bounds
        return bounds

    def _known(self, schema: dict[str, Any], depth: int) -> Bounds:
        bounds = self._known_bounds[id(schema)]
        if bounds is None:
            return Bounds(loops=1)
        if depth + bounds.height > MAX_NESTED:
            raise self._fault(f"is nested more than {MAX_NESTED} levels deep")
        return bounds

    def _inspect(self, schema: dict[str, Any]) -> None:
        by_pattern = schema.get("patternProperties")
        self._patterns += isinstance(schema.get("pattern"), str)
        self._patterns += len(by_pattern) if isinstance(by_pattern, dict) else 0
        if self._patterns > MAX_PATTERNS:
            raise self._fault(f"has more than {MAX_PATTERNS} patterns")
        if schema is not self._root and isinstance(schema.get(self._id), str):
            raise self._fault(f"has an {self._id} below its root; refer by pointers (#/...) instead")
        for keyword in _ELSEWHERE:
            if keyword in schema:
                raise self._fault(f"{keyword} is not supported; use $ref")

    def _parts(self, schema: dict[str, Any]) -> Iterator[Any]:
        for keyword, value in schema.items():
            if keyword == "$ref":
                yield self._referred(value)
            elif keyword in _NAMED and isinstance(value, dict):
                yield from value.values()
            elif keyword not in (*_ASIDE, *_DATA):
                yield from value if isinstance(value, list) else (value,) if isinstance(value, dict) else ()

    def _referred(self, reference: Any) -> Any:
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            raise self._fault(f"the reference {_short(repr(reference))} is not a pointer within the schema (#/...)")
        found = pointed_at(self._root, reference)
        if not isinstance(found, dict | bool):
            raise self._fault(f"the reference {_short(repr(reference))} leads to no schema")
        return found

    def _fault(self, text: str) -> InvalidInput:
        return InvalidInput(text, field=self._name)


def _sum(schema: dict[str, Any], parts: list[Bounds]) -> Bounds:
    own = 1 + _values(schema)
    return Bounds(
        parts=own + sum(part.parts for part in parts),
        weight=own + _heavy(schema) + sum(part.weight for part in parts),
        height=1 + max((part.height for part in parts), default=0),
        loops=sum(part.loops for part in parts),
        branching="anyOf" in schema or "oneOf" in schema or any(part.branching for part in parts),
        patterns=_automata(schema) + sum(part.patterns for part in parts),
        unique=("uniqueItems" in schema) + sum(part.unique for part in parts),
        unevaluated=any(keyword in schema for keyword in _UNEVALUATED)
        + max((part.unevaluated for part in parts), default=0),
    )


def pointed_at(root: Any, reference: str) -> Any:
    """Return the part of a schema that a reference such as `#/$defs/order` points to, or None."""
    found = root
    for step in unquote(reference[1:]).split("/")[1:]:
        found = _step(found, step.replace("~1", "/").replace("~0", "~"))
    return found


def _step(value: Any, step: str) -> Any:
    if isinstance(value, dict):
        return value.get(step)
    if isinstance(value, list) and step.isascii() and step.isdigit() and len(step) < 9 and int(step) < len(value):
        return value[int(step)]
    return None


def _values(schema: dict[str, Any]) -> int:
    """Return the number of keywords and of list entries. Each can cause its own fault."""
    return len(schema) + sum(len(value) for value in schema.values() if isinstance(value, list))


def _heavy(schema: dict[str, Any]) -> int:
    """Return the additional cost of expensive keywords, and of comparing with the values of `const` and `enum`."""
    compared = [schema["const"]] if "const" in schema else []
    compared += schema["enum"] if isinstance(schema.get("enum"), list) else []
    return sum(_WEIGHTS.get(keyword, 0) for keyword in schema) + sum(map(_parts_of, compared))


def _parts_of(value: Any) -> int:
    """Return the cost of comparing a value: 10 for each list or object and each of its entries, 0 for a plain
    value."""
    found, left = 0, [value]
    while left:
        each = left.pop()
        inner = each.values() if isinstance(each, dict) else each if isinstance(each, list) else None
        found += 0 if inner is None else 10 * (1 + len(inner))
        left.extend(inner or ())
    return found


def _automata(schema: dict[str, Any]) -> int:
    own, names = schema.get("pattern"), schema.get("patternProperties")
    return sum(map(_states, [*([own] if isinstance(own, str) else ()), *(names if isinstance(names, dict) else ())]))


def _states(pattern: str) -> int:
    """Estimate the maximum number of states of a pattern. Repetitions may be nested, so their counts are
    multiplied."""
    counts = [max(map(_number, pair)) for pair in _REPEATED.findall(pattern)]
    return min(len(pattern) * prod(max(1, count) for count in counts[:100]), CHEAP)


# ── payloads ──────────────────────────────────────────────────────────────────────────────────────────────────────


class CompiledSchema:
    """One compiled schema."""

    def __init__(self, event_type: str, version: str, validator: Validator, bounds: Bounds) -> None:
        self._named = f"the schema of {event_type}, version {version}"
        self._validator = validator
        self.bounds = bounds

    def __call__(self, payload: bytes) -> None:
        """Validate a payload. Raises `InvalidInput` with the faults that were found."""
        value = _decoded(payload)
        depth = self._depth(value)
        values = _count(payload)
        if self.bounds.parts * values > MAX_WORK:
            raise InvalidInput(f"is too large to be validated with {self._named}", field="payload")
        if not self._fits(value):
            raise self._report(self._faults(value, len(payload), values, depth))

    def check_if_cheap(self, payload: bytes) -> bool:
        """Validate a payload if that is cheap. Return whether it was validated. Raises `InvalidInput` for an
        invalid payload.

        If this returns False, call the object itself in a separate process.
        """
        if len(payload) > CHEAP_TEXT:
            return False
        values = _count(payload)
        if self.bounds.cost(max(values, len(payload) // 16)) > CHEAP:
            return False
        value = _decoded(payload)
        if self._fits(value):
            return True
        if not _listable(self.bounds.weight * values, len(payload), CHEAP_FAULTS):
            return False
        raise self._report(self._faults(value, len(payload), values, 0))

    def _fits(self, value: Any) -> bool:
        try:
            return self._validator.is_valid(value)
        except (ValueError, RecursionError) as error:
            raise InvalidInput(f"cannot be validated: {_error_text(error)}", field="payload") from None

    def _depth(self, value: Any) -> int:
        """Return the depth of the payload, or 0 if the schema does not refer to itself. Raises if it is too deep."""
        depth = nesting(value, MAX_NESTED) if self.bounds.loops else 0
        if depth > MAX_NESTED:
            raise InvalidInput(
                f"is nested more than {MAX_NESTED} levels deep, too deep to be validated", field="payload"
            )
        return depth

    def _faults(self, value: Any, size: int, values: int, depth: int) -> list[ValidationError]:
        """Return all faults if listing them is cheap enough. Otherwise return the first fault, or no fault if even
        that is too expensive."""
        most = self.bounds.parts * max(1, self.bounds.loops) ** depth
        try:
            if _listable(most * values, size, LISTABLE):
                return list(self._validator.iter_errors(value))
            if most <= LISTABLE and not self.bounds.branching:
                self._validator.validate(value)
        except ValidationError as fault:
            return [fault]
        except ValueError:  # the library validates deeply nested values but cannot report their faults
            return []
        return []

    def _report(self, faults: list[ValidationError]) -> InvalidInput:
        shown = [f"at {_pointer(fault.instance_path)}: {_short(fault.message)}" for fault in faults[:MAX_FAULTS]]
        if len(faults) > MAX_FAULTS:
            shown.append(f"and {len(faults) - MAX_FAULTS} more")
        words = f"does not fit {self._named}" + (f": {'; '.join(shown)}" if shown else "")
        return InvalidInput(words, field="payload")


def _count(payload: bytes) -> int:
    """Return an upper bound of the number of values in a payload."""
    return payload.count(b",") + payload.count(b":") + 1


def _listable(faults: int, size: int, most: int) -> bool:
    return faults <= most and faults * size <= LISTABLE_SIZE * most // LISTABLE


def _decoded(payload: bytes) -> Any:
    try:
        return msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"cannot be validated: {_short(str(error))}", field="payload") from None
    except RecursionError:
        raise InvalidInput("is nested too deeply", field="payload") from None


def nesting(value: Any, most: int) -> int:
    """Return the depth of nested lists and objects, or `most + 1` if it is greater than `most`."""
    depth, level = 0, [value]
    while depth <= most and (level := [each for each in level if isinstance(each, dict | list)]):
        depth += 1
        level = [part for each in level for part in (each.values() if isinstance(each, dict) else each)]
    return depth
