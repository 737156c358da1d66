"""What happened in a stretch of time."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct


class StatsFilter(Struct, frozen=True, kw_only=True):
    """One organization, one of its applications, or one endpoint of that; from `since` on and before `until`."""

    org_id: str
    since: datetime
    until: datetime
    app_no: int | None = None
    endpoint_no: int | None = None


class Stats(Struct, frozen=True, kw_only=True):
    """What happened in a stretch of time, and how many deliveries are open now."""

    messages: int  # accepted; 0 where one endpoint is asked for
    pending: int  # now
    scheduled: int  # now
    queued: int  # now: behind others of their ordering key
    delivering: int  # now
    delivered: int
    dead: int  # died, and nobody has replayed or resolved them since
    resolved: int  # died, and somebody has resolved them since
    retries: int  # attempts that failed and were followed by another try
    deaths: int  # attempts that ended a delivery for good
    dead_open: int  # now, whenever they died
    complete: bool  # False: a figure reached the bound up to which is counted, and may be larger
