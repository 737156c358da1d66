"""Text written by customers and receivers is shown as text on every page."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import one_engine
from tests.browser.example_data import crawled
from tests.browser.visitor import Visitor
from tests.browser.world import Customer, World
from tests.support.receiver import Behaviour

MARK = "data-owned"
FIELDS = (
    *("application", "description", "header", "metadata", "payload", "key", "cause", "note"),
    *("type", "schema", "body", "answer"),
)


def evil(field: str) -> str:
    """Return text that ends an attribute, an element and a script, and that would run as a script."""
    return f"""'"></script></textarea><b {MARK}={field}></b><img src=x onerror=window.owned=1>{{{{7*7}}}}"""


@pytest.fixture
def victim(world: World) -> tuple[Customer, list[str]]:
    """A customer with hostile text, and pages that show more of it than the first pages of the crawl."""
    answer = Behaviour(
        status=404, body=evil("body").encode(), headers={"server": evil("answer"), "content-type": "text/html"}
    )
    name = f"evil.{len(world.receiver.requests)}"
    world.post(
        "/event-type",
        {"name": name, "description": evil("type"), "schemas": {"1": {"title": evil("schema"), "type": "object"}}},
    )
    customer = world.customer(evil("application"), metadata={"plan": evil("metadata")})
    endpoint = customer.endpoint(
        answer,
        description=evil("description"),
        headers={"x-shop": evil("header")},
        metadata={evil("metadata")[:60]: "1"},
        policy={"maxAttempts": 1},
    )
    sent = [customer.publish({evil("payload"): evil("payload")}, name, orderingKey=key) for key in (evil("key"), None)]
    letters = customer.wait_for_dead(2)
    world.post(f"/app/{customer.id}/dead-letter/{letters[0]['id']}/resolve", {"note": evil("note")})
    world.post(f"/app/{customer.id}/endpoint/{endpoint.id}/pause", {"cause": evil("cause")[:200]})
    return customer, ["/dead-letters?state=resolved", *(f"/messages/{each}" for each in sent)]


@one_engine
def test_hostile_text_never_becomes_markup(visitor: Visitor, victim: tuple[Customer, list[str]]) -> None:
    customer, more = victim
    page = visitor.operator()
    links = crawled(page, [f"/?app={customer.id}"], portal=False).found.values()
    seen = "".join(_page_texts(page, [*links, *more]))
    unseen = [field for field in FIELDS if f"<b {MARK}={field}>" not in seen]
    assert unseen == []
    # The portal has the same pages with another layout around them.
    page = visitor.customer(customer)
    seen = "".join(_page_texts(page, ["/portal", *(f"/portal{each}" for each in more)]))
    assert all(f"<b {MARK}={field}>" in seen for field in ("application", "payload", "note", "body"))


def _page_texts(page: Page, addresses: list[str]) -> list[str]:
    """Return the text of each page."""
    texts = []
    for address in addresses:
        if "/export" in address or address.partition("?")[0].endswith("/payload"):
            continue
        page.goto(address)
        expect(page.get_by_role("heading", level=1)).to_have_count(1)
        assert page.locator(f"[{MARK}], img[src=x]").count() == 0, address
        assert page.evaluate("window.owned") is None, address
        texts.append(page.evaluate(_TEXT))
    return texts


_TEXT = """() => document.body.textContent
    + [...document.querySelectorAll("input, textarea")].map((field) => field.value).join("")
    + [...document.querySelectorAll("[data-copy]")].map((button) => button.dataset.copy).join("")"""
