"""One look at a page: who looks, at what, in which stretch of time, and how links are made. Handlers get it, and nothing else.

Whatever a handler reads goes through `context`, which knows what its viewer may reach: one organization, or, in the portal, one
application of it. Somebody else's looks as if it were not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from urllib.parse import quote, urlencode

from msgspec import Struct
from starlette.requests import Request

from hookline import ids
from hookline.errors import InvalidInput, NoSuch, NotFound
from hookline.model import Application, Endpoint, Message, Scope
from hookline.model.activity import MINUTE, QUARTER
from hookline.model.callers import Caller
from hookline.services import lookup
from hookline.services.deps import Deps
from hookline.services.lookup import EndpointRef, MessageRef
from hookline.store.protocols import Store
from hookline.web.context import WebContext
from hookline.web.html import Child, Safe, tag

PORTAL = "/portal"
MAX_PARAM = 500  # characters of one parameter of a URL
KEPT = ("app", "range")  # parameters that links carry on


class Range(Struct, frozen=True, kw_only=True):
    """The stretch of time that is picked once; charts and lists follow."""

    name: str
    words: str
    length: timedelta
    grain: int  # seconds of one step of `Store.activity`
    steps: int  # points of a chart


RANGES = {
    each.name: each
    for each in (
        Range(name="1h", words="Last hour", length=timedelta(hours=1), grain=MINUTE, steps=60),
        Range(name="6h", words="Last 6 hours", length=timedelta(hours=6), grain=QUARTER, steps=24),
        Range(name="24h", words="Last 24 hours", length=timedelta(hours=24), grain=QUARTER, steps=96),
        Range(name="7d", words="Last 7 days", length=timedelta(days=7), grain=QUARTER, steps=168),
    )
}
DEFAULT_RANGE = "1h"


class Viewer(Struct, frozen=True, kw_only=True):
    """Whoever has signed in."""

    caller: Caller
    name: str  # for the top of the page
    csrf: str  # what their forms must bring
    portal: bool = False

    @property
    def may_change(self) -> bool:
        return self.caller.scope == Scope.FULL


class PageContext:
    def __init__(
        self, request: Request, services: WebContext, viewer: Viewer, now: datetime, app: Application | None
    ) -> None:
        self.request = request
        self.services = services
        self.viewer = viewer
        self.now = now  # the database's
        self.app = app  # the one that is chosen; always, in the portal
        self.param("app")  # links carry it on: one that is no good is refused before any is made
        self.range = RANGES.get(self.param("range") or DEFAULT_RANGE)  # None: there is no such range
        self.timed = False  # whether the page has asked for the range: only then is there one to pick
        self.regions: dict[str, Safe] = {}  # what `live` made, in order

    # ── what was asked ──

    def param(self, name: str) -> str | None:
        """Of the URL; None if it is not there or empty."""
        value = self.request.query_params.get(name, "").strip()
        if len(value) > MAX_PARAM or "\x00" in value:
            raise InvalidInput("is too long, or has a NUL", field=name)
        return value or None

    def path(self, name: str) -> str:
        value: str = self.request.path_params[name]
        if len(value) > MAX_PARAM or "\x00" in value:
            raise NotFound("there is nothing at this address")
        return value

    def check_app(self) -> None:
        """Refuse a parameter `app` that names no application. Without this check, the page would show all applications."""
        ref = self.param("app")
        if ref is not None and self.app is None:
            raise NoSuch("application", ref)

    @property
    def span(self) -> Range:
        if self.range is None:
            raise InvalidInput(f"takes one of {', '.join(RANGES)}", field="range")
        self.timed = True
        return self.range

    @property
    def since(self) -> datetime:
        return self.now - self.span.length

    # ── links ──

    def link(self, path: str, /, **query: str | int | None) -> str:
        """To another page: the portal stays in the portal, and the application and the range stay chosen.

        A parameter that is given as None is left out, also one that would be carried on.
        """
        kept = {name: self.param(name) for name in KEPT if not (name == "app" and self.viewer.portal)}
        given: Mapping[str, str | int | None] = {**kept, **query}
        found = urlencode({name: value for name, value in given.items() if value is not None and value != ""})
        base = (PORTAL if self.viewer.portal else "") + quote(path)
        return (base or "/") + (f"?{found}" if found else "")

    def here(self, **query: str | int | None) -> str:
        """This page with other parameters; the rest stay as they are."""
        path = self.request.url.path.removeprefix(PORTAL) if self.viewer.portal else self.request.url.path
        given: dict[str, str | int | None] = dict(self.request.query_params.items())
        return self.link(path, **{**given, **query})

    # ── what they may reach ──

    @property
    def by(self) -> Caller:
        return self.viewer.caller

    @property
    def deps(self) -> Deps:
        return self.services.deps_for(self.by)

    @property
    def store(self) -> Store:
        return self.deps.store

    @property
    def org_id(self) -> str:
        return self.viewer.caller.org_id

    @property
    def app_no(self) -> int | None:
        return None if self.app is None else self.app.no

    @property
    def may_change(self) -> bool:
        return self.viewer.may_change

    @property
    def whole(self) -> bool:
        """Whether this viewer runs the deployment: pulses, depths and alerts tell of every organization."""
        return not self.viewer.portal and self.org_id == ids.DEFAULT_ORG

    async def application(self, ref: str) -> Application:
        """By id or uid."""
        return await lookup.application(self.deps, self.by, ref)

    async def endpoint(self, endpoint_id: str) -> Endpoint:
        return await lookup.endpoint(self.deps, self.by, EndpointRef(endpoint_id))

    async def message(self, message_id: str) -> Message:
        return await lookup.message(self.deps, self.by, MessageRef(message_id))

    async def names(self, app_ids: Iterable[str]) -> dict[str, str]:
        """Of these applications, by id, for lists that have several of them; none where one is chosen."""
        wanted = set(app_ids)
        return await self.store.application_names(self.org_id, wanted) if wanted and self.app is None else {}

    # ── parts that update in place ──

    def live(self, name: str, *children: Child, **attributes: str | bool | None) -> Safe:
        """A part of the page that is sent again when it changes. Its name is unique on the page."""
        made = tag("div", *children, id=f"live-{name}", data_live=True, **attributes)
        self.regions[f"live-{name}"] = made
        return made
