"""Statistics."""

from __future__ import annotations

from hookline.api.wire.base import Instant, Out, fill
from hookline.model import Stats, StatsFilter


class EndpointStats(Out, frozen=True, kw_only=True):
    """One endpoint's deliveries: open ones as they are now, the others by when they ended."""

    success: int
    pending: int
    sending: int
    fail: int
    canceled: int  # dead letters that somebody resolved


def endpoint_stats(found: Stats) -> EndpointStats:
    return EndpointStats(
        success=found.delivered,
        pending=found.pending + found.scheduled + found.queued,
        sending=found.delivering,
        fail=found.dead,
        canceled=found.resolved,
    )


class DeliveryCounts(Out, frozen=True, kw_only=True):
    """Pending, scheduled, queued and delivering: now. The others ended in the window."""

    pending: int
    scheduled: int
    queued: int  # behind others of their ordering key
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
    messages: int  # accepted in the window
    deliveries: DeliveryCounts
    attempts: AttemptCounts
    dead_letters: int  # open now, whenever they died
    complete: bool  # false: a figure reached the bound up to which is counted


def stats(found: Stats, where: StatsFilter) -> StatsOut:
    return fill(
        StatsOut,
        found,
        since=where.since,
        until=where.until,
        deliveries=fill(DeliveryCounts, found),
        attempts=AttemptCounts(delivered=found.delivered, retry=found.retries, dead=found.deaths),
        dead_letters=found.dead_open,
    )
