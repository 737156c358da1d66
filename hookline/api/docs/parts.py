"""Small parts of the API reference: texts, code samples, and the limits of a schema in words."""

from __future__ import annotations

import re

import msgspec

from hookline.api.openapi.schemas import Schema
from hookline.web.faults import NAME
from hookline.web.html import Child, Safe, join, tag


def method(method: str) -> Safe:
    return tag("span", method.upper(), class_=f"method {method}")


def title(name: str) -> str:
    return name.replace("-", " ").capitalize()


def shape_name(name: str) -> str:
    """Write `ListResponse_ApplicationOut_` as `List of ApplicationOut`."""
    return re.sub(r"^ListResponse_(\w+)_$", r"List of \1", name)


def breakable(path: str) -> Safe:
    """Allow line breaks after each slash of a path."""
    return join(*(join(part, tag("wbr")) for part in re.findall(r"[^/]*/?", path) if part))


def prose(text: str) -> Safe:
    """Turn text between backticks into code."""
    parts = re.split(r"`([^`]+)`", text)
    return join(*(tag("code", part) if index % 2 else part for index, part in enumerate(parts)))


def sample(title: str, text: str) -> Safe:
    return tag("figure", tag("figcaption", title), tag("pre", tag("code", text), tabindex="0"), class_="sample")


def indented(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def access(operation: Schema) -> Safe:
    if not operation["security"]:
        return join(tag("code", operation["operationId"]), " · no token needed")
    scope = operation["security"][0]["token"][0]
    whole = " · token of the organization" if "description" in operation else None
    return join(tag("code", operation["operationId"]), f" · scope {scope}", whole)


def bounds(schema: Schema) -> Safe:
    """Return the limits of a schema in words."""
    items = schema.get("items", {})
    found = [
        between(schema.get("minimum", schema.get("exclusiveMinimum")), schema.get("maximum"), ""),
        between(schema.get("minLength"), schema.get("maxLength"), " characters"),
        between(schema.get("minItems"), schema.get("maxItems"), " items"),
        between(items.get("minLength"), items.get("maxLength"), " characters each"),
        one_of(schema),
        _matching(schema),
        join("Default ", tag("code", msgspec.json.encode(schema["default"]).decode())) if "default" in schema else None,
    ]
    return _separated([each for each in found if each])


def _separated(parts: list[Child]) -> Safe:
    return join(*(join(" · " if index else None, each) for index, each in enumerate(parts)))


def _matching(schema: Schema) -> Child:
    if "pattern" not in schema:
        return None
    return "Letters, digits, - _ ." if schema["pattern"] == NAME else join("Matches ", tag("code", schema["pattern"]))


def one_of(schema: Schema) -> Child:
    if "enum" not in schema:
        return None
    values = [tag("code", str(value)) for value in schema["enum"]]
    return join("One of ", *(join(", " if index else None, value) for index, value in enumerate(values)))


def between(low: float | None, high: float | None, unit: str) -> Child:
    if low is None and high is None:
        return None
    if high is None:
        return f"At least {low:,}{unit}"
    return f"At most {high:,}{unit}" if low is None else f"{low:,} to {high:,}{unit}"
