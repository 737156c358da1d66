"""Serves `/metrics` on the API's port, or together with `/health` on a separate port."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Route

from hookline import __version__
from hookline.config import Config
from hookline.observe.process_reports import ProcessReports
from hookline.observe.sampler import Sampler
from hookline.observe.tally import Tally
from hookline.server.process import opened
from hookline.server.web_app import EarlyServer, early_server
from hookline.store import Store
from hookline.web import metrics
from hookline.web.errors import on_crash, on_http_exception


class MetricsExport:
    """The metrics of one process, and the sampler that measures the database for them."""

    def __init__(self, store: Store, config: Config, tally: Tally, fleet: ProcessReports | None) -> None:
        self._store = store
        self._sampler = Sampler(store, endpoints=config.metrics_endpoints)
        shown = metrics.Metrics(tally, self._sampler, version=__version__, engine=store.engine, fleet=fleet)
        self._has_own_port = bool(config.metrics_port)
        access = metrics.MetricsAccess(config.metrics_token, is_open=self._has_own_port)
        self._route = metrics.route(shown, access)

    @property
    def routes(self) -> list[Route]:
        """The routes to add to the API's port."""
        return [] if self._has_own_port else [self._route]

    async def run(self, server: EarlyServer | None, stop: asyncio.Event) -> None:
        if server is not None:
            handlers = {HTTPException: on_http_exception, Exception: on_crash}
            server.startup.open(Starlette(routes=[self._route], exception_handlers=handlers))
            server.health.opened(self._store)
        await self._sampler.run(stop)


@contextlib.asynccontextmanager
async def opened_with_metrics(
    config: Config, listener: socket.socket, tally: Tally, stop: asyncio.Event, fleet: ProcessReports | None
) -> AsyncIterator[Store]:
    """Open the store, and serve `/metrics` and `/health` until `stop` is set."""
    async with (
        early_server(config, listener, leaving=stop, stop=stop) as server,
        opened(config) as store,
        asyncio.TaskGroup() as parts,
    ):
        parts.create_task(MetricsExport(store, config, tally, fleet).run(server, stop))
        yield store
