"""Statistics."""

from __future__ import annotations

from hookline.api.wire.base import Instant, Out, fill
from hookline.model import Stats, StatsFilter


class EndpointStats(Out, frozen=True, kw_only=True):
    """Deliveries of one endpoint: open ones now, and those that ended in the window."""

    success: int
    pending: int
    sending: int
    fail: int
    canceled: int  # resolved dead letters


def endpoint_stats(found: Stats) -> EndpointStats:
    return EndpointStats(
        success=found.delivered,
        pending=found.pending + found.scheduled + found.queued,
        sending=found.delivering,
        fail=found.dead,
        canceled=found.resolved,
    )


class DeliveryCounts(Out, frozen=True, kw_only=True):
    """Counts by state. Pending, scheduled, queued and delivering are current; the others ended in the window."""

    pending: int
    scheduled: int
    queued: int  # waiting behind other deliveries of their ordering key
    delivering: int
    delivered: int
    dead: int
    resolved: int


class AttemptCounts(Out, frozen=True, kw_only=True):
    delivered: int
    retry: int
    dead: int


class StatsOut(Out, frozen=True, kw_only=True):
    since: Instant
    until: Instant
    messages: int  # number of messages accepted in the window
    deliveries: DeliveryCounts
    attempts: AttemptCounts
    dead_letters: int  # open dead letters now
    complete: bool  # false: a count stopped at its limit


def stats(found: Stats, where: StatsFilter) -> StatsOut:
    return fill(
        StatsOut,
        found,
        where,
        deliveries=fill(DeliveryCounts, found),
        attempts=AttemptCounts(delivered=found.delivered, retry=found.retries, dead=found.deaths),
        dead_letters=found.dead_open,
    )
