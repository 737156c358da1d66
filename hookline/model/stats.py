"""Statistics of deliveries within a time range."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct


class StatsFilter(Struct, frozen=True, kw_only=True):
    """An organization, an application or an endpoint, and a time range. `since` is included, `until` is excluded."""

    org_id: str
    since: datetime
    until: datetime
    app_no: int | None = None
    endpoint_no: int | None = None


class Stats(Struct, frozen=True, kw_only=True):
    """Counts of messages, deliveries and attempts within a time range, and of the deliveries that are open now."""

    messages: int  # accepted messages; always 0 if the filter names an endpoint
    pending: int  # current number of pending deliveries
    scheduled: int  # current number of scheduled deliveries
    queued: int  # current number of deliveries that wait behind others with the same ordering key
    delivering: int  # current number of deliveries that a worker sends
    delivered: int
    dead: int  # deliveries that died in the time range and were neither replayed nor resolved
    resolved: int  # deliveries that died in the time range and were resolved later
    retries: int  # failed attempts after which a retry was scheduled
    deaths: int  # failed attempts after which the delivery was dead
    dead_open: int  # current number of unresolved dead letters, whenever they died
    complete: bool  # False if a count reached its limit, so that the true number may be larger
