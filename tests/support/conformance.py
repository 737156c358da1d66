"""Compare our OpenAPI document with the facts about Svix's API in `tests/data/svix_operations.json`.

The facts use a small notation: `string`, `[string]`, `{string}`, the name of a shape; a `?` at the end allows null.
Our API must accept everything that clients send, and return everything that clients expect.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

Facts = dict[str, Any]
Schema = dict[str, Any]

# JSON types that our document may use for a type in the facts.
_WIDER = {"integer": {"integer", "number"}}


class Comparison:
    def __init__(self, facts: Facts, document: Schema, wider: Collection[str] = ()) -> None:
        """`wider` lists the fields of answers that may, on purpose, have more values than in the facts."""
        self._shapes = facts["shapes"]
        self._document = document
        self._wider = wider

    def operation(self, theirs: Facts) -> list[str]:
        """Return what a client of Svix's operation would miss in our operation."""
        ours = self._document["paths"].get(theirs["path"], {}).get(theirs["method"].lower())
        if ours is None:
            return ["the operation itself"]
        return [
            *self._parameters(theirs["parameters"], ours.get("parameters", [])),
            *self._body(theirs.get("body"), ours.get("requestBody")),
            *self._answers(theirs["answers"], ours["responses"]),
        ]

    def _parameters(self, theirs: list[Facts], ours: list[Schema]) -> list[str]:
        known = {(each["name"], each["in"]): each for each in map(self._resolve, ours)}
        found = []
        for asked in theirs:
            where = f"{asked['in']} parameter {asked['name']}"
            own = known.get((asked["name"], asked["in"]))
            if own is None:
                found.append(where)
            else:
                if own.get("required", False) and not asked["required"]:
                    found.append(f"{where}: must not be required")
                found += self._takes(where, asked["type"].removesuffix("?"), own["schema"])
        return found

    def _body(self, theirs: str | None, ours: Schema | None) -> list[str]:
        if theirs is None:
            return ["body: must not be required"] if ours is not None and ours.get("required") else []
        if ours is None:
            return ["body"]
        return self._takes("body", theirs, ours["content"]["application/json"]["schema"])

    def _answers(self, theirs: dict[str, str | None], ours: Schema) -> list[str]:
        found = []
        for status, shape in theirs.items():
            if status not in ours:
                found.append(f"status {status}")
                continue
            content = self._resolve(ours[status]).get("content")
            if shape is not None and content is None:
                found.append(f"{status}: has no body")
            elif shape is not None:
                found += self._gives(status, shape, content["application/json"]["schema"])
        return found

    # ── requests ──

    def _takes(self, where: str, theirs: str, ours: Schema) -> list[str]:
        kinds, own = self._kinds(ours)
        if not kinds:
            return []
        found = []
        if theirs.endswith("?") and "null" not in kinds:
            found.append(f"{where}: must take null")
        kind = _kind(self._shapes, theirs)
        if kind != "any" and not kinds & _WIDER.get(kind, {kind}):
            return [*found, f"{where}: takes {sorted(kinds)}, not {kind}"]
        match self._parts(theirs):
            case {"enum": values}:
                found += [f"{where}: must take {value!r}" for value in values if value not in own.get("enum", values)]
            case {"fields": fields, "required": required}:
                found += self._takes_fields(where, fields, required, own)
            case {"items": items}:
                found += self._takes(f"{where}[]", items, own.get("items", {}))
            case {"values": values}:
                found += self._takes(f"{where}{{}}", values, own.get("additionalProperties", {}))
        return found

    def _takes_fields(self, where: str, fields: dict[str, str], required: list[str], ours: Schema) -> list[str]:
        properties = ours.get("properties", {})
        found = [f"{where}.{name}" for name in fields if name not in properties]
        found += [f"{where}.{name}: must not be required" for name in ours.get("required", []) if name not in required]
        for name, theirs in fields.items():
            if name in properties:
                found += self._takes(f"{where}.{name}", theirs, properties[name])
        return found

    # ── answers ──

    def _gives(self, where: str, theirs: str, ours: Schema) -> list[str]:
        kinds, own = self._kinds(ours)
        if not kinds:
            return []
        found = []
        if "null" in kinds and not theirs.endswith("?"):
            found.append(f"{where}: must not be null")
        if where.rsplit(".", 1)[-1] in self._wider:
            return found
        kind = _kind(self._shapes, theirs)
        if kind != "any" and kinds - {"null", kind} and not (kind == "number" and kinds <= {"integer", "null"}):
            return [*found, f"{where}: gives {sorted(kinds)}, not {kind}"]
        match self._parts(theirs):
            case {"enum": values}:
                found += [f"{where}: must not be {value!r}" for value in own.get("enum", [None]) if value not in values]
            case {"fields": fields, "required": required}:
                found += self._gives_fields(where, fields, required, own)
            case {"items": items}:
                found += self._gives(f"{where}[]", items, own.get("items", {}))
            case {"values": values}:
                found += self._gives(f"{where}{{}}", values, own.get("additionalProperties", {}))
        return found

    def _gives_fields(self, where: str, fields: dict[str, str], required: list[str], ours: Schema) -> list[str]:
        properties = ours.get("properties", {})
        found = [f"{where}.{name}" for name in fields if name not in properties]
        found += [
            f"{where}.{name}: must be required"
            for name in required
            if name in properties and name not in ours.get("required", [])
        ]
        for name, theirs in fields.items():
            if name in properties:
                found += self._gives(f"{where}.{name}", theirs, properties[name])
        return found

    # ── both notations ──

    def _parts(self, theirs: str) -> Facts:
        bare = theirs.removesuffix("?")
        if bare.startswith("["):
            return {"items": bare[1:-1]}
        if bare.startswith("{"):
            return {"values": bare[1:-1]}
        found: Facts = self._shapes.get(bare, {})
        return found

    def _resolve(self, schema: Schema) -> Schema:
        while "$ref" in schema:
            found: Any = self._document
            for step in schema["$ref"].removeprefix("#/").split("/"):
                found = found[step]
            schema = found
        return schema

    def _kinds(self, schema: Schema) -> tuple[set[str], Schema]:
        """Return the JSON types that a schema allows (empty: any), and the schema of the type that is not null."""
        own = self._resolve(schema)
        if "anyOf" in own:
            each = [self._kinds(one) for one in own["anyOf"]]
            rest = next((found for kinds, found in each if kinds != {"null"}), own)
            return (set().union(*(kinds for kinds, _ in each)) if all(kinds for kinds, _ in each) else set()), rest
        kinds = own.get("type", [])
        return ({kinds} if isinstance(kinds, str) else set(kinds)), own


def _kind(shapes: Facts, theirs: str) -> str:
    bare = theirs.removesuffix("?")
    if bare.startswith("["):
        return "array"
    if bare.startswith("{"):
        return "object"
    if bare in shapes:
        kind: str = shapes[bare].get("type", "object")
        return kind
    return bare
