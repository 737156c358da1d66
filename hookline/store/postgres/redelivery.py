"""Replay or resolve dead letters, or deliver old messages, on PostgreSQL. One statement makes each change."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import asdict

from hookline.model.dead import DeadFilter
from hookline.model.endpoints import Endpoint
from hookline.rules.replay import Window
from hookline.store.plans.dead_letters import filtered
from hookline.store.plans.message_by_id import ANY_TIME, made_within
from hookline.store.plans.plan import Plan, Step, value
from hookline.store.postgres.database import Database
from hookline.store.rows import Row


class Redelivery:
    def __init__(self, database: Database) -> None:
        self._max_age = database.options.retry.max_age

    def replay(self, where: DeadFilter, limit: int) -> Plan[list[Row]]:
        return (yield Step("replay", **filtered(where), limit=limit, max_age=self._max_age))

    def resolve(self, where: DeadFilter, text: str, limit: int) -> Plan[list[Row]]:
        return (yield Step("resolve", **filtered(where), text=text, limit=limit))

    def deliver(self, endpoint: Endpoint, window: Window, message_ids: Sequence[str]) -> Plan[int]:
        given = {"no": endpoint.no, "ids": list(message_ids), "max_age": self._max_age}
        count: int = yield from value("messages_deliver", **given, **asdict(window))
        return count

    def resend(self, endpoint_no: int, message_id: str) -> Plan[int | None]:
        given = {"no": endpoint_no, "message_id": message_id, "max_age": self._max_age}
        for since, until in (made_within(message_id), ANY_TIME):
            delivery_id: int | None = yield from value("resend", **given, since=since, until=until)
            if delivery_id is not None:
                return delivery_id
        return None
