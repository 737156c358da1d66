"""`make screenshots`: pages of the demo after an hour, in light and dark, for the README and the documentation.

The listed messages are real: the demo delivered them. The hour before, which only charts show, is made up.
"""

from __future__ import annotations

import math
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
from playwright.sync_api import Browser, Page, expect, sync_playwright

from hookline import clock
from hookline.model.activity import ALL, MINUTE
from hookline.model.measures import ATTEMPTS, SECONDS
from hookline.model.pulses import EVERY, Pulse
from tests.support.chromium import launched

TARGET = Path(__file__).parents[2] / "docs" / "screenshots"
LASTS = 70.0  # seconds that the demo plays
MOST = 150_000  # maximum bytes of a picture
WIDTH = 1280
THEMES: tuple[Any, ...] = ("light", "dark")


def main() -> None:
    TARGET.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as directory, _demo(directory) as shown, sync_playwright() as playwright:
        (database,) = Path(directory).glob("*/hookline.db")
        with closing(sqlite3.connect(database, timeout=30)) as connection, connection:
            _make_up(connection)
        print(f"the demo plays for {LASTS:.0f} seconds ...", flush=True)
        time.sleep(LASTS)  # time must pass until the pages show something
        browser = launched(playwright)
        for theme in THEMES:
            _take_all(_opened(browser, shown["dashboard"], theme), shown["address"], theme)
            _take(_opened(browser, shown["portal"], theme), "portal", theme)
        browser.close()


@contextmanager
def _demo(directory: str) -> Iterator[dict[str, str]]:
    command = [sys.executable, "-m", "hookline", "demo", "--json", "--port", "0"]
    demo = subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | {"TMPDIR": directory})
    try:
        assert demo.stdout is not None
        yield msgspec.json.decode(demo.stdout.readline())
    finally:
        demo.terminate()
        demo.wait(20)


# ── the made-up hour ──

# Attempts per minute that were delivered, retried and dead, by endpoint.
BEFORE = {
    "shop": (140, 0, 0),
    "warehouse": (120, 0, 0),
    "billing": (100, 0, 0),
    "crm": (80, 26, 0),
    "reports": (60, 2, 0),
    "erp": (50, 18, 0),
    "ledger": (24, 0, 5),
    "legacy": (6, 0, 0),
}


def _make_up(connection: sqlite3.Connection) -> None:
    rows = connection.execute("SELECT app_no, no, uid FROM endpoint").fetchall()
    chance = random.Random(4)
    for minute in range(1, 60):
        at = clock.to_micros(clock.wall() - timedelta(minutes=minute)) // (MINUTE * 1_000_000) * MINUTE * 1_000_000
        wave = 1 + 0.25 * math.sin(minute / 7) + chance.uniform(-0.1, 0.1)
        for app_no, endpoint_no, uid in rows:
            for no in (endpoint_no, ALL):
                did = [round(value * wave) for value in BEFORE[uid]]
                connection.execute(_ADD, (app_no, no, MINUTE, at, *did))
        for beat in range(6):
            pulse = _pulse(wave)
            pulse.at = clock.wall() - timedelta(minutes=minute, seconds=-beat * EVERY)
            data = msgspec.json.encode(pulse)
            connection.execute(
                "INSERT OR IGNORE INTO pulse VALUES (0, ?, 'before', ?)", (clock.to_micros(pulse.at), data)
            )


_ADD = (
    "INSERT INTO activity VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET delivered = delivered + excluded.delivered,"
    " retried = retried + excluded.retried, dead = dead + excluded.dead"
)


def _pulse(wave: float) -> Pulse:
    delivered, retried, dead = (sum(each[at] for each in BEFORE.values()) * wave / 6 for at in range(3))
    return Pulse(
        at=clock.wall(),
        accepted=delivered,
        attempts={"delivered": delivered, "retry": retried, "dead": dead},
        results={"2xx": delivered, "5xx": retried, "4xx": dead},
        dead={"permanent_failure": dead},
        latency=_histogram(SECONDS, delivered, 0.03 * wave),
        first_latency=_histogram(SECONDS, delivered, 0.008 * wave),
        lag=_histogram(SECONDS, delivered, 0.006 * wave),
        duration=_histogram(SECONDS, delivered, 0.02),
        used=_histogram(ATTEMPTS, delivered, 1.0),
    )


def _histogram(bounds: tuple[float, ...], count: float, middle: float) -> list[float]:
    """Return a histogram of `count` values around `middle`: the number in each bucket, then the sum of the values."""
    parts = [math.exp(-abs(math.log(bound / middle)) * 1.2) for bound in bounds]
    return [*(count * part / sum(parts) for part in parts), 0.0, count * middle]


# ── pages ──


def _opened(browser: Browser, link: str, theme: Any) -> Page:
    context = browser.new_context(color_scheme=theme, timezone_id="UTC", locale="en-GB")
    page = context.new_page()
    page.goto(link)
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview", timeout=15_000)
    return page


def _take_all(page: Page, address: str, theme: str) -> None:
    _take(page, "overview", theme, height=930)
    page.goto(f"{address}/dead-letters")
    _take(page, "dead-letters", theme)
    page.goto(f"{address}/endpoints")
    _take(page, "endpoints", theme)
    page.get_by_role("link", name="/globex/billing").first.click()
    _take(page, "endpoint", theme)
    page.goto(f"{address}/messages?state=dead")
    page.locator("main tbody a[href*='/messages/']").first.click()
    _take(page, "message", theme)


def _take(page: Page, name: str, theme: str, height: int = 760) -> None:
    page.wait_for_load_state()
    page.set_viewport_size({"width": WIDTH, "height": height})
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    picture = page.screenshot(animations="disabled", caret="hide")
    (TARGET / f"{name}-{theme}.png").write_bytes(picture)
    print(f"{name}-{theme}.png: {len(picture) / 1000:.0f} KB", flush=True)
    if len(picture) > MOST:
        sys.exit(f"{name}-{theme}.png is larger than {MOST / 1000:.0f} KB")


if __name__ == "__main__":
    main()
