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

from hookline import clock, dashboard, tokens
from hookline.api.app import create_app
from hookline.api.auth import Auth
from hookline.api.forwarded import Forwarded, Proxies
from hookline.api.front import FrontSettings
from hookline.api.health import Door, Health
from hookline.api.idempotency import Answers
from hookline.api.limits import Limits, Rates
from hookline.api.services import Brand, PagesSettings, Services, ShownSetting
from hookline.cli import http
from hookline.cli import listener as listeners
from hookline.cli.room import Room, within_file_limit
from hookline.config import SETTINGS, Config, Setting, parse, written
from hookline.errors import StoreUnavailable
from hookline.flow.ingest import Ingest
from hookline.observe.tally import Tally
from hookline.observe.traces import Traces
from hookline.schemas import Schemas
from hookline.store.base import Store


class Doorway:
    """A server that is up before there is anything to serve."""

    def __init__(
        self, door: Door, health: Health, serving: asyncio.Task[None], stop: asyncio.Event, local: bool
    ) -> None:
        self.door = door
        self.health = health
        self.serving = serving
        self.stop = stop
        self.local = local


@asynccontextmanager
async def doorway(
    config: Config, listener: socket.socket, *, leaving: asyncio.Event, stop: asyncio.Event
) -> AsyncIterator[Doorway]:
    """Answers for the health from here on; for everything else once `answer` has an application."""
    health = Health(leaving)
    door = Door(health)
    proxies = Proxies(config.trusted_proxies)
    room = Room(most=within_file_limit(), per_address=config.connections_per_address, proxies=proxies)
    async with asyncio.TaskGroup() as parts:
        serving = parts.create_task(
            http.serve(Forwarded(door, proxies), listener, stop=stop, grace=config.shutdown_timeout, room=room)
        )
        yield Doorway(door, health, serving, stop, listeners.is_local(listener))


async def answer(
    store: Store,
    config: Config,
    way: Doorway,
    *,
    tally: Tally,
    traces: Traces | None = None,
    pages: Sequence[BaseRoute] = (),
) -> None:
    """Until the stop; then what is under way is answered."""
    ingest = Ingest(store, tally=tally)
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


def services(store: Store, config: Config, ingest: Ingest, tally: Tally, traces: Traces | None = None) -> Services:
    auth = Auth(store, config.jwt_secret, older=config.jwt_secrets[1:], wall=clock.wall, monotonic=clock.monotonic)
    return Services(
        store=store,
        tally=tally,
        traces=traces,
        submit=ingest.submit,
        submit_batch=ingest.submit_batch,
        auth=auth,
        token_secret=config.jwt_secret,
        forget_application=auth.forget_application,
        forget_callers=auth.forget_callers,
        guard=config.guard(),
        schemas=Schemas(store, clock.monotonic),
        limits=Limits(_rates(config), clock.monotonic),
        answers=Answers(store),
        front=FrontSettings(access_log=config.access_log, portal_origins=config.portal_origins),
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


def compose(given: Services, pages: Sequence[BaseRoute] = ()) -> ASGIApp:
    """API and dashboard on one store, and what else there is to see."""
    return create_app(given, [*dashboard.routes(given), *pages])
