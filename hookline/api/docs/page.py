"""Renders the OpenAPI document as one HTML page."""

from __future__ import annotations

import re
from functools import reduce
from operator import getitem
from typing import Any

import msgspec

from hookline.api.docs import parts
from hookline.api.docs.examples import Examples
from hookline.api.openapi import PROBLEMS
from hookline.api.openapi.schemas import REF, Schema
from hookline.web.html import Child, Safe, join, page, tag

_ABOUT_ERRORS = "Every error is JSON, also for an unknown path. A request with a 4xx response changed nothing."
_ABOUT_WEBHOOKS = (
    "A delivery is a POST to the endpoint's URL. Its body is the message's payload, byte for byte. "
    "With a token, `openapi.json` lists your own event types here, with their schemas."
)
_FIRST_CALL = """\
export HOOKLINE=http://127.0.0.1:8071    # the address of this server
export TOKEN=$(hookline token)
curl "$HOOKLINE/api/v1/app" -H "Authorization: Bearer $TOKEN"\
"""
_FIRST_LINKS = {"about": "About", "authentication-header": "Authentication", "errors": "Errors"}
_LAST_LINKS = {"webhooks": "Webhooks", "shapes": "Shapes"}
_REQUIRED = tag("span", " required", class_="required")
_OPTIONAL = tag("span", " may be missing", class_="type")


