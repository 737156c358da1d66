"""Somebody who looks at pages: signed in or not, with a screen and a time zone; and what their browser complained of."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import BrowserContext, ConsoleMessage, Error, Page, Request, expect

from tests.browser.world import Customer, World
from tests.support.chromium import Chromium

PATIENCE = 60_000  # milliseconds for anything that a page should show
TURNS = 10  # of a page that goes on by itself, before it stands still
OVERTAKEN = ("interrupted by another navigation", "net::ERR_ABORTED")
PHONE = {"width": 390, "height": 844}
BAD = ("serious", "critical")

expect.set_options(timeout=PATIENCE)

_contexts: dict[str, BrowserContext] = {}  # of those who have signed in, by server and token; they end with the browser


class Visitor:
    def __init__(self, chromium: Chromium, world: World) -> None:
        self.chromium = chromium
        self.world = world
        self.complaints: list[str] = []
        self.expected: list[str] = []  # parts of complaints that the test provokes
        self.posted: list[str] = []  # paths
        self._pages: list[Page] = []
        self._contexts: list[BrowserContext] = []

    # ── ways in ──

    def stranger(self, **options: Any) -> Page:
        """Who has not signed in."""
        context = self._context(**options)
        self._contexts.append(context)
        return self._page(context)

    def _context(self, **options: Any) -> BrowserContext:
        screen = {"width": 1280, "height": 900}
        given = {"base_url": self.world.address, "ignore_https_errors": True, "viewport": screen, **options}
        context = self.chromium.browser.new_context(**given)
        context.set_default_timeout(PATIENCE)
        return context

    def _page(self, context: BrowserContext) -> Page:
        page = context.new_page()
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.complaints.append(f"{error}"))
        page.on("request", self._asked)
        self._pages.append(page)
        return page

    def operator(self, path: str = "/", **options: Any) -> Page:
        """Who may do everything, on this page."""
        return self.holder(self.world.token, path, **options)

    def holder(self, token: str, path: str = "/", **options: Any) -> Page:
        """Of a token or a key. The form is filled in once; who comes again has the cookie, and the files that do not change."""
        known = f"{self.world.address} {token}"
        if known not in _contexts:
            _contexts[known] = self._context()
            page = self._page(_contexts[known])
            page.goto("/login")
            page.locator("input[name=token]").fill(token)
            page.locator("form:has(input[name=token]) button").click()
            expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
        kept = _contexts[known].storage_state() if options else None
        page = self._page(_contexts[known]) if kept is None else self.stranger(storage_state=kept, **options)
        page.goto(path)
        return page

    def customer(self, customer: Customer, path: str = "", **options: Any) -> Page:
        """In the portal, by its link."""
        page = self.stranger(**options)
        page.goto(customer.portal())
        page.wait_for_url("**/portal**")
        if path:
            page.goto(f"/portal{path}")
        return page

    # ── what the browser says ──

    def _said(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.complaints.append(f"{message.text} ({message.location.get('url', '')})")

    def _asked(self, request: Request) -> None:
        asked = urlsplit(request.url)
        at_home = {urlsplit(self.world.address).netloc, *self.world.embedders.places}
        if asked.scheme not in ("data", "about") and asked.netloc not in at_home:
            self.complaints.append(f"asks elsewhere: {request.url}")
        if request.method == "POST":
            self.posted.append(asked.path)

    def leave(self) -> None:
        for context in self._contexts:
            context.close()  # with its pages
        for page in self._pages:
            if page.context not in self._contexts:
                page.remove_listener("console", self._said)  # there is no icon where it goes now
                _settle(page)
                page.evaluate("localStorage.clear()")  # whoever has this context next finds it as it was
                page.close()

    def check(self) -> None:
        unexpected = [said for said in self.complaints if not any(part in said for part in self.expected)]
        assert not unexpected, "\n".join(unexpected)


def _settle(page: Page) -> None:
    """Let the page stand still, at home. One that is closed while it turns to another may stay open in Chromium, and Playwright
    waits for its end for ever: https://github.com/microsoft/playwright/issues/42068."""
    for _ in range(TURNS):
        try:
            page.goto("/health/live")
        except Error as error:  # it was turning already
            if not any(words in error.message for words in OVERTAKEN):
                raise
        else:
            return
    raise AssertionError(f"{page.url} does not stand still")


# ── what must hold on every page ──────────────────────────────────────────────────────────────────────────────────


def chord(page: Page, keys: str) -> None:
    """One key after the other, however long a busy machine takes in between: for the page no time passes."""
    page.evaluate("performance.now = () => 0")
    page.keyboard.type(keys)


def noticed(page: Page, words: str) -> None:
    """What an action has to say."""
    expect(page.locator(".notice")).to_contain_text(words)


def accessible(page: Page) -> None:
    """In light and dark. Only colours differ between the two."""
    page.evaluate(AXE_SCRIPT)
    page.emulate_media(color_scheme="light")
    _axe(page, "light", {"resultTypes": ["violations"]})
    page.emulate_media(color_scheme="dark")
    _axe(page, "dark", {"resultTypes": ["violations"], "runOnly": ["color-contrast"]})
    page.emulate_media(color_scheme="light")


def _axe(page: Page, theme: str, options: dict[str, Any]) -> None:
    found = page.evaluate("options => axe.run(options)", options)["violations"]
    faults = [
        f"{theme} {page.url}: {fault['id']}: {node['html'][:200]} {node['failureSummary']}"
        for fault in found
        if fault["impact"] in BAD
        for node in fault["nodes"][:5]
    ]
    assert not faults, "\n\n".join(faults)


def fits(page: Page) -> None:
    """Nothing is beyond the right edge: the page itself is not scrolled sideways."""
    over = page.evaluate("document.scrollingElement.scrollWidth - document.documentElement.clientWidth")
    assert over <= 0, f"{page.url}: {over} pixels too wide"
