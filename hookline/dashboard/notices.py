"""The message that an action shows on the next page. It is stored in a signed cookie and shown once."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from hookline.dashboard.cookies import Cookies
from hookline.web.context import WebContext

COOKIE = "notice"
SECONDS = 60.0
MAX_CHARACTERS = 300  # characters of a message; it may contain a long URL, and the size of cookies is limited
_MAX_COOKIE = 3000  # characters of the cookie that are read; the longest message needs fewer


class Notices:
    def __init__(self, services: WebContext) -> None:
        self._pages = services.pages
        self._cookies = Cookies(services)

    def give(self, answer: Response, notice: str, request: Request, *, portal: bool) -> None:
        words = notice if len(notice) <= MAX_CHARACTERS else f"{notice[: MAX_CHARACTERS - 1]}…"
        raw = urlsafe_b64encode(msgspec.json.encode(words)).decode()
        value = f"{raw}.{self._pages.proof('notice', raw)}"
        self._cookies.give(answer, request, COOKIE, value, portal=portal, seconds=SECONDS)

    def taken(self, request: Request, *, portal: bool) -> str | None:
        raw, _, proof = self._cookies.get(request, COOKIE, portal=portal)[:_MAX_COOKIE].partition(".")
        if not self._pages.proves(proof, "notice", raw):
            return None
        try:
            return msgspec.json.decode(urlsafe_b64decode(raw), type=str)
        except (ValueError, msgspec.MsgspecError):
            return None

    def forget(self, answer: Response, request: Request, *, portal: bool) -> None:
        self._cookies.delete(answer, request, COOKIE, portal=portal)
