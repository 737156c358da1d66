"""Small parts of the page: texts, samples, and the checks of a schema in words."""

from __future__ import annotations

import re

import msgspec

from hookline.api.openapi.schemas import Schema
from hookline.web.html import Child, Safe, join, tag

NAME = r"^[a-zA-Z0-9\-_.]+$"  # of most of what callers name


def method(method: str) -> Safe:
    return tag("span", method.upper(), class_=f"method {method}")


def title(name: str) -> str:
    return name.replace("-", " ").capitalize()


def shape_name(name: str) -> str:
    """`ListResponse_ApplicationOut_` is a list of them."""
    return re.sub(r"^ListResponse_(\w+)_$", r"List of \1", name)


def breakable(path: str) -> Safe:
    """An address may break after a slash."""
    return join(*(join(part, tag("wbr")) for part in re.findall(r"[^/]*/?", path) if part))


def prose(text: str) -> Safe:
    """Plain text with `code` in it."""
    parts = re.split(r"`([^`]+)`", text)
    return join(*(tag("code", part) if odd % 2 else part for odd, part in enumerate(parts)))


def sample(title: str, text: str) -> Safe:
    return tag("figure", tag("figcaption", title), tag("pre", tag("code", text), tabindex="0"), class_="sample")


def indented(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def access(operation: Schema) -> Safe:
    if not operation["security"]:
        return join(tag("code", operation["operationId"]), " · anybody")
    scope = operation["security"][0]["token"][0]
    whole = " · the whole organization's token" if "description" in operation else None
    return join(tag("code", operation["operationId"]), f" · scope {scope}", whole)


def bounds(schema: Schema) -> Safe:
    """The checks that a schema has, in words."""
    items = schema.get("items", {})
    told = [
        between(schema.get("minimum", schema.get("exclusiveMinimum")), schema.get("maximum"), ""),
        between(schema.get("minLength"), schema.get("maxLength"), " characters"),
        between(schema.get("minItems"), schema.get("maxItems"), " items"),
        between(items.get("minLength"), items.get("maxLength"), " characters each"),
        one_of(schema),
        _matching(schema),
        join("Default ", tag("code", msgspec.json.encode(schema["default"]).decode())) if "default" in schema else None,
    ]
    return _separated([each for each in told if each])


def _separated(told: list[Child]) -> Safe:
    return join(*(join(" · " if index else None, each) for index, each in enumerate(told)))


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
