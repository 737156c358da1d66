"""Views: what people and the API look at. Read beside the writer, always by an index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from hookline import ids
from hookline.model import (
    Attempt,
    Attempted,
    AttemptedFilter,
    AttemptFilter,
    Counts,
    Delivery,
    LaneEvent,
    LaneEventFilter,
    LaneView,
    Message,
    MessageFilter,
    TimelineEntry,
)
from hookline.states import DeliveryState
from hookline.store import found as shared
from hookline.store import rows, walk
from hookline.store.base import LAST_NUMBER, MOST_LISTED, MOST_WAITING, Page, Walk, after_number
from hookline.store.plans.history import message_row
from hookline.store.sqlite.base import Base
from hookline.store.sqlite.clock import instant, to_micros
from hookline.store.sqlite.database import run
from hookline.store.sqlite.tx import READ, Tx, numbers, texts

OUTCOMES = {None: "1", True: "t.outcome = 'delivered'", False: "t.outcome <> 'delivered'"}


class Views(Base):
    async def message(self, app_no: int, ref: str) -> Message | None:
        return await self._read(_message, app_no, ref)

    async def messages(self, app_no: int, where: MessageFilter, page: Page, *, content: bool = False) -> Walk[Message]:
        return await self._read(_messages, app_no, where, page, content)

    async def messages_of(self, app_no: int, message_ids: Sequence[str]) -> list[Message]:
        return await self._read(_messages_of, app_no, message_ids)

    async def expunge_message(self, message: Message, *, force: bool = False) -> bool:
        return await self._write(_expunge_message, message, force)

    async def message_by_id(self, message_id: str) -> Message | None:
        return await self._read(message_by_id, message_id)

    async def deliveries(self, message_id: str) -> list[Delivery]:
        return await self._read(_deliveries, message_id)

    async def deliveries_page(self, message: Message, word: str | None, *, after: int, limit: int) -> list[Delivery]:
        return await self._read(_deliveries_page, message, word, after, limit)

    async def delivery_words(self, message: Message) -> dict[str, int]:
        return await self._read(_delivery_words, message)

    async def attempts(self, message_id: str) -> list[Attempt]:
        return await self._read(_attempts, message_id)

    async def attempt(self, message: Message, attempt_id: str) -> Attempt | None:
        return await self._read(_attempt, message, attempt_id)

    async def expunge_attempt(self, message: Message, attempt_id: str) -> bool:
        return await self._write(_expunge_attempt, message, attempt_id)

    async def endpoint_attempts(
        self, endpoint_no: int, where: AttemptFilter, page: Page, *, content: bool = True
    ) -> Walk[Attempt]:
        return await self._read(_endpoint_attempts, endpoint_no, where, page, content)

    async def message_attempts(
        self,
        message: Message,
        where: AttemptFilter,
        page: Page,
        *,
        endpoint_no: int | None = None,
        content: bool = True,
    ) -> list[Attempt]:
        return await self._read(_message_attempts, message, where, page, endpoint_no, content)

    async def attempted_messages(
        self, endpoint_no: int, where: AttemptedFilter, page: Page, *, content: bool = False
    ) -> Walk[Attempted]:
        return await self._read(_attempted_messages, endpoint_no, where, page, content)

    async def lanes(self, org_id: str | None = None, app_no: int | None = None) -> list[LaneView]:
        return await self._read(_lanes, org_id, app_no)

    async def lane_page(
        self, org_id: str, app_no: int | None, page: Page, *, url: str = "", state: str | None = None
    ) -> list[LaneView]:
        return await self._read(_lane_page, org_id, app_no, page, url, state)

    async def lane_view(self, endpoint_no: int) -> LaneView | None:
        return await self._read(lane_view, endpoint_no)

    async def lane_events(self, endpoint_no: int, limit: int = 100) -> list[LaneEvent]:
        return await self._read(_lane_events, endpoint_no, limit)

    async def timeline(self, endpoint_no: int, where: LaneEventFilter, page: Page) -> Walk[TimelineEntry]:
        return await self._read(_timeline, endpoint_no, where, page)

    async def counts(self) -> Counts:
        return await self._read(_counts)


def _message(tx: Tx, app_no: int, ref: str) -> Message | None:
    row = run(tx, message_row(ref, app_no)) or tx.row("message_by_event_id", {"app_no": app_no, "ref": ref})
    return None if row is None else rows.message(row, READ)


def message_by_id(tx: Tx, message_id: str) -> Message | None:
    row = run(tx, message_row(message_id))
    return None if row is None else rows.message(row, READ)


def _messages(tx: Tx, app_no: int, where: MessageFilter, page: Page, content: bool) -> Walk[Message]:
    params = _params(ids.MESSAGE, app_no, where, page)
    end = _end(tx, tx.sql[_way("messages_end", page)], params) if walk.rare(where) else None
    found = [rows.listed_message(row, READ) for row in tx.rows(_way("messages", page), _up_to(end, params))]
    if content:
        if (fits := walk.fits(found)) < len(found):
            found, end = found[:fits], found[fits - 1].id
        found = _filled(tx, found)
    return walk.walked(found, page, end)


def _filled(tx: Tx, found: list[Message]) -> list[Message]:
    payloads = dict(tx.tuples("message_payloads", (numbers(message.seq for message in found),)))
    return [replace(message, payload=payloads.get(message.seq)) for message in found]


def _messages_of(tx: Tx, app_no: int, message_ids: Sequence[str]) -> list[Message]:
    found = tx.rows("messages_of", {"of": app_no, "ids": texts(message_ids)})
    return [rows.listed_message(row, READ) for row in found]


def _expunge_message(tx: Tx, message: Message, force: bool) -> bool:
    return tx.run("message_expunge", {"seq": message.seq, "id": message.id, "force": force}) > 0


def _deliveries(tx: Tx, message_id: str) -> list[Delivery]:
    return [rows.delivery(row, READ) for row in tx.rows("deliveries", {"id": message_id, "now": tx.now})]


def _deliveries_page(tx: Tx, message: Message, word: str | None, after: int, limit: int) -> list[Delivery]:
    state, held = shared.state_of(word)
    params = {"id": message.id, "now": tx.now, "after": after, "state": state, "held": held, "limit": limit}
    return [rows.delivery(row, READ) for row in tx.rows("deliveries_page", params)]


def _delivery_words(tx: Tx, message: Message) -> dict[str, int]:
    counted = tx.rows("found_states", {"ids": texts([message.id]), "now": tx.now})
    return shared.states(counted).get(message.id, {})


def _attempts(tx: Tx, message_id: str) -> list[Attempt]:
    return [rows.attempt(row, READ) for row in tx.rows("attempts", (message_id,))]


def _attempt(tx: Tx, message: Message, attempt_id: str) -> Attempt | None:
    row = tx.row("attempt", (message.id, attempt_id))
    return None if row is None else rows.attempt(row, READ)


def _expunge_attempt(tx: Tx, message: Message, attempt_id: str) -> bool:
    return tx.run("attempt_expunge", (message.id, attempt_id)) > 0


def _endpoint_attempts(tx: Tx, endpoint_no: int, where: AttemptFilter, page: Page, content: bool) -> Walk[Attempt]:
    params = _params(ids.ATTEMPT, endpoint_no, where, page)
    params |= {"code_class": where.code_class, "content": content}
    outcome = walk.outcome(where)
    end = _end(tx, _of_outcome(tx, "endpoint_attempts_end", page, outcome), params) if walk.rare(where) else None
    statement = _of_outcome(tx, "endpoint_attempts", page, outcome)
    found = [rows.attempt(row, READ) for row in tx.conn.execute(statement, _up_to(end, params))]
    return walk.walked(found, page, end)


def _message_attempts(
    tx: Tx, message: Message, where: AttemptFilter, page: Page, endpoint_no: int | None, content: bool
) -> list[Attempt]:
    params = _params(ids.ATTEMPT, message.id, where, page)
    params |= {"delivered": where.delivered, "code_class": where.code_class}
    params |= {"endpoint_no": endpoint_no, "content": content}
    found = [rows.attempt(row, READ) for row in tx.rows(_way("message_attempts", page), params)]
    return walk.walked(found, page, None).rows


def _attempted_messages(tx: Tx, endpoint_no: int, where: AttemptedFilter, page: Page, content: bool) -> Walk[Attempted]:
    params = _params(ids.ATTEMPT, endpoint_no, where, page)
    params |= {"states": None if where.states is None else numbers(where.states)}
    end = _end(tx, _of_outcome(tx, "endpoint_attempts_end", page, None), params)
    found = [rows.attempted(row, READ) for row in tx.rows(_way("attempted_messages", page), _up_to(end, params))]
    if content:
        if (fits := walk.fits([each.message for each in found])) < len(found):
            found, end = found[:fits], found[fits - 1].attempt_id
        filled = _filled(tx, [each.message for each in found])
        found = [replace(each, message=message) for each, message in zip(found, filled, strict=True)]
    return walk.walked(found, page, end)


def _lanes(tx: Tx, org_id: str | None, app_no: int | None) -> list[LaneView]:
    views = [lane_view(tx, no) for no in _lane_numbers(tx, org_id, app_no)]
    return [view for view in views if view is not None]


def _lane_numbers(tx: Tx, org_id: str | None, app_no: int | None) -> list[int]:
    if org_id is None and app_no is None:
        return [no for (no,) in tx.tuples("lane_all")]
    apps = [app_no] if org_id is None else [no for (no,) in tx.tuples("lane_apps", (org_id,)) if app_no in (None, no)]
    return [no for app in apps for (no,) in tx.tuples("lane_numbers", (app,))]


def _lane_page(tx: Tx, org_id: str, app_no: int | None, page: Page, url: str, state: str | None) -> list[LaneView]:
    asked = {"org_id": org_id, "app_no": app_no, "after": page.iterator or "", "limit": page.limit}
    asked |= {"url": url, "state": state, "now": tx.now}
    views = [lane_view(tx, no, MOST_LISTED) for (no,) in tx.tuples("lane_page", asked)]
    return [view for view in views if view is not None]


def lane_view(tx: Tx, endpoint_no: int, counted: int = MOST_WAITING) -> LaneView | None:
    row = tx.row("lane_view", {"no": endpoint_no, "bound": counted})
    return None if row is None else rows.lane_view(row, READ, counted)


def _lane_events(tx: Tx, endpoint_no: int, limit: int) -> list[LaneEvent]:
    return [rows.lane_event(row, READ) for row in tx.rows("lane_events", (endpoint_no, limit))]


def _timeline(tx: Tx, endpoint_no: int, where: LaneEventFilter, page: Page) -> Walk[TimelineEntry]:
    start = after_number(page.iterator)
    if start is None:
        start = 0 if page.backwards else LAST_NUMBER
    found = tx.rows(_way("timeline", page), (endpoint_no, start, walk.seen_at_once(where, page)))
    return walk.timeline([rows.timeline_entry(row, READ) for row in found], where, page)


def _counts(tx: Tx) -> Counts:
    waiting = dict(tx.tuples("counts_waiting"))
    oldest = min((row["first_due"] for row in tx.rows("waiting_lanes")), default=None)
    return Counts(
        pending=waiting.get(DeliveryState.PENDING, 0),
        scheduled=waiting.get(DeliveryState.SCHEDULED, 0),
        queued=tx.value("counts_queued"),
        delivering=tx.value("counts_delivering"),
        dead=tx.value("counts_dead"),
        lanes_open=tx.value("counts_lanes_open"),
        oldest_due=None if oldest is None else instant(oldest),
    )


# ── walks ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _way(name: str, page: Page) -> str:
    return f"{name}_back" if page.backwards else name


def _of_outcome(tx: Tx, name: str, page: Page, delivered: bool | None) -> str:
    return tx.sql[_way(name, page)].replace("{outcome}", OUTCOMES[delivered])


def _params(prefix: str, of: object, where: MessageFilter, page: Page) -> dict[str, Any]:
    span = walk.span(prefix, where, page)
    return {
        "of": of,
        "near": span.near,
        "far": span.far,
        "limit": page.limit,
        "stride": walk.STRIDE,
        "event_types": texts(where.event_types),
        "channel": where.channel,
        "tag": where.tag,
        "after": None if where.after is None else to_micros(where.after),
        "before": None if where.before is None else to_micros(where.before),
    }


def _end(tx: Tx, statement: str, params: dict[str, Any]) -> str | None:
    found = tx.conn.execute(statement, params).fetchall()
    return found[0]["id"] if found else None


def _up_to(end: str | None, params: dict[str, Any]) -> dict[str, Any]:
    return params if end is None else params | {"far": end}
