"""Replays on SQLite, row by row."""

from __future__ import annotations

from collections.abc import Sequence

from hookline.model.dead import DeadFilter
from hookline.model.endpoints import Endpoint
from hookline.model.states import DeliveryState, EndpointStatus
from hookline.rules.fanout import max_age, merge
from hookline.rules.ordering import queue_of
from hookline.rules.replay import Window
from hookline.store.plans.dead_letters import filtered
from hookline.store.plans.endpoint_state import endpoint_of
from hookline.store.plans.plan import Plan, Step, row, value
from hookline.store.rows import Row
from hookline.store.rows.documents import policy_text, read_policy
from hookline.store.sqlite.database import Database
from hookline.store.sqlite.transaction import READ


class Redelivery:
    def __init__(self, database: Database) -> None:
        self._vault = database.vault
        self._options = database.options

    def replay(self, where: DeadFilter, limit: int) -> Plan[list[Row]]:
        ids = [each["id"] for each in (yield Step("replay_find", **filtered(where), limit=limit))]
        if not ids:
            return []
        yield Step("replay_open", ids=ids, max_age=self._options.retry.max_age)
        yield Step("replay_close", ids=ids)
        yield Step("deliveries_wake", ids=ids)
        yield Step("announce")
        return (yield Step("replay_done", ids=ids))

    def resolve(self, where: DeadFilter, text: str, limit: int) -> Plan[list[Row]]:
        found = yield Step("resolve", **filtered(where), text=text, limit=limit)
        ids = [each["id"] for each in found]
        yield Step("resolve_wake", ids=ids)
        yield Step("announce")
        return (yield Step("resolve_done", ids=ids))

    def deliver(
        self,
        endpoint: Endpoint,
        window: Window,  # noqa: ARG002  PostgreSQL needs it to find the partitions
        message_ids: Sequence[str],
    ) -> Plan[int]:
        found = yield Step("messages_chosen", app_no=endpoint.app_no, ids=list(message_ids))
        return len((yield from self._deliver_rows(endpoint, found)))

    def resend(self, endpoint_no: int, message_id: str) -> Plan[int | None]:
        endpoint = yield from endpoint_of(endpoint_no, READ, self._vault)
        if endpoint is None or endpoint.status == EndpointStatus.DELETED:
            return None
        found = yield Step("resend_message", id=message_id, app_no=endpoint.app_no)
        made = yield from self._deliver_rows(endpoint, found)
        return made[0] if made else None

    def _deliver_rows(self, endpoint: Endpoint, messages: Sequence[Row]) -> Plan[list[int]]:
        """Create deliveries, wake their lane and return their ids."""
        made = []
        for message in messages:
            of_type = yield from row("event_type", org_id=endpoint.org_id, name=message["event_type"])
            of_type_policy = None if of_type is None else read_policy(of_type["policy"])
            policy = merge(of_type_policy, endpoint.policy, read_policy(message["policy"]))
            key = queue_of(endpoint.ordering, message["ordering_key"])
            delivery_id = yield from value(
                "delivery_manual",
                app_no=endpoint.app_no,
                endpoint_no=endpoint.no,
                message_seq=message["seq"],
                message_at=message["created_at"],
                message_id=message["id"],
                event_type=message["event_type"],
                due_at=message["due_at"],
                max_age=round(max_age(policy, self._options.retry) * 1_000_000),
                policy=policy_text(policy),
                ordering_key=key,
                state=DeliveryState.PENDING if key is None else DeliveryState.QUEUED,
            )
            made.append(delivery_id)
        yield Step("deliveries_wake", ids=made)
        yield Step("announce")
        return made
