"""What endpoints did, as rows: what both engines share."""

from __future__ import annotations

from collections.abc import Sequence

from hookline.model.activity import ALL, MINUTE, QUARTER, Activity, AttemptCounts, EndpointWork, add
from hookline.store.rows import Reading, Row

KEPT = {MINUTE: 2 * 3_600, QUARTER: 7 * 86_400}  # seconds, by grain
MAX_RETIRED = 20_000  # rows of one grain at a time


def counted(deeds: Sequence[EndpointWork]) -> list[tuple[tuple[int, int], list[int]]]:
    """The numbers of each row: of each endpoint, and of each application in all; in the order of their keys."""
    did: AttemptCounts = {}
    for deed in deeds:
        made = [deed.delivered, deed.retried, deed.dead]
        add(did, {(deed.app_no, ALL): made})
        if deed.endpoint_no != ALL:
            add(did, {(deed.app_no, deed.endpoint_no): made})
    return sorted(did.items())


def activity(row: Row, read: Reading) -> Activity:
    return Activity(at=read.instant(row["at"]), delivered=row["delivered"], retried=row["retried"], dead=row["dead"])
