"""The dependencies (`Deps`) of services, for tests that start no server and no command. Also API keys without audit
entries."""

from __future__ import annotations

from datetime import datetime

from hookline import clock
from hookline.model.actors import Actor, ActorKind, ApiKey, NewApiKey, Scope
from hookline.model.callers import Caller
from hookline.model.catalogue import Application
from hookline.model.messages import Accepted, NewMessage
from hookline.rules.guard import Guard
from hookline.security import api_keys
from hookline.services.deps import Deps
from hookline.services.schemas.payloads import Schemas
from hookline.store import Store


def deps(store: Store, guard: Guard | None = None) -> Deps:
    async def ingest(new: NewMessage) -> Accepted:
        (accepted,) = await store.pipeline.ingest([new])
        return accepted

    return Deps(
        store=store,
        guard=guard or Guard(),
        schemas=Schemas(store, clock.monotonic),
        submit=ingest,
        submit_batch=store.pipeline.ingest_batch,
        wall=clock.wall,
        max_payload=64 * 1024,
        retention_days=30,
        token_secret="a secret that only the tests of the services know",
    )


def caller(org_id: str) -> Caller:
    return Caller(org_id=org_id, actor=Actor(kind=ActorKind.COMMAND_LINE))


async def add_key(
    store: Store,
    org_id: str,
    *,
    name: str,
    scope: Scope,
    app: Application | None = None,
    expires_at: datetime | None = None,
) -> tuple[ApiKey, str]:
    key = api_keys.make()
    new = NewApiKey(
        name=name,
        scope=scope,
        hash=api_keys.hashed(key),
        hint=api_keys.hint(key),
        app_no=None if app is None else app.no,
        expires_at=expires_at,
    )
    return await store.access.create_api_key(org_id, new), key
