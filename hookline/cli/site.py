"""API and dashboard, composed on one store and served. Apart from `serve`: other commands need not import a web server."""

from __future__ import annotations

import asyncio
import socket

from starlette.types import ASGIApp

from hookline import clock, dashboard
from hookline.api.app import create_app
from hookline.api.auth import Auth
from hookline.api.front import FrontSettings
from hookline.api.idempotency import Answers
from hookline.api.limits import Limits
from hookline.api.services import Services
from hookline.cli import http
from hookline.config import Config
from hookline.flow.ingest import Ingest
from hookline.schema import Schemas
from hookline.store.base import Store


async def answer(store: Store, config: Config, listener: socket.socket, *, stop: asyncio.Event) -> None:
    """Until the stop; then what is under way is answered."""
    ingest = Ingest(store)
    app = compose(services(store, config, ingest))
    await http.serve(app, listener, stop=stop, grace=config.shutdown_timeout)
    await ingest.close()


def services(store: Store, config: Config, ingest: Ingest) -> Services:
    return Services(
        store=store,
        submit=ingest.submit,
        submit_batch=ingest.submit_batch,
        auth=Auth(store, config.jwt_secret, wall=clock.wall, monotonic=clock.monotonic),
        guard=config.guard(),
        schemas=Schemas(store, clock.monotonic),
        limits=Limits(caller=config.rate_limit, organization=config.rate_limit_organization, monotonic=clock.monotonic),
        answers=Answers(store),
        front=FrontSettings(access_log=config.access_log, portal_origins=config.portal_origins),
        public_url=config.public_url,
        wall=clock.wall,
        monotonic=clock.monotonic,
        max_payload=config.max_payload,
        max_batch=config.max_batch,
        retention_days=config.retention_days,
        circuit=config.circuit,
    )


def compose(given: Services) -> ASGIApp:
    """API and dashboard on one store."""
    return create_app(given, dashboard.routes(given))
