"""Count statistics in one snapshot."""

from __future__ import annotations

import asyncio
from typing import Any

from hookline.model import Stats, StatsFilter
from hookline.store.plans.stats import MAX_COUNTED, Figures, Span, attempt_ids, message_ids, stats_of
from hookline.store.sqlite.base import Base, WakeEvents
from hookline.store.sqlite.clock import to_micros
from hookline.store.sqlite.readers import Readers
from hookline.store.sqlite.transaction import Context, Params, Tx, numbers
from hookline.store.sqlite.writer import Writer


class Statistics(Base):
    def __init__(self, writer: Writer, readers: Readers, context: Context, events: WakeEvents) -> None:
        super().__init__(writer, readers, context, events)
        self._counting = asyncio.Lock()  # one count at a time, so that counting does not occupy every reader

    async def in_flight(self, endpoint_no: int) -> int:
        return await self._read(_in_flight, endpoint_no)

    async def stats(self, where: StatsFilter) -> Stats:
        async with self._counting:
            return await self._read(_stats, where)


def _in_flight(tx: Tx, endpoint_no: int) -> int:
    return int(tx.value("stats_delivering", (numbers([endpoint_no]),)))


def _stats(tx: Tx, where: StatsFilter) -> Stats:
    apps = _applications(tx, where)
    lanes = {"endpoints": numbers(_endpoints(tx, apps, where)), "bound": MAX_COUNTED}
    tried = lanes | _between(attempt_ids(where))
    died = lanes | {"since": to_micros(where.since), "until": to_micros(where.until)}
    return stats_of(
        Figures(
            messages=tx.value(
                "stats_messages", {"apps": numbers(apps), "bound": MAX_COUNTED} | _between(message_ids(where))
            ),
            waiting=_pair(tx, "stats_waiting", lanes),
            queued=tx.value("stats_queued", lanes),
            delivering=tx.value("stats_delivering", (lanes["endpoints"],)),
            attempts=tx.value("stats_attempts", tried),
            failed=_pair(tx, "stats_failed", tried),
            dead=_pair(tx, "stats_dead", died),
            dead_open=tx.value("stats_dead_open", lanes),
        )
    )


def _applications(tx: Tx, where: StatsFilter) -> list[int]:
    if where.endpoint_no is not None:
        return []
    if where.app_no is not None:
        return [where.app_no]
    return [no for (no,) in tx.tuples("stats_apps", (where.org_id,))]


def _endpoints(tx: Tx, apps: list[int], where: StatsFilter) -> list[int]:
    if where.endpoint_no is not None:
        return [where.endpoint_no]
    return [no for (no,) in tx.tuples("stats_endpoints", (numbers(apps),))]


def _between(span: Span) -> dict[str, Any]:
    return {"first": span.first, "last": span.last}


def _pair(tx: Tx, name: str, params: Params) -> tuple[int, int]:
    ((one, two),) = tx.tuples(name, params)
    return one or 0, two or 0
