"""The statistics of an endpoint, an application or an organization."""

from __future__ import annotations

from hookline.api.wire.base import Instant, Out, fill
from hookline.model.stats import Stats, StatsFilter


class EndpointStats(Out, frozen=True, kw_only=True):
    """Number of deliveries of one endpoint: those that are open now, and those that ended in the time window."""

    success: int
    pending: int
    sending: int
    fail: int
    canceled: int  # deliveries that died and were resolved


def endpoint_stats(found: Stats) -> EndpointStats:
    return EndpointStats(
        success=found.delivered,
        pending=found.pending + found.scheduled + found.queued,
        sending=found.delivering,
        fail=found.dead,
        canceled=found.resolved,
    )


class DeliveryCounts(Out, frozen=True, kw_only=True):
    """Number of deliveries in each state. Pending, scheduled, queued and delivering count the deliveries that are open
    now. Delivered, dead and resolved count the deliveries that ended in the time window."""

    pending: int
    scheduled: int
    queued: int  # deliveries that wait for earlier ones with the same ordering key
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
    dead_letters: int  # current number of unresolved dead letters
    complete: bool  # false if a count reached its limit, so that the true number may be larger


def stats(found: Stats, where: StatsFilter) -> StatsOut:
    return fill(
        StatsOut,
        found,
        where,
        deliveries=fill(DeliveryCounts, found),
        attempts=AttemptCounts(delivered=found.delivered, retry=found.retries, dead=found.deaths),
        dead_letters=found.dead_open,
    )
