"""Protocols for monitoring: counts, statistics, pulses, activity and alerts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from hookline.model import Counts, Depths, Stats, StatsFilter, SweepReport
from hookline.model.activity import Activity, AttemptCounts
from hookline.model.alerts import Alert, Decide, EarlierChecks, Notice, Outgoing, Tell, UnhealthyEndpoint
from hookline.model.pulses import Pulse
from hookline.store.protocols.pages import Page


class Figures(Protocol):
    """Count what is open now, and what happened in a period."""

    async def counts(self) -> Counts: ...
    async def depths(self, *, fresh: float = 0.0) -> Depths:
        """Count everything that is open (deliveries, dead letters, outbox rows). History is never counted.

        Counting takes longer the more is open, so results are cached: in this process on SQLite, in the database on
        PostgreSQL. A cached result is used for `fresh` seconds or for `COUNTING` times as long as counting took,
        whichever is longer, and while another process is counting. With `fresh=0` the result is always new.
        """

    async def in_flight(self, endpoint_no: int) -> int:
        """Count the endpoint's leased deliveries, also if its concurrency is unlimited."""

    async def stats(self, where: StatsFilter) -> Stats:
        """Count messages and attempts by the instant in their ids, and dead letters by the instant of death, in one
        snapshot.

        The cost grows with the number of rows in the window and of open rows, up to a limit per figure. It does not
        grow with history.
        """


class Pulses(Protocol):
    """Store what processes did (pulses) and what happened at each endpoint (activity)."""

    async def add_pulse(self, process: str, pulse: Pulse, attempts: AttemptCounts | None = None) -> None:
        """Store what the process did since its last pulse, in total and per endpoint. The database sets `at`."""

    async def activity(
        self, since: datetime, *, org_id: str, app_no: int | None = None, endpoint_no: int | None = None, grain: int
    ) -> list[Activity]:
        """Return activity of an organization, an application or an endpoint, oldest first, from the interval that
        contains `since`. Empty intervals are left out. Minutes are kept for two hours, quarter hours for a week."""

    async def endpoint_activity(
        self, nos: Sequence[tuple[int, int]], since: datetime, *, grain: int, first: datetime, step: timedelta
    ) -> dict[int, list[Activity]]:
        """Return activity of several endpoints, given as (application number, endpoint number), by endpoint number. It
        is summed in steps of equal length, and the first step begins no later than `since`."""

    async def pulses(self, since: datetime, until: datetime | None = None, *, minutes: bool = False) -> list[Pulse]:
        """Return the pulses of all processes after `since`, up to and including `until`, oldest first. With `minutes`,
        return one pulse per minute for the whole fleet."""

    async def roll_pulses(self) -> SweepReport:
        """Aggregate pulses into minutes and delete old ones. Does nothing if another worker is doing it."""


class Alerts(Protocol):
    """Store the state of alerts."""

    async def alert_checks(self, seconds: float) -> EarlierChecks:
        """Return the times at which the alert rules were checked in the last `seconds` seconds, or a longer period."""

    async def unhealthy_endpoints(self, nos: Collection[int], limit: int) -> list[UnhealthyEndpoint]:
        """Return these endpoints, plus up to `limit` others whose circuit is not closed. Deleted endpoints are left out."""

    async def judge_alerts(self, backlog: int, *, every: float, decide: Decide, tell: Tell) -> list[Notice] | None:
        """Decide on alerts from their stored state, write the changes, and write notifications to the outbox, in one
        transaction.

        Return the alerts that fired, got worse or were resolved. None: another process is checking, or has just done
        so. `decide` and `tell` must be pure functions, and may be called twice.
        """

    async def tell_alerts(self, outgoing: Sequence[Outgoing]) -> None:
        """Write messages of the alerts' own application to the outbox."""

    async def alerts(self, page: Page, *, firing: bool | None = None) -> list[Alert]:
        """Return a page of alerts, newest first; the iterator is a number. `firing` selects only those that fire, or
        only those that do not."""
