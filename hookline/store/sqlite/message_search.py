"""Messages for people who search. See `store/message_search.py`."""

from __future__ import annotations

from typing import Any

from hookline import ids
from hookline.model import FoundMessage, Message, MessageSearch
from hookline.store import listing, rows
from hookline.store import message_search as shared
from hookline.store.protocols import Page, Walk
from hookline.store.sqlite.base import Base
from hookline.store.sqlite.clock import to_micros
from hookline.store.sqlite.transaction import READ, Tx, numbers, texts


class MessageSearches(Base):
    async def found_messages(self, org_id: str, where: MessageSearch, page: Page) -> Walk[FoundMessage]:
        if not shared.possible(where):
            return Walk(rows=[])
        return await self._read(_named if where.ref is not None else _walked, org_id, where, page)


def _named(tx: Tx, org_id: str, where: MessageSearch, page: Page) -> Walk[FoundMessage]:
    params = {"org_id": org_id, "app_no": where.app_no, "ref": where.ref, "most": shared.MAX_OF_EVENT}
    by_id = tx.rows("found_by_id", params)
    messages = [rows.listed_message(row, READ) for row in by_id or tx.rows("found_by_event_id", params)]
    return shared.named(_joined(tx, messages), where, page)


def _walked(tx: Tx, org_id: str, where: MessageSearch, page: Page) -> Walk[FoundMessage]:
    apps = _apps(tx, org_id, where)
    params = _params(org_id, where, page) | {"apps": numbers(apps)}
    back = "_back" if page.backwards else ""
    found, end = [], None
    for look in shared.looks(where, apps, page):
        params["stride"] = look.stride
        end = tx.value(f"{look.way}_end{back}", params) if look.bounded else None
        found = tx.rows(f"{look.way}{back}", params if end is None else params | {"far": end})
        if end is None or len(found) == page.limit:
            break
    return listing.walked(_joined(tx, [rows.listed_message(row, READ) for row in found]), page, end)


def _apps(tx: Tx, org_id: str, where: MessageSearch) -> list[int]:
    """Of the organization: the one that is asked for, or the first ones."""
    if where.app_no is None:
        return [no for (no,) in tx.tuples("found_apps", (org_id, shared.FEW + 1))]
    known = tx.row("found_app", {"app_no": where.app_no, "org_id": org_id})
    return [] if known is None else [where.app_no]


def _joined(tx: Tx, messages: list[Message]) -> list[FoundMessage]:
    counted = tx.rows("found_states", {"ids": texts([message.id for message in messages]), "now": tx.now})
    return shared.joined(messages, shared.states(counted))


def _params(org_id: str, where: MessageSearch, page: Page) -> dict[str, Any]:
    span = listing.span(ids.MESSAGE, where, page)
    return {
        "org_id": org_id,
        "app_no": where.app_no,
        "near": span.near,
        "far": span.far,
        "limit": page.limit,
        "event_types": texts(where.event_types),
        "channel": where.channel,
        "tag": where.tag,
        "after": None if where.after is None else to_micros(where.after),
        "before": None if where.before is None else to_micros(where.before),
        "state": where.state,
    }
