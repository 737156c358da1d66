"""How the service itself is doing."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from hookline.model import Counts, Depths, Stats, StatsFilter, SweepReport
from hookline.model.activity import Activity, EndpointWork
from hookline.model.alerts import Alert, Decide, EarlierChecks, Notice, Outgoing, Tell, UnhealthyEndpoint
from hookline.model.pulses import Pulse
from hookline.store.protocols.pages import Page


class Figures(Protocol):
    """How much there is of everything, now and in a stretch of time."""

    async def counts(self) -> Counts: ...
    async def depths(self, *, fresh: float = 0.0) -> Depths:
        """How much there is of everything that is open. Never counts history.

        Counting takes longer the more is open, so that an answer may be shared: one that this process (or, on PostgreSQL, any
        process) got is given again for `fresh` seconds, or for `COUNTING` times as long as it took, whichever is longer; and
        while another is counting, the last one is. With 0 it is always counted anew.
        """

    async def in_flight(self, endpoint_no: int) -> int:
        """Deliveries that are leased now, whether or not the lane is limited."""

    async def stats(self, where: StatsFilter) -> Stats:
        """Counted by the instants in the ids of messages and attempts, and by when dead letters died; one snapshot.

        The work grows with what is in the window and what is open, up to a bound for each figure; never with history.
        """


class Pulses(Protocol):
    """What processes did, second by second, and what became of it for each endpoint."""

    async def add_pulse(self, process: str, pulse: Pulse, deeds: Sequence[EndpointWork] = ()) -> None:
        """What that process did since its last one, and its endpoints; `at` is the database's."""

    async def activity(
        self, since: datetime, *, org_id: str, app_no: int | None = None, endpoint_no: int | None = None, grain: int
    ) -> list[Activity]:
        """Of an organization, an application or one of its endpoints, oldest first, from the stretch that `since` is in; those in
        which nothing happened are left out. Minutes are kept for two hours, quarters of an hour for a week."""

    async def endpoint_activity(
        self, nos: Sequence[tuple[int, int]], since: datetime, *, grain: int, first: datetime, step: timedelta
    ) -> dict[int, list[Activity]]:
        """Likewise, of several endpoints (the number of the application, and its own), by their number; summed up in steps of
        one length, of which the first begins no later than `since`."""

    async def pulses(self, since: datetime, until: datetime | None = None, *, minutes: bool = False) -> list[Pulse]:
        """Of all processes after `since` and until then, oldest first; or by the minute, of all together."""

    async def roll_pulses(self) -> SweepReport:
        """Make minutes of them, and forget those that are old. Nothing if another worker is at it."""


class Alerts(Protocol):
    """What the rules of alerts remember."""

    async def alert_looks(self, seconds: float) -> EarlierChecks:
        """When the rules were asked in the last so many seconds, or longer."""

    async def unwell(self, nos: Collection[int], most: int) -> list[UnhealthyEndpoint]:
        """These endpoints, and up to so many whose circuit is not closed; none that was deleted."""

    async def judge_alerts(self, backlog: int, *, every: float, decide: Decide, tell: Tell) -> list[Notice] | None:
        """Decide on what is remembered, write what changes, and what is told of it to the outbox: one transaction.

        The alerts that fired, got worse or are resolved. None: another process is at it, or has just been. `decide` and
        `tell` must be pure, and may be asked twice.
        """

    async def tell_alerts(self, outgoing: Sequence[Outgoing]) -> None:
        """Messages of the alerts' own application, to the outbox."""

    async def alerts(self, page: Page, *, firing: bool | None = None) -> list[Alert]:
        """Newest first; the iterator is a number. Only those that fire, or only those that do not, if asked."""
