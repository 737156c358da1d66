"""One API request on its way through a handler: who calls, what they ask for, what they get."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from hookline.api import body, wire
from hookline.api.auth import Caller
from hookline.api.errors import Refused
from hookline.api.services import Services
from hookline.model import Application
from hookline.store.base import Page, Store

T = TypeVar("T")

DEFAULT_LIMIT = 50
MOST_LISTED = 250
MOST_BODY = 256 * 1024  # of a request that carries no payload

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class Call:
    def __init__(self, request: Request, services: Services, caller: Caller) -> None:
        self.request = request
        self.services = services
        self.caller = caller

    @property
    def store(self) -> Store:
        return self.services.store

    def path(self, name: str) -> str:
        value = self.request.path_params[name]
        assert isinstance(value, str)
        return _without_controls(name, value)

    async def application(self) -> Application:
        return await self.services.auth.application(self.caller, self.path("app_id"))

    def whole_organization(self) -> str:
        """The organization's id, for routes beyond one application."""
        self.services.auth.whole_organization(self.caller)
        return self.caller.org_id

    async def raw_body(self, most: int = MOST_BODY) -> bytes:
        return await body.read(self.request, most=most, seconds=self.services.body_time)

    async def body(self, shape: type[T], most: int = MOST_BODY) -> T:
        return body.decode(await self.raw_body(most), shape)

    def flag(self, name: str) -> bool:
        text = self.request.query_params.get(name, "false")
        if text not in ("true", "false"):
            raise Refused(400, f"{name} takes true or false")
        return text == "true"

    def page(self) -> Page:
        iterator = self.request.query_params.get("iterator") or None
        if iterator is not None:
            _without_controls("iterator", iterator)
        backwards = iterator is not None and iterator.startswith("-")
        return Page(limit=self._limit(), iterator=iterator.removeprefix("-") if iterator else None, backwards=backwards)

    def _limit(self) -> int:
        text = self.request.query_params.get("limit")
        if text is None:
            return DEFAULT_LIMIT
        # The length first: Python refuses to read thousands of digits with an error of its own.
        if len(text) > 9 or not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= MOST_LISTED:
            raise msgspec.ValidationError(f"limit takes a number from 1 to {MOST_LISTED}")
        return int(text)


def _without_controls(name: str, value: str) -> str:
    """Nothing is named with them, PostgreSQL fails on a NUL, and answers and logs repeat what was asked for."""
    if _CONTROL.search(value):
        raise Refused(400, f"{name} has a control character")
    return value


def respond(value: object, status: int = 200) -> Response:
    return Response(wire.encode(value), status, media_type="application/json")


def listing(rows: list[Any], ids: list[str], limit: int) -> Response:
    """A page of a listing; the caller asked the store for one row more than `limit`, to know whether there are others."""
    done = len(rows) <= limit
    shown, keys = rows[:limit], ids[:limit]
    return respond(
        wire.ListOut(
            data=shown,
            done=done,
            iterator=keys[-1] if keys else None,
            prev_iterator=f"-{keys[0]}" if keys else None,
        )
    )


def one_more(page: Page) -> Page:
    return msgspec.structs.replace(page, limit=page.limit + 1)
