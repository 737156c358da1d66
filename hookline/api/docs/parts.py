"""Small parts of the API reference: texts, code samples, and the limits of a schema in words."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from hookline.api.openapi.schemas import Schema
from hookline.web.html import Child, Safe, join, tag
from hookline.web.invalid_fields import NAME


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
    """Return the text as HTML, with text between backticks as code."""
    parts = re.split(r"`([^`]+)`", text)
    return join(*(tag("code", part) if index % 2 else part for index, part in enumerate(parts)))


def link(name: str, *children: Child) -> Safe:
    """Link to a part of this page."""
    return tag("a", *children, href=f"#{name}")


def section(name: str, title: str, about: str, *children: Child, class_: str | None = "tag") -> Safe:
    return tag("section", tag("h2", title), tag("p", prose(about)), *children, id=name, class_=class_)


def fields(rows: Iterable[Safe]) -> Safe:
    return tag("dl", *rows, class_="fields")


def field(term: Safe, text: Child) -> Safe:
    return tag("div", tag("dt", term), tag("dd", text) if text else None)


def status(status: str, class_: str = "status") -> Safe:
    return tag("span", status, class_=class_)


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
    return separated(found, " · ")


def separated(parts: Iterable[Child], between: str) -> Safe:
    """Join the parts that are not empty, with `between` between them."""
    shown = [each for each in parts if each]
    return join(*shown[:1], *(join(between, each) for each in shown[1:]))


def _matching(schema: Schema) -> Child:
    if "pattern" not in schema:
        return None
    return "Letters, digits, - _ ." if schema["pattern"] == NAME else join("Matches ", tag("code", schema["pattern"]))


def one_of(schema: Schema) -> Child:
    if "enum" not in schema:
        return None
    return join("One of ", separated([tag("code", str(value)) for value in schema["enum"]], ", "))


def between(low: float | None, high: float | None, unit: str) -> Child:
    if low is None and high is None:
        return None
    if high is None:
        return f"At least {low:,}{unit}"
    return f"At most {high:,}{unit}" if low is None else f"{low:,} to {high:,}{unit}"
