"""`/metrics`, composed: on the API's port, or beside the health on a port of its own."""

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
from hookline.server.site import EarlyServer, early_server
from hookline.store.protocols import Store
from hookline.web import metrics
from hookline.web.errors import on_crash, on_http_exception


class MetricsExport:
    """What one process shows, and the sampler that it needs for it."""

    def __init__(self, store: Store, config: Config, tally: Tally, fleet: ProcessReports | None) -> None:
        self._store = store
        self._sampler = Sampler(store, endpoints=config.metrics_endpoints)
        shown = metrics.Metrics(tally, self._sampler, version=__version__, engine=store.engine, fleet=fleet)
        self._route = metrics.route(
            shown, metrics.MetricsAccess(config.metrics_token, is_open=bool(config.metrics_port))
        )
        self._has_own_port = bool(config.metrics_port)

    @property
    def routes(self) -> list[Route]:
        """For the API's port."""
        return [] if self._has_own_port else [self._route]

    async def run(self, way: EarlyServer | None, stop: asyncio.Event) -> None:
        if way is not None:
            handlers = {HTTPException: on_http_exception, Exception: on_crash}
            way.door.open(Starlette(routes=[self._route], exception_handlers=handlers))
            way.health.opened(self._store)
        await self._sampler.run(stop)


@contextlib.asynccontextmanager
async def own_doorway(
    config: Config, listener: socket.socket | None, *, leaving: asyncio.Event, stop: asyncio.Event
) -> AsyncIterator[EarlyServer | None]:
    if listener is None:
        yield None
        return
    async with early_server(config, listener, leaving=leaving, stop=stop) as way:
        yield way