class Reference:
    """Renders one OpenAPI document."""

    def __init__(self, document: Schema) -> None:
        self._document = document
        self._shapes: dict[str, Schema] = document["components"]["schemas"]
        self._examples = Examples(self._shapes)
        operations = (each for item in document["paths"].values() for each in item.values())
        self._sent = self._shapes_in([each.get("requestBody") for each in operations])  # shapes that callers send

    def page(self) -> Safe:
        title = f"{self._document['info']['title']} API"
        head = tag(
            "head",
            tag("meta", charset="utf-8"),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("title", title),
            tag("link", rel="stylesheet", href="/docs/docs.css"),
            tag("script", type="module", src="/docs/docs.js"),
        )
        skip = tag("a", "Skip to the operations", class_="skip", href="#main")
        frame = tag("div", self._navigation(), self._main(title), class_="frame")
        return page(tag("html", head, tag("body", skip, self._header(), frame), lang="en"))

    def _header(self) -> Safe:
        return tag(
            "header",
            tag("a", "Hookline", " ", tag("span", "API reference"), class_="brand", href="#about"),
            tag("span", self._document["info"]["version"], class_="version"),
            tag("a", "openapi.json", class_="source", href="/api/v1/openapi.json"),
        )

    # ── navigation ──

    def _navigation(self) -> Safe:
        hint = "path, name or word"
        field = tag("input", id="find", type="search", autocomplete="off", spellcheck="false", placeholder=hint)
        label, found = tag("label", "Find an operation", for_="find"), tag("p", id="found", role="status")
        search = tag("div", label, field, found, class_="find", id="search", hidden=True)
        groups = [self._group(each["name"]) for each in self._document["tags"]]
        lists = (_links(_FIRST_LINKS), *groups, _links(_LAST_LINKS))
        contents = tag("details", tag("summary", "Contents"), *lists, open=True, id="contents")
        return tag("nav", search, contents, aria_label="Operations")

    def _group(self, name: str) -> Safe:
        links = [
            parts.link(operation["operationId"], parts.method(method), tag("span", operation["summary"]))
            for _, method, operation in self._operations(name)
        ]
        title = tag("h2", parts.link(name, parts.title(name)))
        return tag("section", title, tag("ul", *(tag("li", link) for link in links)), class_="group")

    def _operations(self, tag_name: str) -> list[tuple[str, str, Schema]]:
        return [
            (path, method, operation)
            for path, item in self._document["paths"].items()
            for method, operation in item.items()
            if tag_name in operation["tags"] and method != "head"
        ]

    # ── sections ──

    def _main(self, title: str) -> Safe:
        paragraphs = self._document["info"]["description"].strip().split("\n\n")
        token = self._document["components"]["securitySchemes"]["token"]["description"]
        sample = parts.sample("Try it", _FIRST_CALL)
        return tag(
            "main",
            tag("section", tag("h1", title), *(tag("p", parts.prose(each)) for each in paragraphs), id="about"),
            parts.section("authentication-header", "Authentication", token, sample, class_=None),
            parts.section("errors", "Errors", _ABOUT_ERRORS, _errors(), class_=None),
            *(self._section(each["name"], each["description"]) for each in self._document["tags"]),
            parts.section("webhooks", "Webhooks", _ABOUT_WEBHOOKS, *self._webhooks()),
            parts.section("shapes", "Shapes", "The JSON shapes of request and response bodies.", *self._all_shapes()),
            id="main",
        )

    def _section(self, name: str, about: str) -> Safe:
        return parts.section(name, parts.title(name), about, *(self._article(*each) for each in self._operations(name)))

    def _webhooks(self) -> list[Safe]:
        return [
            parts.fields(
                self._field(each["name"], each["schema"], None, each["description"])
                for each in hook["post"]["parameters"]
            )
            for hook in self._document["webhooks"].values()
        ]

    def _all_shapes(self) -> list[Safe]:
        return [
            tag(
                "article",
                tag("h3", _shape_link(name)),
                tag("p", parts.prose(schema["description"]), class_="quiet") if "description" in schema else None,
                self._fields(schema, sent=name in self._sent),
                id=f"shape-{name}",
                class_="shape",
            )
            for name, schema in self._shapes.items()
        ]

    # ── one operation ──

    def _article(self, path: str, method: str, operation: Schema) -> Safe:
        name = operation["operationId"]
        facts = (*self._parameters(operation), self._body(operation), self._responses(operation))
        columns = (
            tag("div", *facts, class_="facts"),
            tag("div", *self._samples(path, method, operation), class_="samples"),
        )
        return tag(
            "article",
            tag("h3", parts.link(name, operation["summary"])),
            tag("p", parts.method(method), tag("code", parts.breakable(path)), class_="address"),
            tag("p", parts.access(operation), class_="quiet"),
            tag("div", *columns, class_="columns"),
            id=name,
            class_="operation",
            data_text=f"{method} {path} {name} {operation['summary']}".lower(),
        )

    def _parameters(self, operation: Schema) -> list[Child]:
        given = [self._resolve(each) for each in operation.get("parameters", [])]
        found: list[Child] = []
        for place, title in (("path", "Path"), ("query", "Query"), ("header", "Headers")):
            fields = [self._parameter(each) for each in given if each["in"] == place]
            if fields:
                found += [tag("h4", title), parts.fields(fields)]
        return found

    def _parameter(self, given: Schema) -> Safe:
        in_path = given["in"] == "path"  # path parameters are always required strings
        mark = _REQUIRED if given["required"] and not in_path else None
        schema = {"type": "string"} if in_path else given["schema"]
        return self._field(given["name"], schema, mark, given["description"])

    def _body(self, operation: Schema) -> Child:
        if "requestBody" not in operation:
            return None
        body = operation["requestBody"]
        title = tag("h4", "Body", None if body["required"] else tag("span", " optional", class_="quiet"))
        return join(title, self._fields(self._resolve(_json_schema(body)), sent=True))

    def _fields(self, schema: Schema, *, sent: bool) -> Safe:
        """List the fields of a shape.

        If callers send the shape, required fields are marked. Otherwise fields that may be missing are marked.
        """
        if "properties" not in schema:
            return tag("p", self._type(schema), " ", parts.bounds(schema))
        required = schema.get("required", [])
        marks = {True: _REQUIRED} if sent else {False: _OPTIONAL}
        fields = [
            self._field(name, found, marks.get(name in required), found.get("description", ""))
            for name, found in schema["properties"].items()
        ]
        return parts.fields(fields) if fields else tag("p", "No fields.", class_="quiet")

    def _field(self, name: str, schema: Schema, mark: Safe | None, description: str) -> Safe:
        term = join(tag("code", name), " ", tag("span", self._type(schema), class_="type"), mark)
        return parts.field(term, parts.separated([parts.prose(description), parts.bounds(self._bounded(schema))], " "))

    def _responses(self, operation: Schema) -> Safe:
        rows, problems = [], []
        for status, answer in operation["responses"].items():
            if "$ref" in answer:
                problems.append(status)
            else:
                kind = tag("span", self._type(_json_schema(answer)), class_="type") if "content" in answer else None
                rows.append(parts.field(join(parts.status(status), " ", kind), parts.prose(answer["description"])))
        other = tag("p", "Errors: ", parts.link("errors", ", ".join(problems)), class_="quiet")
        return join(tag("h4", "Responses"), parts.fields(rows), other)

    def _samples(self, path: str, method: str, operation: Schema) -> list[Child]:
        found: list[Child] = [parts.sample("Request", self._curl(path, method, operation))]
        for status, answer in operation["responses"].items():
            if "content" in answer:
                example = self._examples.of(_json_schema(answer))
                if example:
                    found.append(parts.sample(f"Response {status}", parts.indented(example)))
                break
        return found

    def _curl(self, path: str, method: str, operation: Schema) -> str:
        address = re.sub(r"{(\w+)}", lambda match: f"${match[1].upper()}", path)
        lines = [f'curl "$HOOKLINE{address}"' if method == "get" else f'curl -X {method.upper()} "$HOOKLINE{address}"']
        if operation["security"]:
            lines.append('-H "Authorization: Bearer $TOKEN"')
        if "requestBody" in operation:
            example = self._examples.of(_json_schema(operation["requestBody"]), required_only=True)
            body = parts.indented(example).replace("'", "'\\''")
            lines += ["-H 'Content-Type: application/json'", f"-d '{body}'"]
        return " \\\n  ".join(lines)

    # ── schemas in words ──

    def _shapes_in(self, node: Any) -> set[str]:
        """Return the names of all shapes that `node` references, directly or indirectly. No shape references
        itself, so the recursion ends."""
        names = set(re.findall(rf'"{REF}(\w+)"', msgspec.json.encode(node).decode()))
        return names.union(*(self._shapes_in(self._shapes[name]) for name in names))

    def _resolve(self, node: Schema) -> Schema:
        if "$ref" not in node:
            return node
        return reduce(getitem, node["$ref"].removeprefix("#/").split("/"), self._document)

    def _bounded(self, schema: Schema) -> Schema:
        """Return the schema whose limits the page shows beside a field. If the field refers to an enumeration, return
        the enumeration with the field's own default, so that the page shows the values of the enumeration."""
        for each in (schema, *schema.get("anyOf", [])):
            resolved = self._resolve(each)
            if "enum" in resolved:
                return {**resolved, **{key: value for key, value in schema.items() if key == "default"}}
        return schema

    def _type(self, schema: Schema) -> Safe:
        if "$ref" in schema:
            return _shape_link(schema["$ref"].removeprefix(REF))
        if "anyOf" in schema:
            return parts.separated([self._type(each) for each in schema["anyOf"]], " or ")
        kinds = schema.get("type", "any")
        kinds = [kinds] if isinstance(kinds, str) else kinds
        return parts.separated([self._kind(schema, kind) for kind in kinds], " or ")

    def _kind(self, schema: Schema, kind: str) -> Child:
        if kind == "array":
            return join("list of ", self._type(schema.get("items", {})))
        if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
            return join("map of ", self._type(schema["additionalProperties"]))
        return schema.get("format", kind) if kind == "string" else kind


def _json_schema(content: Schema) -> Schema:
    schema: Schema = content["content"]["application/json"]["schema"]
    return schema


def _shape_link(name: str) -> Safe:
    return parts.link(f"shape-{name}", parts.shape_name(name))


def _links(links: dict[str, str]) -> Safe:
    return tag("ul", *(tag("li", parts.link(*each)) for each in links.items()), class_="plain")


def _errors() -> Safe:
    return parts.fields(
        parts.field(
            join(parts.status(str(status), "status bad"), " ", _shape_link(problem.shape.__name__)), problem.description
        )
        for status, problem in PROBLEMS.items()
    )
