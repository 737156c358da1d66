"""A real Chromium for tests of the pages. The tests find or install it, launch it once, and control it from a separate
thread.

`HOOKLINE_TEST_BROWSER` names a browser. Otherwise the tests use a browser of the machine, or the one that Playwright
installs. `python -m tests.support.chromium` installs one if there is none.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from playwright.sync_api import Browser, Error, Playwright, sync_playwright

T = TypeVar("T")

VARIABLE = "HOOKLINE_TEST_BROWSER"
# The headless shell has no windows and starts in half the time.
COMMANDS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
INSTALL = (
    "the tests of the pages need a Chromium, and none was found that starts. Install one (Debian: apt install chromium; macOS: "
    "brew install --cask chromium), or run `playwright install --with-deps chromium`, or name yours: "
    f"{VARIABLE}=/path/to/chromium"
)
APT = (
    ("apt-get", "update", "--quiet"),
    ("apt-get", "install", "--yes", "--quiet", "--no-install-recommends", "chromium-headless-shell"),
    ("apt-get", "install", "--yes", "--quiet", "--no-install-recommends", "chromium"),
)


class NoBrowser(RuntimeError):
    """No browser starts. The message says how to install one."""


class Chromium:
    """The one browser of this process.

    Playwright's synchronous calls keep an event loop running in the thread that made the first call, so no asynchronous
    test could run in that thread again. `run` therefore makes all calls in another thread.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="chromium")
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None

    @property
    def browser(self) -> Browser:
        assert self._browser is not None
        return self._browser

    def run(self, work: Callable[[], T]) -> T:
        return self._thread.submit(work).result()

    def open(self) -> None:
        self.run(self._open)

    def close(self) -> None:
        self.run(self._close)
        self._thread.shutdown()

    def _open(self) -> None:
        self._playwright = sync_playwright().start()
        self._browser = launched(self._playwright)

    def _close(self) -> None:
        if self._browser is not None:
            self._browser.close()
        if self._playwright is not None:
            self._playwright.stop()


def launched(playwright: Playwright) -> Browser:
    """Launch the first candidate that starts."""
    refusals = []
    for path in candidates():
        try:
            return playwright.chromium.launch(executable_path=path)
        except Error as error:
            refusals.append(f"{path or 'Playwright'}: {error.message.splitlines()[0]}")
    raise NoBrowser("\n".join([INSTALL, *refusals]))


def candidates() -> Iterator[Path | None]:
    """Yield the paths of browsers to try. None stands for the browser that Playwright installed."""
    if chosen := os.environ.get(VARIABLE):
        yield Path(chosen)
        return
    found = (shutil.which(name) for name in COMMANDS)
    yield from dict.fromkeys(Path(path) for path in found if path is not None)
    yield None


# ── installation ──────────────────────────────────────────────────────────────────────────────────────────────────


def get() -> None:
    """Install a browser: Playwright's own, or the distribution's package if we may install it."""
    refusal = _refusal()
    if refusal and not os.environ.get(VARIABLE):
        root = os.geteuid() == 0 and shutil.which("apt-get") is not None
        _try(sys.executable, "-m", "playwright", "install", *(["--with-deps"] if root else []), "chromium")
        refusal = _refusal()
        if refusal and root:
            for command in APT:
                if refusal:
                    _try(*command)
                    refusal = _refusal()
    if refusal:
        sys.exit(refusal)


def _try(*command: str) -> None:
    print("no Chromium that starts here:", *command, flush=True)
    subprocess.run(command, check=False, env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"})


def _refusal() -> str | None:
    """Return why no browser starts, or None if one does."""
    with sync_playwright() as playwright:
        try:
            launched(playwright).close()
        except NoBrowser as error:
            return str(error)
    return None


if __name__ == "__main__":
    get()
