"""Composes the API and the dashboard into one web application, and serves it. Only commands that serve import this
module."""

from __future__ import annotations

import asyncio
import hmac
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import jwt  # noqa: F401  # `tokens` imports it on first use, which must not slow down the first request
from msgspec import Struct
from msgspec.structs import replace
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from hookline import clock, dashboard
from hookline.api import wire
from hookline.api.app import create_app
from hookline.config import SETTINGS, Config, Setting, parse, written
from hookline.engine import garbage
from hookline.engine.ingest import GroupCommit
from hookline.errors import StoreUnavailable
from hookline.observe.tally import Tally
from hookline.observe.traces import Traces
from hookline.security import tokens
from hookline.server import http
from hookline.server import sockets as listeners
from hookline.server.connection_limits import ConnectionLimits, within_file_limit
from hookline.services.schemas.payloads import Schemas
from hookline.store import Store
from hookline.store.patience import waiting_at_most
from hookline.store.stages import HandOver, no_hand_over
from hookline.web.callers import Authenticator
from hookline.web.context import Brand, PagesSettings, ShownSetting, WebContext
from hookline.web.forwarded import Forwarded, Proxies
from hookline.web.health import Health, StartupApp
from hookline.web.idempotency import IdempotentResponses
from hookline.web.limits import Limits, Rates
from hookline.web.middleware import MiddlewareSettings


class EarlyServer(Struct, frozen=True):
    """A server that already answers health checks while the store is still opening."""

    startup: StartupApp
    health: Health
    serving: asyncio.Task[None]
    stop: asyncio.Event
    local: bool  # whether only this machine can connect to the server


@asynccontextmanager
async def early_server(
    config: Config, listener: socket.socket, *, leaving: asyncio.Event, stop: asyncio.Event
) -> AsyncIterator[EarlyServer]:
    """Start a server that answers health checks at once. Other requests wait until `startup.open` gets the
    application."""
    health = Health(leaving)
    startup = StartupApp(health)
    proxies = Proxies(config.trusted_proxies)
    room = ConnectionLimits(limit=within_file_limit(), per_address=config.connections_per_address, proxies=proxies)
    async with asyncio.TaskGroup() as parts:
        work = http.serve(Forwarded(startup, proxies), listener, stop=stop, grace=config.shutdown_timeout, room=room)
        yield EarlyServer(startup, health, parts.create_task(work), stop, listeners.is_local(listener))


async def answer(
    store: Store,
    config: Config,
    server: EarlyServer,
    *,
    tally: Tally,
    traces: Traces | None = None,
    pages: Sequence[BaseRoute] = (),
    hand_over: HandOver = no_hand_over,
) -> None:
    """Serve the API and the dashboard until the server has stopped and every request in progress is answered."""
    ingest = GroupCommit(store, tally=tally, timeout=config.database_timeout, hand_over=hand_over)
    context = web_context(store, config, ingest, tally, traces)
    server.startup.open(compose(replace(context, leaving=server.stop, local=server.local), pages))
    server.health.opened(store)
    garbage.freeze()
    await _watch_secrets(store, config)
    await asyncio.wait({server.serving})
    await ingest.close()
    await context.schemas.close()


async def _watch_secrets(store: Store, config: Config) -> None:
    """Store the ids of the token secrets, so that the last use of an older secret can be recorded.

    If the store is unavailable, serve anyway. The next start stores them.
    """
    ids = [tokens.secret_id(secret) for secret in config.jwt_secrets]
    with suppress(StoreUnavailable), waiting_at_most(config.database_timeout):
        await store.access.watch_secrets(ids[0], ids[1:])


def web_context(
    store: Store, config: Config, ingest: GroupCommit, tally: Tally, traces: Traces | None = None
) -> WebContext:
    auth = Authenticator(
        store, config.jwt_secret, older=config.jwt_secrets[1:], wall=clock.wall, monotonic=clock.monotonic
    )
    return config.fill(
        WebContext,
        defaults=["local", "body_time", "gathering", "customers", "history", "leaving"],
        store=store,
        dead_letter_document=wire.dead_letter,
        tally=tally,
        traces=traces,
        submit=ingest.submit,
        submit_batch=ingest.submit_batch,
        auth=auth,
        token_secret=config.jwt_secret,
        forget_application=auth.forget_application,
        forget_callers=auth.forget_callers,
        schemas=Schemas(store, clock.monotonic),
        limits=Limits(config.fill(Rates, "rate_limit_", caller=config.rate_limit), clock.monotonic),
        answers=IdempotentResponses(store),
        middleware=config.fill(MiddlewareSettings),
        wall=clock.wall,
        monotonic=clock.monotonic,
        pages=PagesSettings(
            key=_pages_key(config.jwt_secret),
            older_keys=tuple(map(_pages_key, config.jwt_secrets[1:])),
            brand=config.fill(Brand, "portal_"),
            settings=shown(config),
        ),
    )


def _pages_key(secret: str) -> bytes:
    return hmac.digest(secret.encode("utf-8", "surrogateescape"), b"pages", "sha256")


def shown(config: Config) -> tuple[ShownSetting, ...]:
    """Return every setting for the settings page. For a secret, return only whether it is set."""
    defaults = parse({})
    return tuple(
        ShownSetting(
            variable=setting.variable,
            value=_shown_value(setting, getattr(config, setting.field), getattr(defaults, setting.field)),
            default=setting.default,
            help=setting.help,
        )
        for setting in SETTINGS
    )


def _shown_value(setting: Setting, value: object, default: object) -> str:
    """Return a value as text. `default` is the value that the setting has if no `HOOKLINE_` variable is set."""
    if setting.secret:
        return "set" if value else "not set"
    return setting.default if value == default else written(setting, value)


def compose(context: WebContext, pages: Sequence[BaseRoute] = ()) -> ASGIApp:
    """Return the application: the API, the dashboard and any further pages."""
    return create_app(context, [*dashboard.routes(context), *pages])
