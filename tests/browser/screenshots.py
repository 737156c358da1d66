"""`make screenshots`: pages of the demo as they look after a while, in light and dark, for the README and the documentation."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from playwright.sync_api import Page, expect, sync_playwright

from tests.support.chromium import launched

TARGET = Path(__file__).parents[2] / "docs" / "screenshots"
LASTS = 150.0  # seconds that the demo plays before anybody looks: minutes are what charts are made of
MOST = 150_000  # bytes
SIZE: Any = {"width": 1280, "height": 860}
THEMES: tuple[Any, ...] = ("light", "dark")


def main() -> None:
    TARGET.mkdir(exist_ok=True)
    with _demo() as shown, sync_playwright() as playwright:
        browser = launched(playwright)
        print(f"the demo plays for {LASTS:.0f} seconds ...", flush=True)
        time.sleep(LASTS)  # what is on the pages is made by time passing
        for theme in THEMES:
            for portal in (False, True):
                context = browser.new_context(viewport=SIZE, color_scheme=theme, timezone_id="UTC", locale="en-GB")
                page = context.new_page()
                page.goto(shown["portal" if portal else "dashboard"])
                expect(page.get_by_role("heading", level=1)).to_have_text("Overview", timeout=15_000)
                _take_portal(page, theme) if portal else _take_all(page, shown["address"], theme)
                context.close()
        browser.close()


@contextmanager
def _demo() -> Iterator[dict[str, str]]:
    command = [sys.executable, "-m", "hookline", "demo", "--json", "--port", "0"]
    demo = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert demo.stdout is not None
        yield msgspec.json.decode(demo.stdout.readline())
    finally:
        demo.terminate()
        demo.wait(20)


def _take_all(page: Page, address: str, theme: str) -> None:
    _take(page, "overview", theme)
    page.goto(f"{address}/dead-letters")
    _take(page, "dead-letters", theme)
    page.goto(f"{address}/endpoints")
    _take(page, "endpoints", theme)
    page.get_by_role("link", name="billing").first.click()
    _take(page, "endpoint", theme)
    page.goto(f"{address}/messages?state=dead")
    page.locator("main tbody a[href*='/messages/']").first.click()
    _take(page, "message", theme)


def _take_portal(page: Page, theme: str) -> None:
    _take(page, "portal", theme)


def _take(page: Page, name: str, theme: str) -> None:
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    path = TARGET / f"{name}-{theme}.png"
    page.screenshot(path=path, animations="disabled", caret="hide")
    size = path.stat().st_size
    print(f"{path.name}: {size / 1000:.0f} KB", flush=True)
    if size > MOST:
        sys.exit(f"{path.name} is larger than {MOST / 1000:.0f} KB")


if __name__ == "__main__":
    main()
