"""API and dashboard, composed on one store and served. Apart from `serve`: other commands need not import a web server."""

from __future__ import annotations

import asyncio
import hmac
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from msgspec.structs import replace
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from hookline import clock, dashboard
from hookline.api.app import create_app
from hookline.config import SETTINGS, Config, Setting, parse, written
from hookline.engine.ingest import GroupCommit
from hookline.errors import StoreUnavailable
from hookline.observe.tally import Tally
from hookline.observe.traces import Traces
from hookline.security import tokens
from hookline.server import http
from hookline.server import sockets as listeners
from hookline.server.connection_limits import ConnectionLimits, within_file_limit
from hookline.services.schemas.payloads import Schemas
from hookline.store.protocols import Store
from hookline.web.callers import Authenticator
from hookline.web.context import Brand, PagesSettings, ShownSetting, WebContext
from hookline.web.forwarded import Forwarded, Proxies
from hookline.web.health import Health, StartupGate
from hookline.web.idempotency import IdempotentResponses
from hookline.web.limits import Limits, Rates
from hookline.web.middleware import MiddlewareSettings


class EarlyServer:
    """A server that is up before there is anything to serve."""

    def __init__(
        self, door: StartupGate, health: Health, serving: asyncio.Task[None], stop: asyncio.Event, local: bool
    ) -> None:
        self.door = door
        self.health = health
        self.serving = serving
        self.stop = stop
        self.local = local


@asynccontextmanager
async def early_server(
    config: Config, listener: socket.socket, *, leaving: asyncio.Event, stop: asyncio.Event
) -> AsyncIterator[EarlyServer]:
    """Answers for the health from here on; for everything else once `answer` has an application."""
    health = Health(leaving)
    door = StartupGate(health)
    proxies = Proxies(config.trusted_proxies)
    room = ConnectionLimits(most=within_file_limit(), per_address=config.connections_per_address, proxies=proxies)
    async with asyncio.TaskGroup() as parts:
        serving = parts.create_task(
            http.serve(Forwarded(door, proxies), listener, stop=stop, grace=config.shutdown_timeout, room=room)
        )
        yield EarlyServer(door, health, serving, stop, listeners.is_local(listener))


async def answer(
    store: Store,
    config: Config,
    way: EarlyServer,
    *,
    tally: Tally,
    traces: Traces | None = None,
    pages: Sequence[BaseRoute] = (),
) -> None:
    """Until the stop; then what is under way is answered."""
    ingest = GroupCommit(store, tally=tally)
    given = services(store, config, ingest, tally, traces)
    way.door.open(compose(replace(given, leaving=way.stop, local=way.local), pages))
    way.health.opened(store)
    await _watch_secrets(store, config)
    await asyncio.wait({way.serving})
    await ingest.close()
    await given.schemas.close()


async def _watch_secrets(store: Store, config: Config) -> None:
    """A server whose database is away just now serves all the same: the next start notes it."""
    ids = [tokens.secret_id(secret) for secret in config.jwt_secrets]
    with suppress(StoreUnavailable):
        await store.watch_secrets(ids[0], ids[1:])


def services(
    store: Store, config: Config, ingest: GroupCommit, tally: Tally, traces: Traces | None = None
) -> WebContext:
    return WebContext(
        store=store,
        tally=tally,
        traces=traces,
        submit=ingest.submit,
        submit_batch=ingest.submit_batch,
        auth=Authenticator(
            store, config.jwt_secret, older=config.jwt_secrets[1:], wall=clock.wall, monotonic=clock.monotonic
        ),
        guard=config.guard(),
        schemas=Schemas(store, clock.monotonic),
        limits=Limits(_rates(config), clock.monotonic),
        answers=IdempotentResponses(store),
        front=MiddlewareSettings(access_log=config.access_log, portal_origins=config.portal_origins),
        public_url=config.public_url,
        wall=clock.wall,
        monotonic=clock.monotonic,
        max_payload=config.max_payload,
        max_batch=config.max_batch,
        retention_days=config.retention_days,
        customer_endpoints=config.customer_endpoints,
        circuit=config.circuit,
        lease=config.lease,
        retry=config.retry,
        request_timeout=config.request_timeout,
        pages=PagesSettings(
            key=_pages_key(config.jwt_secret),
            older_keys=tuple(map(_pages_key, config.jwt_secrets[1:])),
            brand=Brand(name=config.portal_name, color=config.portal_color, logo=config.portal_logo),
            settings=shown(config),
        ),
    )


def _pages_key(secret: str) -> bytes:
    return hmac.digest(secret.encode("utf-8", "surrogateescape"), b"pages", "sha256")


def _rates(config: Config) -> Rates:
    return Rates(
        caller=config.rate_limit,
        portal=config.rate_limit_portal,
        application=config.rate_limit_application,
        organization=config.rate_limit_organization,
    )


def shown(config: Config) -> tuple[ShownSetting, ...]:
    """Every setting, for the page of settings. Of a secret only whether there is one."""
    plain = parse({})
    return tuple(
        ShownSetting(
            variable=setting.variable,
            value=_shown_value(setting, getattr(config, setting.field), getattr(plain, setting.field)),
            default=setting.default,
            help=setting.help,
        )
        for setting in SETTINGS
    )


def _shown_value(setting: Setting, value: object, plain: object) -> str:
    """`plain` is what it is where nothing is set: some are worked out from others, and read unlike their default."""
    if setting.secret:
        return "set" if value else "not set"
    return setting.default if value == plain else written(setting, value)


def compose(given: WebContext, pages: Sequence[BaseRoute] = ()) -> ASGIApp:
    """API and dashboard on one store, and what else there is to see."""
    return create_app(given, [*dashboard.routes(given), *pages])
