"""Renders the OpenAPI document as one HTML page."""

from __future__ import annotations

import re
from typing import Any

from hookline.api.docs import parts
from hookline.api.docs.examples import Examples
from hookline.api.openapi import PROBLEMS
from hookline.api.openapi.schemas import REF, Schema
from hookline.web.html import Child, Safe, join, page, tag


class Reference:
    """Renders one OpenAPI document."""

    def __init__(self, document: Schema) -> None:
        self._document = document
        self._shapes: dict[str, Schema] = document["components"]["schemas"]
        self._examples = Examples(self._shapes)
        bodies = [
            each["requestBody"]
            for item in document["paths"].values()
            for each in item.values()
            if "requestBody" in each
        ]
        self._sent = self._shapes_in(bodies)  # shapes that callers send

    def page(self) -> Safe:
        info = self._document["info"]
        return page(
            tag(
                "html",
                tag(
                    "head",
                    tag("meta", charset="utf-8"),
                    tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
                    tag("title", f"{info['title']} API"),
                    tag("link", rel="stylesheet", href="/docs/docs.css"),
                    tag("script", type="module", src="/docs/docs.js"),
                ),
                tag(
                    "body",
                    tag("a", "Skip to the operations", class_="skip", href="#main"),
                    self._header(info),
                    tag("div", self._navigation(), self._main(info), class_="frame"),
                ),
                lang="en",
            )
        )

    def _header(self, info: Schema) -> Safe:
        return tag(
            "header",
            tag("a", "Hookline", " ", tag("span", "API reference"), class_="brand", href="#about"),
            tag("span", info["version"], class_="version"),
            tag("a", "openapi.json", class_="source", href="/api/v1/openapi.json"),
        )

    # ── navigation ──

    def _navigation(self) -> Safe:
        search = tag(
            "div",
            tag("label", "Find an operation", for_="find"),
            tag(
                "input",
                id="find",
                type="search",
                autocomplete="off",
                spellcheck="false",
                placeholder="path, name or word",
            ),
            tag("p", id="found", role="status"),
            class_="find",
            id="search",
            hidden=True,
        )
        groups = [self._group(each["name"]) for each in self._document["tags"]]
        lists = (_links(_FIRST_LINKS), *groups, _links(_LAST_LINKS))
        contents = tag("details", tag("summary", "Contents"), *lists, open=True, id="contents")
        return tag("nav", search, contents, aria_label="Operations")

    def _group(self, name: str) -> Safe:
        links = [
            tag(
                "li",
                tag("a", parts.method(method), tag("span", operation["summary"]), href=f"#{operation['operationId']}"),
            )
            for _, method, operation in self._operations(name)
        ]
        return tag(
            "section", tag("h2", tag("a", parts.title(name), href=f"#{name}")), tag("ul", *links), class_="group"
        )

    def _operations(self, tag_name: str) -> list[tuple[str, str, Schema]]:
        return [
            (path, method, operation)
            for path, item in self._document["paths"].items()
            for method, operation in item.items()
            if tag_name in operation["tags"] and method != "head"
        ]

    # ── the text ──

    def _main(self, info: Schema) -> Safe:
        sections = [self._section(each) for each in self._document["tags"]]
        return tag(
            "main",
            _about(info),
            _authentication(self._document),
            _errors(),
            *sections,
            self._webhooks(),
            self._all_shapes(),
            id="main",
        )

    def _section(self, about: Schema) -> Safe:
        name = about["name"]
        articles = [self._article(*each) for each in self._operations(name)]
        return tag(
            "section",
            tag("h2", parts.title(name)),
            tag("p", parts.prose(about["description"])),
            *articles,
            id=name,
            class_="tag",
        )

    def _article(self, path: str, method: str, operation: Schema) -> Safe:
        name = operation["operationId"]
        facts = (*self._parameters(operation), self._body(operation), self._responses(operation))
        return tag(
            "article",
            tag("h3", tag("a", operation["summary"], href=f"#{name}")),
            tag("p", parts.method(method), tag("code", parts.breakable(path)), class_="address"),
            tag("p", parts.access(operation), class_="quiet"),
            tag(
                "div",
                tag("div", *facts, class_="facts"),
                tag("div", *self._samples(path, method, operation), class_="samples"),
                class_="columns",
            ),
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
                found += [tag("h4", title), tag("dl", *fields, class_="fields")]
        return found

    def _parameter(self, given: Schema) -> Safe:
        if given["in"] == "path":  # path parameters are always required strings
            return self._field(given["name"], {"type": "string"}, None, given["description"])
        return self._field(
            given["name"], given["schema"], _REQUIRED if given["required"] else None, given["description"]
        )

    def _body(self, operation: Schema) -> Child:
        if "requestBody" not in operation:
            return None
        body = operation["requestBody"]
        schema = self._resolve(body["content"]["application/json"]["schema"])
        title = tag("h4", "Body", None if body["required"] else tag("span", " optional", class_="quiet"))
        return join(title, self._fields(schema, sent=True))

    def _fields(self, schema: Schema, *, sent: bool) -> Safe:
        """List the fields. If callers send the shape, required fields are marked; otherwise fields that may be missing."""
        if "properties" not in schema:
            return tag("p", self._type(schema), " ", parts.bounds(schema))
        required = schema.get("required", [])
        fields = [
            self._field(name, found, _mark(name in required, sent), found.get("description", ""))
            for name, found in schema["properties"].items()
        ]
        return tag("dl", *fields, class_="fields") if fields else tag("p", "No fields.", class_="quiet")

    def _field(self, name: str, schema: Schema, mark: Safe | None, description: str) -> Safe:
        term = tag(
            "dt",
            tag("code", name),
            " ",
            tag("span", self._type(schema), class_="type"),
            mark,
        )
        bounds = parts.bounds(self._bounded(schema))
        text = join(parts.prose(description), " " if description and bounds else None, bounds)
        return tag("div", term, tag("dd", text) if text else None)

    def _responses(self, operation: Schema) -> Safe:
        rows = [
            tag(
                "div",
                tag("dt", tag("span", status, class_="status"), " ", self._shape_link(answer)),
                tag("dd", parts.prose(answer["description"])),
            )
            for status, answer in operation["responses"].items()
            if "$ref" not in answer
        ]
        problems = [status for status, answer in operation["responses"].items() if "$ref" in answer]
        other = tag("p", "Errors: ", tag("a", ", ".join(problems), href="#errors"), class_="quiet")
        return join(tag("h4", "Responses"), tag("dl", *rows, class_="fields"), other)

    def _shape_link(self, answer: Schema) -> Child:
        if "content" not in answer:
            return None
        return tag("span", self._type(answer["content"]["application/json"]["schema"]), class_="type")

    def _samples(self, path: str, method: str, operation: Schema) -> list[Child]:
        found: list[Child] = [parts.sample("Request", self._curl(path, method, operation))]
        for status, answer in operation["responses"].items():
            if "$ref" not in answer and "content" in answer:
                example = self._examples.of(answer["content"]["application/json"]["schema"])
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
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            body = parts.indented(self._examples.of(schema, required_only=True)).replace("'", "'\\''")
            lines += ["-H 'Content-Type: application/json'", f"-d '{body}'"]
        return " \\\n  ".join(lines)

    def _webhooks(self) -> Safe:
        articles = []
        for hook in self._document["webhooks"].values():
            headers = [
                self._field(each["name"], each["schema"], None, each["description"])
                for each in hook["post"]["parameters"]
            ]
            articles.append(tag("dl", *headers, class_="fields"))
        about = parts.prose(
            "A delivery is a POST to the endpoint's URL. Its body is the message's payload, byte for byte. "
            "With a token, `openapi.json` lists your own event types here, with their schemas."
        )
        return tag("section", tag("h2", "Webhooks"), tag("p", about), *articles, id="webhooks", class_="tag")

    def _all_shapes(self) -> Safe:
        shapes = [
            tag(
                "article",
                tag("h3", tag("a", parts.shape_name(name), href=f"#shape-{name}")),
                tag("p", parts.prose(schema["description"]), class_="quiet") if "description" in schema else None,
                self._fields(schema, sent=name in self._sent),
                id=f"shape-{name}",
                class_="shape",
            )
            for name, schema in self._shapes.items()
        ]
        return tag(
            "section",
            tag("h2", "Shapes"),
            tag("p", "The JSON shapes of request and response bodies."),
            *shapes,
            id="shapes",
            class_="tag",
        )

    # ── schemas in words ──

    def _shapes_in(self, node: Any) -> set[str]:
        """Return the names of all shapes that are referenced, directly or indirectly. No shape references itself."""
        if isinstance(node, list):
            return set().union(*map(self._shapes_in, node))
        if not isinstance(node, dict):
            return set()
        if "$ref" in node:
            name = node["$ref"].removeprefix(REF)
            return {name} | self._shapes_in(self._shapes[name])
        return self._shapes_in(list(node.values()))

    def _resolve(self, node: Schema) -> Schema:
        if "$ref" not in node:
            return node
        found: Any = self._document
        for step in node["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        resolved: Schema = found
        return resolved

    def _bounded(self, schema: Schema) -> Schema:
        """Return the schema with the values of its enumeration, which are shown where the enumeration is used."""
        for each in (schema, *schema.get("anyOf", [])):
            resolved = self._resolve(each)
            if "enum" in resolved:
                return {**resolved, **{key: value for key, value in schema.items() if key == "default"}}
        return schema

    def _type(self, schema: Schema) -> Safe:
        if "$ref" in schema:
            name = schema["$ref"].removeprefix(REF)
            return tag("a", parts.shape_name(name), href=f"#shape-{name}")
        if "anyOf" in schema:
            return _either([self._type(each) for each in schema["anyOf"]])
        kinds = schema.get("type", "any")
        return _either([self._kind(schema, kind) for kind in ([kinds] if isinstance(kinds, str) else kinds)])

    def _kind(self, schema: Schema, kind: str) -> Safe:
        if kind == "array":
            return join("list of ", self._type(schema.get("items", {})))
        if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
            return join("map of ", self._type(schema["additionalProperties"]))
        if kind == "string" and "format" in schema:
            return join(schema["format"])
        return join(kind)


_FIRST_LINKS = {"about": "About", "authentication-header": "Authentication", "errors": "Errors"}
_LAST_LINKS = {"webhooks": "Webhooks", "shapes": "Shapes"}
_REQUIRED = tag("span", " required", class_="required")
_OPTIONAL = tag("span", " may be missing", class_="type")


def _mark(required: bool, sent: bool) -> Safe | None:
    if sent:
        return _REQUIRED if required else None
    return None if required else _OPTIONAL


def _either(kinds: list[Safe]) -> Safe:
    found = kinds[0]
    for kind in kinds[1:]:
        found = join(found, " or ", kind)
    return found


# ── general sections ──────────────────────────────────────────────────────────────────────────────────────────────


def _links(links: dict[str, str]) -> Safe:
    return tag("ul", *(tag("li", tag("a", title, href=f"#{name}")) for name, title in links.items()), class_="plain")


def _about(info: Schema) -> Safe:
    paragraphs = [tag("p", parts.prose(part)) for part in info["description"].strip().split("\n\n")]
    return tag("section", tag("h1", f"{info['title']} API"), *paragraphs, id="about")


_FIRST = """\
export HOOKLINE=http://127.0.0.1:8071    # the address of this server
export TOKEN=$(hookline token)
curl "$HOOKLINE/api/v1/app" -H "Authorization: Bearer $TOKEN"\
"""


def _authentication(document: Schema) -> Safe:
    token = document["components"]["securitySchemes"]["token"]
    sample = parts.sample("Try it", _FIRST)
    return tag(
        "section",
        tag("h2", "Authentication"),
        tag("p", parts.prose(token["description"])),
        sample,
        id="authentication-header",
    )


def _errors() -> Safe:
    rows = [
        tag(
            "div",
            tag(
                "dt",
                tag("span", status, class_="status bad"),
                " ",
                tag("a", problem.shape.__name__, href=f"#shape-{problem.shape.__name__}"),
            ),
            tag("dd", problem.description),
        )
        for status, problem in PROBLEMS.items()
    ]
    about = parts.prose("Every error is JSON, also for an unknown path. A request with a 4xx response changed nothing.")
    return tag("section", tag("h2", "Errors"), tag("p", about), tag("dl", *rows, class_="fields"), id="errors")
