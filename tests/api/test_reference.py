"""The API reference page is complete, well formed, and works under a strict content security policy."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser

import msgspec
import pytest

from hookline.api import docs, openapi
from hookline.api.docs.examples import Examples
from hookline.api.docs.page import Reference
from hookline.api.operation import Operation
from hookline.api.routes import OPERATIONS
from tests.api.conftest import Client
from tests.support.scene import Scene

VOID = {"br", "hr", "input", "link", "meta", "wbr"}


class Page(HTMLParser):
    """Collects the tags and texts of a page, and checks that every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def all(self, attribute: str) -> list[str]:
        return [value for _, given in self.tags if (value := given.get(attribute)) is not None]


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(docs.rendered().decode())


async def test_the_page_needs_no_token(nobody: Client) -> None:
    for path in ("/docs", "/docs/"):
        answer = await nobody.get(path)
        assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.body == docs.rendered()


async def test_every_file_that_the_page_loads_is_served(nobody: Client, page: Page) -> None:
    loaded = [*page.all("src"), *(given["href"] or "" for tag, given in page.tags if tag == "link")]
    assert len(loaded) == 2
    for path in loaded:
        answer = await nobody.get(path)
        assert answer.status == 200
        assert answer.headers["content-type"].split(";")[0] in ("text/css", "text/javascript")
        assert b"http:" not in answer.body
        assert b"https:" not in answer.body


def test_nothing_is_inline_and_nothing_is_elsewhere(page: Page) -> None:
    for tag, given in page.tags:
        assert tag != "style"
        assert tag != "script" or given.get("src")
        assert not [name for name in given if name == "style" or name.startswith("on")]
    assert [each for each in (*page.all("href"), *page.all("src")) if not each.startswith(("#", "/"))] == []


def test_every_operation_is_on_it(page: Page) -> None:
    assert {operation.name for operation in OPERATIONS} <= set(page.all("id"))


def test_links_lead_somewhere(page: Page) -> None:
    assert [name for name, count in Counter(page.all("id")).items() if count > 1] == []
    anchors = {href[1:] for href in page.all("href") if href.startswith("#")}
    assert anchors <= set(page.all("id"))


def test_the_page_is_accessible_by_keyboard_and_screen_reader(page: Page) -> None:
    labelled = set(page.all("for"))
    inputs = [given for tag, given in page.tags if tag == "input"]
    assert {given.get("id") for given in inputs} <= labelled
    tags = Counter(tag for tag, _ in page.tags)
    assert (tags["main"], tags["h1"], tags["nav"], tags["header"]) == (1, 1, 1, 1)
    assert page.tags[0][1].get("lang") == "en"
    # long examples scroll, so the keyboard must reach them
    assert all(given.get("tabindex") == "0" for tag, given in page.tags if tag == "pre")


def test_descriptions_are_escaped() -> None:
    document = msgspec.json.decode(openapi.describe([]))
    path = document["paths"]["/api/v1/app"]["get"]
    path["summary"] = "<script>alert(1)</script>"
    path["parameters"][0]["description"] = '"><img src=x onerror=alert(1)> `</code><b>`'
    shown = Page(Reference(document).page())
    assert "<script>alert(1)</script>" in shown.texts
    assert not [tag for tag, _ in shown.tags if tag in ("img", "b")]


def test_examples_are_of_their_schemas() -> None:
    """Every example body of the page is valid for its operation."""
    document = msgspec.json.decode(openapi.describe([]))
    examples = Examples(document["components"]["schemas"])
    for operation in OPERATIONS:
        if operation.body is not None:
            entry = document["paths"][f"/api/v1{operation.path}"][operation.method.lower()]
            schema = entry["requestBody"]["content"]["application/json"]["schema"]
            raw = msgspec.json.encode(examples.of(schema, required_only=True))
            msgspec.json.decode(raw, type=operation.body)


_KNOWN = re.compile(r"{(?!app_id}|endpoint_id}|event_type_name})")


@pytest.mark.parametrize(
    "operation",
    [
        each
        for each in OPERATIONS
        if each.body is not None and not _KNOWN.search(each.path) and "/operational-webhook/endpoint/" not in each.path
    ],
    ids=lambda operation: operation.name,
)
async def test_every_example_request_succeeds(client: Client, scene: Scene, operation: Operation) -> None:
    """Every example request of the page succeeds as printed, once its path has real ids."""
    endpoint = await scene.endpoint()
    await client.post("/api/v1/event-type", {"name": "order.paid", "description": "Paid"})
    document = msgspec.json.decode(openapi.describe([]))
    entry = document["paths"][f"/api/v1{operation.path}"][operation.method.lower()]
    schema = entry["requestBody"]["content"]["application/json"]["schema"]
    body = msgspec.json.encode(Examples(document["components"]["schemas"]).of(schema, required_only=True))
    path = operation.path.format(app_id=scene.app.id, endpoint_id=endpoint.id, event_type_name="order.paid")

    answer = await client.request(operation.method, f"/api/v1{path}", body, {})
    assert answer.status < 300 or (answer.status == 409 and operation.name == "v1.event-type.create"), (body, answer)
