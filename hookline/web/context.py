"""What the handlers work with: made once by whoever serves, and handed to `create_app`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec import Struct, field
from msgspec.structs import replace
from starlette.requests import Request

from hookline.model import DeadLetter
from hookline.model.callers import Caller
from hookline.observe.fleet_history import History
from hookline.observe.tally import Tally
from hookline.observe.traces import Traces
from hookline.services.deps import Deps
from hookline.web.body import BodyMemory
from hookline.web.callers import Authenticator
from hookline.web.customers import Customers
from hookline.web.idempotency import IdempotentResponses
from hookline.web.limits import Limits
from hookline.web.middleware import MiddlewareSettings
from hookline.web.public_url import links_lead_to


class Brand(Struct, frozen=True, kw_only=True):
    """How the portal looks to a customer of whoever runs this."""

    name: str = "Hookline"
    color: str | None = None  # #rrggbb
    logo: str | None = None  # a file


class ShownSetting(Struct, frozen=True, kw_only=True):
    """A line of the page of settings."""

    variable: str
    value: str  # of a secret: only whether it is set
    default: str
    help: str


class PagesSettings(Struct, frozen=True, kw_only=True):
    key: bytes  # signs what pages give to browsers and want back
    older_keys: tuple[bytes, ...] = ()  # signed it before; what they signed is still taken back
    brand: Brand = Brand()
    settings: tuple[ShownSetting, ...] = ()

    @property
    def keys(self) -> tuple[bytes, ...]:
        """The one that signs first."""
        return (self.key, *self.older_keys)


class WebContext(Deps, frozen=True, kw_only=True):
    """What the services work with, and what HTTP adds to it."""

    tally: Tally
    auth: Authenticator
    limits: Limits
    answers: IdempotentResponses
    front: MiddlewareSettings
    dead_letter_document: Callable[[DeadLetter], object]  # the JSON shape that the API gives a dead letter
    public_url: str | None  # of this server, as browsers reach it
    local: bool = False  # only this machine reaches the listener
    monotonic: Callable[[], float]
    max_batch: int  # bytes of a request that has many messages
    traces: Traces | None = None
    lease: float = 60.0  # seconds that a worker owns what it claims, a probe also
    request_timeout: float = 30.0  # seconds that an endpoint has to answer
    body_time: float = 30.0  # seconds in which a request's whole body must have come
    gathering: BodyMemory = field(default_factory=BodyMemory)
    customers: Customers = field(default_factory=Customers)
    pages: PagesSettings
    history: History = field(default_factory=History)
    leaving: asyncio.Event = field(default_factory=asyncio.Event)  # set when the server is about to stop: streams end

    def deps_for(self, caller: Caller) -> Deps:
        """Customers read through a view of the store that has only texts for customers."""
        return self if caller.app is None else replace(self, store=self.customers.store_for(caller.app, self.store))

    def link_address(self, request: Request) -> str:
        """Where the links lead that this server makes. `Conflict` if it does not know."""
        host = request.headers.get("host", "")
        return links_lead_to(self.public_url, local=self.local, scheme=request.url.scheme, host=host)
