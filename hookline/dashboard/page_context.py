"""The context of one page request: the viewer, the chosen application and time range, and the links.

The context is the only argument of a page handler. Handlers read all data through it, because it knows what the
viewer may see: one organization or, in the portal, one application. All other objects look as if they did not exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import TypeVar
from urllib.parse import quote, urlencode

from msgspec import Struct
from starlette.requests import Request

from hookline import ids
from hookline.errors import InvalidInput, NoSuch, NotFound
from hookline.model.activity import MINUTE, QUARTER
from hookline.model.actors import Scope
from hookline.model.callers import Caller
from hookline.model.catalogue import Application
from hookline.model.endpoints import Endpoint
from hookline.model.messages import Message
from hookline.services import lookup
from hookline.services.deps import Deps
from hookline.services.lookup import EndpointRef, MessageRef
from hookline.store import Page as Rows
from hookline.store import Store
from hookline.web.context import WebContext
from hookline.web.html import Child, Safe, tag

S = TypeVar("S", bound=str)

PORTAL = "/portal"
MAX_PARAM = 500  # characters in one URL parameter
KEPT = ("app", "range")


class Range(Struct, frozen=True, kw_only=True):
    """A time range that the viewer can pick at the top of the page. Charts and lists use it."""

    name: str
    words: str
    length: timedelta
    grain: int  # length of one step of `store.monitoring.activity`, in seconds
    steps: int  # number of points in a chart


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
    """The person who is signed in."""

    caller: Caller
    name: str  # shown at the top of the page
    csrf: str  # the CSRF token that the forms of this person must send
    portal: bool = False


class PageContext:
    def __init__(
        self, request: Request, services: WebContext, viewer: Viewer, now: datetime, app: Application | None
    ) -> None:
        self.request = request
        self.services = services
        self.viewer = viewer
        self.now = now  # time of the database
        self.app = app  # the chosen application; never None in the portal
        self.param("app")  # raises for an invalid value, before any link repeats the value
        self.range = RANGES.get(self.param("range") or DEFAULT_RANGE)  # None: the URL names an unknown range
        self.uses_range = False  # whether the page has read the range; only then does the layout show the range picker
        self.regions: dict[str, Safe] = {}  # the live parts by their HTML id, in page order

    # ── parameters ──

    def param(self, name: str) -> str | None:
        """Return a URL parameter, or None if it is missing or empty."""
        value = self.request.query_params.get(name, "").strip()
        if len(value) > MAX_PARAM or "\x00" in value:
            raise InvalidInput(f"has more than {MAX_PARAM} characters, or a NUL character", field=name)
        return value or None

    def choice(self, name: str, allowed: Iterable[S]) -> S | None:
        """Return a URL parameter that must have one of these values, or None if it is missing."""
        value = self.param(name)
        return None if value is None else one_of(name, value, allowed)

    def path(self, name: str) -> str:
        value: str = self.request.path_params[name]
        if len(value) > MAX_PARAM or "\x00" in value:
            raise NotFound("no page has this address")
        return value

    @property
    def span(self) -> Range:
        if self.range is None:
            raise InvalidInput(f"takes one of {', '.join(RANGES)}", field="range")
        self.uses_range = True
        return self.range

    @property
    def since(self) -> datetime:
        return self.now - self.span.length

    # ── links ──

    @property
    def kept(self) -> dict[str, str]:
        """The URL parameters that every link keeps: the chosen application and the range."""
        found = {name: value for name in KEPT if (value := self.param(name)) is not None}
        if self.viewer.portal:
            found.pop("app", None)
        return found

    def link(self, path: str, /, **query: str | int | None) -> str:
        """Return the URL of another page. It keeps the portal prefix, the chosen application and the range.

        A parameter that is None is left out. So `app=None` and `range=None` remove the application and the range.
        """
        given: Mapping[str, str | int | None] = {**dict.fromkeys(KEPT), **self.kept, **query}
        found = urlencode({name: value for name, value in given.items() if value is not None and value != ""})
        base = (PORTAL if self.viewer.portal else "") + quote(path)
        return (base or "/") + (f"?{found}" if found else "")

    def here(self, **query: str | int | None) -> str:
        """Return the URL of this page with some parameters changed."""
        path = self.request.url.path.removeprefix(PORTAL) if self.viewer.portal else self.request.url.path
        given: dict[str, str | int | None] = dict(self.request.query_params.items())
        return self.link(path, **{**given, **query})

    def anchor(self, words: Child, path: str, /, **query: str | int | None) -> Safe:
        """Return a link to another page as HTML. The parameters are those of `link`."""
        return tag("a", words, href=self.link(path, **query))

    # ── data ──

    @property
    def caller(self) -> Caller:
        return self.viewer.caller

    @property
    def deps(self) -> Deps:
        return self.services.deps_for(self.caller)

    @property
    def store(self) -> Store:
        return self.deps.store

    @property
    def org_id(self) -> str:
        return self.viewer.caller.org_id

    def check_app(self) -> None:
        """Refuse an unknown application in the URL. Otherwise the page would show the data of all applications."""
        ref = self.param("app")
        if ref is not None and self.app is None:
            raise NoSuch("application", ref)

    @property
    def app_no(self) -> int | None:
        return None if self.app is None else self.app.no

    @property
    def may_change(self) -> bool:
        return self.caller.scope == Scope.FULL

    @property
    def runs_deployment(self) -> bool:
        """Whether the viewer operates the deployment, and may see the data of all organizations."""
        return not self.viewer.portal and self.org_id == ids.DEFAULT_ORG

    def rows(self, shown: int) -> Rows:
        """Return which rows of a list to read: one more than the page shows, to know whether another page follows."""
        return Rows(limit=shown + 1, iterator=self.param("after"))

    async def application(self, ref: str) -> Application:
        """Return the application with this id or uid."""
        return await lookup.application(self.deps, self.caller, ref)

    async def endpoint(self, endpoint_id: str) -> Endpoint:
        return await lookup.endpoint(self.deps, self.caller, EndpointRef(endpoint_id))

    async def message(self, message_id: str) -> Message:
        return await lookup.message(self.deps, self.caller, MessageRef(message_id))

    async def names(self, app_ids: Iterable[str]) -> dict[str, str]:
        """Return the names of these applications by id. If the page shows one chosen application, return an empty dict,
        because its lists then have no column for the application."""
        wanted = set(app_ids)
        return await self.store.catalogue.application_names(self.org_id, wanted) if wanted and self.app is None else {}

    # ── live parts ──

    def live(self, name: str, *children: Child, **attributes: str | bool | None) -> Safe:
        """Wrap a part of the page that the browser updates when it changes. The name must be unique on the page."""
        made = tag("div", *children, id=f"live-{name}", data_live=True, **attributes)
        self.regions[f"live-{name}"] = made
        return made


def one_of(name: str, text: str, allowed: Iterable[S]) -> S:
    """Return the allowed value that equals the text, such as a member of an enum."""
    found = {value: value for value in allowed}
    if text not in found:
        nothing = ", or nothing" if "" in found else ""
        raise InvalidInput(f"takes one of {', '.join(filter(None, found))}{nothing}", field=name)
    return found[text]
