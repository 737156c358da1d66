"""A browser for tests, without a screen: it has cookies, reads pages and submits forms over a real socket."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

from hookline.dashboard.page_context import PORTAL
from tests.dashboard.markup import Node, parse

FORM = "application/x-www-form-urlencoded"
Fields = Mapping[str, str | Sequence[str]]


class Cookie(NamedTuple):
    value: str
    path: str
    attributes: frozenset[str]  # in lower case, such as `httponly` and `samesite=lax`


class Shown:
    """The answer to a request of the browser."""

    def __init__(self, path: str, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.path = path
        self.status = status
        self.headers = {name.lower(): value for name, value in headers}
        self.set_cookies = [value for name, value in headers if name.lower() == "set-cookie"]
        self.body = body

    def __repr__(self) -> str:
        return f"{self.path}: {self.status} {self.headers} {self.body[:3000]!r}"

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def location(self) -> str:
        assert self.status == 303, self
        return self.headers["location"]

    def page(self, status: int = 200) -> Node:
        """Check the status and return the page as a tree."""
        assert self.status == status, self
        assert self.headers["content-type"].startswith("text/html"), self
        return parse(self.text)


class Client:
    """A browser with cookies. With `portal=True` its pages are below `/portal`."""

    def __init__(self, address: str, *, portal: bool = False, source: str = "127.0.0.1") -> None:
        self.address = address
        self.source = source
        self.portal = portal
        self.cookies: dict[str, Cookie] = {}
        self._csrf: str | None = None

    async def get(self, path: str, **headers: str) -> Shown:
        return await self.send("GET", path, None, {name.replace("_", "-"): value for name, value in headers.items()})

    async def page(self, path: str, status: int = 200) -> Node:
        return (await self.get(path)).page(status)

    async def post(self, path: str, fields: Fields | None = None, /, **more: str | Sequence[str]) -> Shown:
        """Post form fields with the CSRF token of this session. Redirects are not followed."""
        given: dict[str, str | Sequence[str]] = {"csrf": await self.csrf(), **(fields or {}), **more}
        return await self.send("POST", path, urlencode(given, doseq=True).encode(), {"content-type": FORM})

    async def submit(self, form: Node, /, **changes: str | Sequence[str]) -> Shown:
        """Submit a form of a page, with these fields changed."""
        fields: dict[str, str | Sequence[str]] = {**form.fields(), **changes}
        raw = urlencode(fields, doseq=True)
        if form.get("method") == "post":
            return await self.send("POST", form["action"], raw.encode(), {"content-type": FORM})
        return await self.get(f"{form['action'].partition('?')[0]}?{raw}")

    async def follow(self, answer: Shown) -> Shown:
        """Open the page that a redirect names."""
        return await self.get(answer.location)

    async def done(self, path: str, fields: Fields | None = None, /, **more: str | Sequence[str]) -> Node:
        """Post a form, follow the redirect, and return the page with the notice."""
        return (await self.follow(await self.post(path, fields, **more))).page()

    async def csrf(self) -> str:
        """Return the CSRF token of this session. Every page has it in its sign-out form, also a 404 page."""
        if self._csrf is None:
            shown = await self.get(f"{PORTAL if self.portal else ''}/messages/none")
            self._csrf = shown.page(404).first("input", name="csrf")["value"]
        return self._csrf

    async def sign_in(self, path: str = "/login", /, **fields: str) -> Shown:
        """Fill in and submit the form of the sign-in page that has these fields."""
        page = await self.page(path)
        [form] = [form for form in page.all("form") if fields.keys() <= form.fields().keys()]
        self._csrf = None
        return await self.submit(form, **fields)

    async def send(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Shown:
        return await asyncio.to_thread(self._send, method, path, body, headers)

    def _send(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Shown:
        given = dict(headers)
        if (cookie := self._cookie(urlsplit(path).path)) and "cookie" not in given:
            given["cookie"] = cookie
        connection = http.client.HTTPConnection(self.address, timeout=60, source_address=(self.source, 0))
        try:
            connection.request(method, path, body, given)
            answer = connection.getresponse()
            shown = Shown(path, answer.status, answer.getheaders(), answer.read())
        finally:
            connection.close()
        for line in shown.set_cookies:
            self._take(line)
        return shown

    # ── cookies ──

    def _cookie(self, path: str) -> str:
        return "; ".join(
            f"{name}={cookie.value}" for name, cookie in self.cookies.items() if _within(path, cookie.path)
        )

    def _take(self, line: str) -> None:
        pair, *rest = (part.strip() for part in line.split(";"))
        name, _, value = pair.partition("=")
        attributes = {key.lower(): text for key, _, text in (part.partition("=") for part in rest)}
        if attributes.get("max-age") == "0":
            self.cookies.pop(name, None)
            return
        told = frozenset(f"{key}={text.lower()}" if text else key for key, text in attributes.items())
        self.cookies[name] = Cookie(value.strip('"'), attributes.get("path", "/"), told)


def _within(path: str, prefix: str) -> bool:
    return prefix in ("/", path) or path.startswith(f"{prefix}/")
