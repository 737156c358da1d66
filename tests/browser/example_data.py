"""Example data for every page, and the URL of each page as other pages link to it."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Sequence
from html import unescape
from urllib.parse import urlsplit

from msgspec import Struct
from playwright.sync_api import Page
from starlette.routing import compile_path

from hookline.dashboard import pages
from hookline.dashboard.page import View
from hookline.dashboard.page_context import PORTAL
from tests.browser.visitor import Visitor
from tests.browser.world import FAILS, REFUSES, Customer, World

LIMIT = 4  # number of URLs per page whose links are followed


class PageUrls(Struct):
    """The URLs that the links of all pages lead to."""

    found: dict[str, str] = {}  # one URL of each page, by its route
    broken: dict[str, int] = {}  # linked URLs that do not answer 200, and their status


_HREF = re.compile(r'<a\b[^>]*?\bhref="([^"]+)"')
_scenes: dict[str, Customer] = {}  # by the address of the server
_page_urls: dict[tuple[str, bool], PageUrls] = {}


def scene(world: World) -> Customer:
    """The customer with the example data. Tests do not change it."""
    if world.address not in _scenes:
        _scenes[world.address] = _made(world)
    return _scenes[world.address]


def _made(world: World) -> Customer:
    world.catalogue()
    customer = world.customer("Acme Store")
    healthy, refuses = customer.endpoint(), customer.endpoint(REFUSES)
    customer.endpoint(FAILS, description="in maintenance", policy={"maxAttempts": 1})
    paused = customer.endpoint()
    world.post(f"/app/{customer.id}/endpoint/{paused.id}/pause", {"cause": "they move to another data centre"})
    customer.endpoint(disabled=True)
    for number in range(1, 7):
        customer.publish({"order": number}, eventId=f"evt-{number}", channels=["shop-1"], tags=["eu"])
    customer.wait_for_dead(6, refuses)
    healthy.wait_for(6)
    world.post("/api-key", {"name": "checkout service", "scope": "publish"})
    world.post(f"/app/{customer.id}/dead-letter/replay", {"endpointId": refuses.id})
    refuses.wait_for(12)
    customer.wait_for_dead(6, refuses)
    return customer


def views(*, portal: bool) -> list[View]:
    return [view for view in pages.VIEWS if view.portal or not portal]


def page_url(visitor: Visitor, view: View, *, portal: bool = False) -> str:
    """Return a URL of this page that another page links to."""
    found = page_urls(visitor, portal=portal).found.get(view.path)
    assert found is not None, f"no page links to {view.path}"
    return found


def page_urls(visitor: Visitor, *, portal: bool = False) -> PageUrls:
    known = (visitor.world.address, portal)
    if known not in _page_urls:
        customer = scene(visitor.world)
        page = visitor.customer(customer) if portal else visitor.operator()
        # Other tests have customers on the same server, so start with the messages of this one.
        starts = [PORTAL] if portal else ["/", f"/messages?app={customer.id}"]
        _page_urls[known] = crawled(page, starts, portal=portal)
    return _page_urls[known]


def crawled(page: Page, starts: Sequence[str], *, portal: bool) -> PageUrls:
    """Follow the links from page to page by requests, without rendering."""
    routes = _routes(portal=portal)
    made = PageUrls()
    taken: Counter[str] = Counter()
    waiting, seen = deque(starts), set(starts)
    while waiting:
        address = waiting.popleft()
        route = next((path for path, pattern in routes if pattern.match(urlsplit(address).path)), "")
        taken[route] += 1
        if taken[route] > LIMIT:
            continue
        answer = page.request.get(address, max_redirects=0)
        if answer.status != 200:
            made.broken[address] = answer.status
            continue
        made.found.setdefault(route, address)
        new = _links(answer.text()) - seen if "text/html" in answer.headers["content-type"] else set()
        seen |= new
        waiting.extend(sorted(new))
    return made


def _routes(*, portal: bool) -> list[tuple[str, re.Pattern[str]]]:
    """Return the most specific routes first, as the server matches them."""
    prefix = PORTAL if portal else ""
    paths = sorted(
        (view.path for view in views(portal=portal)),
        key=lambda path: [step.startswith("{") for step in path.split("/")],
    )
    return [(path, compile_path((prefix + path).rstrip("/") or "/")[0]) for path in paths]


def _links(html: str) -> set[str]:
    return {href for href in map(unescape, _HREF.findall(html)) if href.startswith("/")}
