"""Views: what people and the API look at. Read beside the writer, always by an index."""

from __future__ import annotations

from hookline.model import Attempt, Counts, Delivery, LaneEvent, LaneView, Message
from hookline.states import DeliveryState
from hookline.store import rows
from hookline.store.base import Page
from hookline.store.sqlite.clock import instant
from hookline.store.sqlite.paging import by_text
from hookline.store.sqlite.tx import READ, Tx

DEPTH_BOUND = 10_000  # how far a lane's open deliveries are counted


def message(tx: Tx, app_no: int, ref: str) -> Message | None:
    params = {"app_no": app_no, "ref": ref}
    row = tx.row("message_by_ref", params) or tx.row("message_by_event_id", params)
    return None if row is None else rows.message(row, READ)


def message_by_id(tx: Tx, message_id: str) -> Message | None:
    row = tx.row("message_by_id", (message_id,))
    return None if row is None else rows.message(row, READ)


def messages(tx: Tx, app_no: int, page: Page) -> list[Message]:
    return [rows.message(row, READ) for row in by_text(tx, "messages", app_no, page, newest_first=True)]


def deliveries(tx: Tx, message_id: str) -> list[Delivery]:
    return [rows.delivery(row, READ) for row in tx.rows("deliveries", {"id": message_id})]


def attempts(tx: Tx, message_id: str) -> list[Attempt]:
    return [rows.attempt(row, READ) for row in tx.rows("attempts", (message_id,))]


def endpoint_attempts(tx: Tx, endpoint_no: int, page: Page) -> list[Attempt]:
    found = by_text(tx, "endpoint_attempts", endpoint_no, page, newest_first=True)
    return [rows.attempt(row, READ) for row in found]


def lanes(tx: Tx, org_id: str | None, app_no: int | None) -> list[LaneView]:
    views = [lane_view(tx, no) for no in _lane_numbers(tx, org_id, app_no)]
    return [view for view in views if view is not None]


def _lane_numbers(tx: Tx, org_id: str | None, app_no: int | None) -> list[int]:
    if org_id is None and app_no is None:
        return [no for (no,) in tx.tuples("lane_all")]
    apps = [app_no] if org_id is None else [no for (no,) in tx.tuples("lane_apps", (org_id,)) if app_no in (None, no)]
    return [no for app in apps for (no,) in tx.tuples("lane_numbers", (app,))]


def lane_view(tx: Tx, endpoint_no: int) -> LaneView | None:
    row = tx.row("lane_view", {"no": endpoint_no, "bound": DEPTH_BOUND})
    return None if row is None else rows.lane_view(row, READ)


def lane_events(tx: Tx, endpoint_no: int, limit: int) -> list[LaneEvent]:
    return [rows.lane_event(row, READ) for row in tx.rows("lane_events", (endpoint_no, limit))]


def counts(tx: Tx) -> Counts:
    waiting = dict(tx.tuples("counts_waiting"))
    oldest = min((row["first_due"] for row in tx.rows("waiting_lanes")), default=None)
    return Counts(
        pending=waiting.get(DeliveryState.PENDING, 0),
        scheduled=waiting.get(DeliveryState.SCHEDULED, 0),
        delivering=tx.value("counts_delivering"),
        dead=tx.value("counts_dead"),
        lanes_open=tx.value("counts_lanes_open"),
        oldest_due=None if oldest is None else instant(oldest),
    )
