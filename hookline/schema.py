"""JSON Schema: an event type's schemas when it is saved, and payloads against the newest of them.

Nothing is fetched: a reference stays within its schema. What a schema can cost is bounded before it is used, because the
check runs where every other request waits: its text, its patterns (of an engine that is linear in the text), and its
weight, which is how much of it there is once every reference is followed.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any
from urllib.parse import unquote

import jsonschema_rs
import msgspec
from jsonschema_rs import ReferencingError, RegexOptions, Registry, ValidationError, Validator
from msgspec import Struct

from hookline.errors import InvalidInput
from hookline.model import EventType
from hookline.store.base import Store

REMEMBERED = 2.0  # seconds after which a change that another process made is noticed
MOST_REMEMBERED = 10_000
MOST_COMPILED = 256
MOST_FAULTS = 5
MOST_PATTERNS = 100
MOST_WEIGHT = 10_000
MOST_WORK = 200_000_000  # weight of the schema times values of the payload
MOST_NESTED = 100  # of a schema along its references; of a payload, where the schema refers to itself
PATTERN_SIZE = 1024 * 1024  # bytes of a compiled pattern
LISTABLE = 20_000  # faults at the very most, if all of them are to be listed: the library makes them all at once

_LONGEST_FAULT = 200
_VERSION = re.compile(r"\d+|\D+", re.A)
_NAMED = ("properties", "patternProperties", "dependentSchemas", "dependencies")  # schemas by name
_ASIDE = ("$defs", "definitions")  # likewise; they count where they are referred to
_DATA = ("enum", "const", "default", "examples", "example")  # values, not schemas
_ELSEWHERE = ("$dynamicRef", "$recursiveRef")

_DIALECTS = (
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    *(f"http://json-schema.org/draft-{number}/schema{end}" for number in ("07", "06", "04") for end in ("#", "")),
)


def _never(_uri: str) -> Any:
    raise ValueError("is not part of the schema")


_NOTHING = Registry([], retriever=_never)

Rule = Callable[[bytes], None]  # raises `InvalidInput` for a payload that does not fit


class Schemas:
    """One per process."""

    def __init__(self, store: Store, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._monotonic = monotonic
        self._recent: dict[tuple[str, str], tuple[float, Rule | None]] = {}
        self._compiled: OrderedDict[tuple[object, ...], Rule] = OrderedDict()

    async def check(self, org_id: str, event_type: str, payload: bytes) -> None:
        """`InvalidInput` with up to five faults, if the event type is validated and the payload does not fit."""
        known = self._recent.get((org_id, event_type))
        if known is None or known[0] < self._monotonic():
            rule = await self._look_up(org_id, event_type)
        else:
            rule = known[1]
        if rule is not None:
            rule(payload)

    def forget(self, org_id: str, event_type: str) -> None:
        """It was changed in this process: the next payload meets the change."""
        self._recent.pop((org_id, event_type), None)

    async def _look_up(self, org_id: str, name: str) -> Rule | None:
        found = await self._store.event_type(org_id, name)
        rule = None if found is None or not found.validated else self._rule(found)
        if len(self._recent) >= MOST_REMEMBERED:
            self._recent.clear()
        self._recent[org_id, name] = (self._monotonic() + REMEMBERED, rule)
        return rule

    def _rule(self, event_type: EventType) -> Rule:
        key = (event_type.org_id, event_type.name, event_type.updated_at)
        if key not in self._compiled:
            self._compiled[key] = _rule(event_type)
        self._compiled.move_to_end(key)
        while len(self._compiled) > MOST_COMPILED:
            self._compiled.popitem(last=False)
        return self._compiled[key]


# ── saving ────────────────────────────────────────────────────────────────────────────────────────────────────────


def check_schemas(event_type: EventType) -> None:
    """Each must be a JSON Schema; the newest one of a validated type must also be one that can be used."""
    for version, schema in (event_type.schemas or {}).items():
        _check_form(version, schema)
    if event_type.validated:
        _newest_judge(event_type)


def _check_form(version: str, schema: Any) -> None:
    # Before the library sees it: it would fetch a dialect that it does not know.
    if isinstance(schema, dict) and schema.get("$schema", _DIALECTS[0]) not in _DIALECTS:
        raise InvalidInput(f"schemas.{version}: $schema is not one of {', '.join(_DIALECTS)}")
    try:
        jsonschema_rs.meta.validate(schema, registry=_NOTHING)
    except (ValueError, ReferencingError) as error:
        raise InvalidInput(f"schemas.{version}: is not a JSON Schema: {_said(error)}") from None


def newest(schemas: Mapping[str, Any]) -> str:
    """The highest version: `10` after `9`, `v10` after `v9`."""
    return max(
        schemas, key=lambda version: [(part.isdigit(), _number(part), part) for part in _VERSION.findall(version)]
    )


def _number(part: str) -> int:
    return int(part) if part.isdigit() else 0


def _rule(event_type: EventType) -> Rule:
    """A schema that could be saved once and cannot be used now refuses: nothing goes out unchecked in its name."""
    try:
        return _newest_judge(event_type)
    except InvalidInput as fault:
        return partial(_refuse, f"event type {event_type.name}: {fault}")


def _refuse(fault: str, _payload: bytes) -> None:
    raise InvalidInput(fault)


def _newest_judge(event_type: EventType) -> Rule:
    if not event_type.schemas:
        raise InvalidInput("validated: there is no schema to validate with")
    version = newest(event_type.schemas)
    schema = event_type.schemas[version]
    bounds = _Survey(f"schemas.{version}", schema).bounds()
    return _Judge(event_type.name, version, _validator(version, schema), bounds)


def _validator(version: str, schema: dict[str, Any]) -> Validator:
    options = RegexOptions(size_limit=PATTERN_SIZE, dfa_size_limit=PATTERN_SIZE)
    try:
        return jsonschema_rs.validator_for(schema, retriever=_never, pattern_options=options)
    except (ValueError, ReferencingError) as error:
        raise InvalidInput(f"schemas.{version}: cannot be used to validate: {_said(error)}") from None


def _said(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return f"at {_pointer(error.instance_path)}: {_short(error.message)}"
    return _short(str(error))


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_FAULT else text[:_LONGEST_FAULT] + "…"


def _pointer(path: list[str | int]) -> str:
    """A JSON pointer (RFC 6901); `/` for the whole."""
    return "/" + "/".join(str(step).replace("~", "~0").replace("/", "~1") for step in path)


# ── what a schema costs ───────────────────────────────────────────────────────────────────────────────────────────


class _Bounds(Struct, frozen=True):
    weight: int  # of the schema with every reference followed, those to itself once
    loops: int  # how often it refers to itself
    branching: bool  # a fault of an alternative is told with the faults of all of them


class _Cost(Struct, frozen=True):
    weight: int = 1
    height: int = 1
    loops: int = 0


class _Survey:
    """One walk over a schema. Raises `InvalidInput` as soon as it is over a bound."""

    def __init__(self, name: str, schema: dict[str, Any]) -> None:
        self._name = name
        self._root = schema
        self._id = "id" if "draft-04" in str(schema.get("$schema")) else "$id"
        self._costs: dict[int, _Cost | None] = {}  # None: it is being walked
        self._patterns = 0
        self._branching = False

    def bounds(self) -> _Bounds:
        cost = self._cost(self._root, 0)
        return _Bounds(cost.weight, cost.loops, self._branching)

    def _cost(self, schema: Any, depth: int) -> _Cost:
        if not isinstance(schema, dict):
            return _Cost()
        if id(schema) in self._costs:
            return self._known(schema, depth)
        if depth > MOST_NESTED:
            raise self._fault(f"is nested more than {MOST_NESTED} levels deep")
        self._costs[id(schema)] = None
        self._inspect(schema)
        cost = _sum(schema, [self._cost(part, depth + 1) for part in self._parts(schema)])
        if cost.weight > MOST_WEIGHT:
            raise self._fault(f"has more than {MOST_WEIGHT} parts, with its references followed")
        self._costs[id(schema)] = cost
        return cost

    def _known(self, schema: dict[str, Any], depth: int) -> _Cost:
        cost = self._costs[id(schema)]
        if cost is None:
            return _Cost(loops=1)
        if depth + cost.height > MOST_NESTED:
            raise self._fault(f"is nested more than {MOST_NESTED} levels deep")
        return cost

    def _inspect(self, schema: dict[str, Any]) -> None:
        self._branching = self._branching or "anyOf" in schema or "oneOf" in schema
        by_pattern = schema.get("patternProperties")
        self._patterns += isinstance(schema.get("pattern"), str) + (
            len(by_pattern) if isinstance(by_pattern, dict) else 0
        )
        if self._patterns > MOST_PATTERNS:
            raise self._fault(f"has more than {MOST_PATTERNS} patterns")
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
        found: Any = self._root
        for step in unquote(reference[1:]).split("/")[1:]:
            found = _step(found, step.replace("~1", "/").replace("~0", "~"))
        if not isinstance(found, dict | bool):
            raise self._fault(f"the reference {_short(repr(reference))} leads to no schema")
        return found

    def _fault(self, text: str) -> InvalidInput:
        return InvalidInput(f"{self._name}: {text}")


def _sum(schema: dict[str, Any], parts: list[_Cost]) -> _Cost:
    return _Cost(
        weight=1 + _values(schema) + sum(part.weight for part in parts),
        height=1 + max((part.height for part in parts), default=0),
        loops=sum(part.loops for part in parts),
    )


def _step(value: Any, step: str) -> Any:
    if isinstance(value, dict):
        return value.get(step)
    if isinstance(value, list) and step.isascii() and step.isdigit() and len(step) < 9 and int(step) < len(value):
        return value[int(step)]
    return None


def _values(schema: dict[str, Any]) -> int:
    """Keywords, and the entries of those that are lists of values: each can be a fault of its own."""
    return len(schema) + sum(len(value) for value in schema.values() if isinstance(value, list))


# ── payloads ──────────────────────────────────────────────────────────────────────────────────────────────────────


class _Judge:
    def __init__(self, event_type: str, version: str, validator: Validator, bounds: _Bounds) -> None:
        self._named = f"the schema of {event_type}, version {version}"
        self._validator = validator
        self._bounds = bounds

    def __call__(self, payload: bytes) -> None:
        value = _decoded(payload)
        depth = self._depth(value)
        values = payload.count(b",") + payload.count(b":") + 1  # or fewer
        if self._bounds.weight * values > MOST_WORK:
            raise InvalidInput(f"payload: is too large to be validated with {self._named}")
        if not self._fits(value):
            raise InvalidInput(self._report(self._faults(value, values, depth)))

    def _fits(self, value: Any) -> bool:
        try:
            return self._validator.is_valid(value)
        except (ValueError, RecursionError) as error:
            raise InvalidInput(f"payload: cannot be validated: {_said(error)}") from None

    def _depth(self, value: Any) -> int:
        """Only of interest where the schema goes as deep as the payload does."""
        depth = nesting(value, MOST_NESTED) if self._bounds.loops else 0
        if depth > MOST_NESTED:
            raise InvalidInput(f"payload: is nested more than {MOST_NESTED} levels deep, too deep to be validated")
        return depth

    def _faults(self, value: Any, values: int, depth: int) -> list[ValidationError]:
        """All of them if they can be told at a bounded cost, else the first one, else none."""
        most = self._bounds.weight * max(1, self._bounds.loops) ** depth
        try:
            if most * values <= LISTABLE:
                return list(self._validator.iter_errors(value))
            if most <= LISTABLE and not self._bounds.branching:
                self._validator.validate(value)
        except ValidationError as fault:
            return [fault]
        except ValueError:  # the library looks into what is nested deeply, but does not tell of it
            return []
        return []

    def _report(self, faults: list[ValidationError]) -> str:
        shown = [f"at {_pointer(fault.instance_path)}: {_short(fault.message)}" for fault in faults[:MOST_FAULTS]]
        if len(faults) > MOST_FAULTS:
            shown.append(f"and {len(faults) - MOST_FAULTS} more")
        return f"payload: does not fit {self._named}" + (f": {'; '.join(shown)}" if shown else "")


def _decoded(payload: bytes) -> Any:
    try:
        return msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"payload: cannot be validated: {_short(str(error))}") from None
    except RecursionError:
        raise InvalidInput("payload: is nested too deeply") from None


def nesting(value: Any, most: int) -> int:
    """How deep lists and objects lie within each other; more than `most` is not looked into."""
    depth, level = 0, [value]
    while depth <= most and (level := [each for each in level if isinstance(each, dict | list)]):
        depth += 1
        level = [part for each in level for part in (each.values() if isinstance(each, dict) else each)]
    return depth
