"""Statistics of a period."""

from __future__ import annotations

import asyncio
from typing import Any

from hookline import ids
from hookline.model.stats import Stats, StatsFilter
from hookline.store.plans.plan import Database, Plan, Plans, Step, reads, snapshots, value

# Maximum rows counted per figure. Counting that many takes about a second. Without this limit, the count of a busy
# month would block other work.
MAX_COUNTED = 250_000


class Statistics(Plans):
    """Count the deliveries and dead letters that are open now, and messages, attempts and dead letters of a period."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._counting = asyncio.Lock()  # one count at a time, so that counting does not occupy every connection

    @reads
    def in_flight(self, endpoint_no: int) -> Plan[int]:
        """Count the endpoint's leased deliveries, also if its concurrency is unlimited."""
        count: int = yield from value("stats_delivering", endpoints=[endpoint_no])
        return count

    async def stats(self, where: StatsFilter) -> Stats:
        """Count messages and attempts by the time in their ids, and dead letters by the time of death, in one snapshot.

        The cost grows with the number of rows in the period and the number of open deliveries and dead letters. Each
        count stops at `MAX_COUNTED` rows. Finished rows from before the period add no cost.
        """
        async with self._counting:
            return await self._stats(where)

    @snapshots
    def _stats(self, where: StatsFilter) -> Plan[Stats]:
        yield Step("stats_snapshot")
        yield Step("stats_planner")
        apps = yield from _applications(where)
        lanes = {"endpoints": (yield from _endpoints(apps, where)), "max_rows": MAX_COUNTED}
        tried = lanes | _made_within(ids.ATTEMPT, where)
        sent = {"apps": apps, "max_rows": MAX_COUNTED} | _made_within(ids.MESSAGE, where)
        messages = yield from value("stats_messages", **sent)
        pending, scheduled = yield from _pair("stats_waiting", lanes)
        queued = yield from value("stats_queued", **lanes)
        attempts = yield from value("stats_attempts", **tried)
        retries, deaths = yield from _pair("stats_failed", tried)
        dead, resolved = yield from _pair("stats_dead", lanes | {"since": where.since, "until": where.until})
        dead_open = yield from value("stats_dead_open", **lanes)
        counted = (messages, pending + scheduled, queued, attempts, retries + deaths, dead + resolved, dead_open)
        return Stats(
            messages=messages,
            pending=pending,
            scheduled=scheduled,
            queued=queued,
            delivering=(yield from value("stats_delivering", **lanes)),
            delivered=max(0, attempts - retries - deaths),  # an attempt that did not fail was a success
            dead=dead,
            resolved=resolved,
            retries=retries,
            deaths=deaths,
            dead_open=dead_open,
            complete=all(many < MAX_COUNTED for many in counted),
        )


def _applications(where: StatsFilter) -> Plan[list[int]]:
    if where.endpoint_no is not None:
        return []
    if where.app_no is not None:
        return [where.app_no]
    return [each["no"] for each in (yield Step("stats_apps", org_id=where.org_id))]


def _endpoints(apps: list[int], where: StatsFilter) -> Plan[list[int]]:
    if where.endpoint_no is not None:
        return [where.endpoint_no]
    return [each["no"] for each in (yield Step("stats_endpoints", apps=apps))]


def _made_within(prefix: str, where: StatsFilter) -> dict[str, Any]:
    """Return the bounds of the ids that were made in the period: `first` is included, `last` is excluded."""
    return {"first": ids.first_at(prefix, where.since), "last": ids.first_at(prefix, where.until)}


def _pair(name: str, values: dict[str, Any]) -> Plan[tuple[int, int]]:
    found: list[Any] = yield Step(name, **values)
    return found[0][0], found[0][1]
