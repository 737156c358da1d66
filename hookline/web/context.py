"""The dependencies of HTTP handlers. The server creates one `WebContext` and passes it to `create_app`."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable

from msgspec import Struct, field
from msgspec.structs import replace
from starlette.requests import Request

from hookline.model.callers import Caller
from hookline.model.dead import DeadLetter
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
    """Name, color and logo of the portal that customers see."""

    name: str = "Hookline"
    color: str | None = None  # #rrggbb
    logo: str | None = None  # path of an image file


class ShownSetting(Struct, frozen=True, kw_only=True):
    """One line of the settings page."""

    variable: str
    value: str  # the value as text; for a secret, only whether it is set
    default: str
    help: str


class PagesSettings(Struct, frozen=True, kw_only=True):
    key: bytes  # signs values that browsers send back, such as form tokens
    older_keys: tuple[bytes, ...] = ()  # earlier keys; values that they signed are still accepted
    brand: Brand = Brand()
    settings: tuple[ShownSetting, ...] = ()

    @property
    def keys(self) -> tuple[bytes, ...]:
        """The current key, which signs new values, and the older keys, whose signatures are still accepted."""
        return (self.key, *self.older_keys)

    def proof(self, purpose: str, value: str) -> str:
        """Sign a value that a browser sends back. A proof is valid only for the purpose that it was made for."""
        return _proof(self.key, purpose, value)

    def proves(self, given: str, purpose: str, value: str) -> bool:
        return any(hmac.compare_digest(given.encode(), _proof(key, purpose, value).encode()) for key in self.keys)


def _proof(key: bytes, purpose: str, value: str) -> str:
    return hmac.digest(key, f"{purpose}:{value}".encode(), "sha256").hex()


class WebContext(Deps, frozen=True, kw_only=True):
    """The dependencies of the services, and those that only HTTP handlers need."""

    tally: Tally
    auth: Authenticator
    limits: Limits
    answers: IdempotentResponses
    middleware: MiddlewareSettings
    dead_letter_document: Callable[[DeadLetter], object]  # the JSON shape that the API gives a dead letter
    public_url: str | None  # the URL at which browsers reach this server
    local: bool = False  # only clients on this machine can connect
    monotonic: Callable[[], float]
    max_batch: int  # maximum bytes of a request with many messages
    traces: Traces | None = None
    lease: float = 60.0  # seconds of the lease on claimed deliveries and on a probe
    request_timeout: float = 30.0  # seconds until a request to an endpoint times out
    body_time: float = 30.0  # seconds until reading the body of a request times out
    gathering: BodyMemory = field(default_factory=BodyMemory)
    customers: Customers = field(default_factory=Customers)
    pages: PagesSettings
    history: History = field(default_factory=History)
    # Set when the server is about to stop, so that streams end.
    leaving: asyncio.Event = field(default_factory=asyncio.Event)

    def deps_for(self, caller: Caller) -> Deps:
        """Return the dependencies for this caller.

        A customer (a caller who can access only one application) gets a view of the store that redacts texts for
        operators: addresses, and details in the errors of attempts, dead letters, lanes, endpoints and tasks.
        """
        return self if caller.app is None else replace(self, store=self.customers.store_for(caller.app, self.store))

    def link_address(self, request: Request) -> str:
        """Return the base URL of links to this server. Raise `Conflict` if that URL is not known."""
        host = request.headers.get("host", "")
        return links_lead_to(self.public_url, local=self.local, scheme=request.url.scheme, host=host)
