"""Dead letters: deliveries that failed permanently."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from msgspec import Struct

from hookline.model.deliveries import DeliveryFields
from hookline.model.states import Reason


class DeadLetter(DeliveryFields, frozen=True, kw_only=True):
    id: int  # the id of the delivery
    app_id: str
    endpoint_id: str
    endpoint_url: str
    reason: Reason
    detail: str
    died_at: datetime
    last_status: int | None = None
    resolved_at: datetime | None = None
    note: str | None = None


class DeadFilter(Struct, frozen=True, kw_only=True):
    """A filter for dead letters. All fields that are set must match."""

    org_id: str | None = None
    app_no: int | None = None
    endpoint_no: int | None = None
    event_type: str | None = None
    reason: Reason | None = None
    since: datetime | None = None  # the delivery died at this time or later
    until: datetime | None = None  # the delivery died before this time
    ids: tuple[int, ...] | None = None
    resolved: bool | None = False  # None matches resolved and unresolved dead letters


class DeadOfApplication(Struct, frozen=True, kw_only=True):
    org_id: str
    app_id: str
    dead: int


class DeadStats(Struct, frozen=True, kw_only=True):
    dead: int
    pending: int  # replayed deliveries that are still open; the filter's reason and times do not apply to them
    resolved: int
    by_reason: dict[str, int]
    by_application: tuple[DeadOfApplication, ...] = ()  # the applications with the most dead letters
    oldest: datetime | None = None


class DeadGroup(Struct, frozen=True, kw_only=True):
    """Dead letters of one endpoint that have the same reason."""

    app_id: str
    endpoint_no: int
    endpoint_id: str
    endpoint_url: str
    reason: Reason
    dead: int
    oldest: datetime


class DeadSummary(Struct, frozen=True, kw_only=True):
    groups: tuple[DeadGroup, ...]  # sorted by size, largest first
    more: bool  # older dead letters were not read, so the true counts may be larger

    @property
    def dead(self) -> int:
        return sum(group.dead for group in self.groups)

    def by_reason(self) -> list[tuple[Reason, int]]:
        """Return the number of dead letters by reason, largest number first."""
        found: Counter[Reason] = Counter()
        for group in self.groups:
            found[group.reason] += group.dead
        return found.most_common()

    def by_endpoint(self) -> list[tuple[DeadGroup, int]]:
        """Return a pair for each endpoint: one group of the endpoint, which has its id and URL, and the number of dead
        letters in all its groups. The endpoint with the largest number comes first."""
        found: Counter[int] = Counter()
        for group in self.groups:
            found[group.endpoint_no] += group.dead
        one = {group.endpoint_no: group for group in self.groups}
        return [(one[no], number) for no, number in found.most_common()]
