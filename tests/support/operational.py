"""Endpoints for operational webhooks, and the operational events that wait in the outbox."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from hookline.model.endpoints import Endpoint
from hookline.rules.operational_events import MANAGEMENT
from hookline.services import endpoints
from hookline.store import Store
from tests.support import factory
from tests.support.raw import Raw
from tests.support.services import caller, deps


class OperationalEvent(Struct, frozen=True):
    org_id: str
    type: str
    data: dict[str, Any]
    event_id: str


async def add_listener(store: Store, org_id: str, **fields: Any) -> Endpoint:
    """Create an endpoint for operational webhooks of the organization."""
    return await endpoints.create_operational(deps(store), caller(org_id), factory.new_endpoint(**fields))


async def outbox_events(raw: Raw) -> list[OperationalEvent]:
    """Return every event in the outbox, in order."""
    found = []
    for row in await raw.rows("SELECT * FROM outbox ORDER BY id"):
        assert (row["org_id"], row["error"]) == (MANAGEMENT, None)
        body = msgspec.json.decode(row["payload"])
        assert set(body) == {"type", "data"}
        assert body["type"] == row["event_type"]
        found.append(OperationalEvent(row["app"], body["type"], body["data"], row["event_id"]))
    return found


async def clear_outbox(raw: Raw) -> None:
    await raw.execute("DELETE FROM outbox")
