"""Opens pages as a visitor, signed in or not, with a screen size and a time zone, and collects errors of the browser."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import BrowserContext, ConsoleMessage, Error, Page, Request, expect

from tests.browser.world import Customer, World
from tests.support.chromium import Chromium

PATIENCE = 60_000  # milliseconds to wait for anything that a page should show
STILL_ATTEMPTS = 10  # attempts to reach a still page while the page navigates by itself
NAVIGATING = ("interrupted by another navigation", "net::ERR_ABORTED")
PHONE = {"width": 390, "height": 844}
BAD = ("serious", "critical")

expect.set_options(timeout=PATIENCE)

# contexts of signed-in visitors, by server and token; they end with the browser
_contexts: dict[str, BrowserContext] = {}


class Visitor:
    def __init__(self, chromium: Chromium, world: World) -> None:
        self.chromium = chromium
        self.world = world
        self.complaints: list[str] = []
        self.expected: list[str] = []  # parts of error messages that the test expects
        self.posted: list[str] = []  # paths of POST requests
        self._pages: list[Page] = []
        self._contexts: list[BrowserContext] = []

    # ── opening pages ──

    def stranger(self, **options: Any) -> Page:
        """Open a page without signing in."""
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
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.complaints.append(f"{error}"))
        page.on("request", self._on_request)
        self._pages.append(page)
        return page

    def operator(self, path: str = "/", **options: Any) -> Page:
        """Open this page as an operator who may do everything."""
        return self.holder(self.world.token, path, **options)

    def holder(self, token: str, path: str = "/", **options: Any) -> Page:
        """Open this page with a token or a key. The sign-in form is filled in once; later pages reuse the cookie and
        cached files."""
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
        """Open the portal by the customer's link."""
        page = self.stranger(**options)
        page.goto(customer.portal())
        page.wait_for_url("**/portal**")
        if path:
            page.goto(f"/portal{path}")
        return page

    # ── events of the browser ──

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.complaints.append(f"{message.text} ({message.location.get('url', '')})")

    def _on_request(self, request: Request) -> None:
        asked = urlsplit(request.url)
        at_home = {urlsplit(self.world.address).netloc, *self.world.embedders.places}
        if asked.scheme not in ("data", "about") and asked.netloc not in at_home:
            self.complaints.append(f"asks elsewhere: {request.url}")
        if request.method == "POST":
            self.posted.append(asked.path)

    def leave(self) -> None:
        for context in self._contexts:
            context.close()  # closes its pages too
        for page in self._pages:
            if page.context not in self._contexts:
                # The next page has no icon, and the browser would log that as an error.
                page.remove_listener("console", self._on_console)
                _settle(page)
                page.evaluate("localStorage.clear()")  # the next visitor with this context finds it unchanged
                page.close()

    def check(self) -> None:
        unexpected = [error for error in self.complaints if not any(part in error for part in self.expected)]
        assert not unexpected, "\n".join(unexpected)


def _settle(page: Page) -> None:
    """Navigate to a still page. Chromium may keep a page open that is closed while it navigates, and Playwright then
    waits forever: https://github.com/microsoft/playwright/issues/42068."""
    for _ in range(STILL_ATTEMPTS):
        try:
            page.goto("/health/live")
        except Error as error:  # the page was navigating already
            if not any(words in error.message for words in NAVIGATING):
                raise
        else:
            return
    raise AssertionError(f"{page.url} does not stand still")


# ── checks for every page ─────────────────────────────────────────────────────────────────────────────────────────


def press_keys(page: Page, keys: str) -> None:
    """Press one key after the other. The page's clock stands still, so a slow machine does not break the sequence."""
    page.evaluate("performance.now = () => 0")
    page.keyboard.type(keys)


def check_notice(page: Page, words: str) -> None:
    """Check the notice that an action shows."""
    expect(page.locator(".notice")).to_contain_text(words)


def check_accessible(page: Page) -> None:
    """Check accessibility in light and dark. The dark check covers only colours, because nothing else differs."""
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


def check_fits(page: Page) -> None:
    """Check that nothing lies beyond the right edge, so that the page does not scroll sideways."""
    over = page.evaluate("document.scrollingElement.scrollWidth - document.documentElement.clientWidth")
    assert over <= 0, f"{page.url}: {over} pixels too wide"
