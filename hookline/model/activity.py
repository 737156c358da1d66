"""What endpoints did, by the minute: attempts that delivered, that will be tried again, and that ended a delivery for good.

Kept by endpoint and, in a row of its own, by application: a chart reads as many rows as it has points, however much was sent.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

MINUTE, QUARTER = 60, 900  # seconds that one row is about
ALL = 0  # the endpoint's number in the row of its whole application


Did = dict[
    tuple[int, int], list[int]
]  # by application and endpoint: attempts that delivered, that are retried, that are dead


class EndpointWork(Struct, frozen=True, kw_only=True):
    """Of one endpoint, since the last pulse."""

    app_no: int
    endpoint_no: int  # or `ALL`: of endpoints that were too many to be told apart
    delivered: int = 0
    retried: int = 0
    dead: int = 0


class Activity(Struct, frozen=True, kw_only=True):
    """One stretch of `MINUTE` or `QUARTER` seconds."""

    at: datetime  # its start
    delivered: int
    retried: int
    dead: int

    @property
    def attempts(self) -> int:
        return self.delivered + self.retried + self.dead


def add(did: Did, more: Did) -> None:
    for key, made in more.items():
        held = did.get(key)
        did[key] = made if held is None else [one + other for one, other in zip(held, made, strict=True)]


def deeds(did: Did) -> list[EndpointWork]:
    return [
        EndpointWork(app_no=app_no, endpoint_no=endpoint_no, delivered=delivered, retried=retried, dead=dead)
        for (app_no, endpoint_no), (delivered, retried, dead) in did.items()
    ]
