"""A leased delivery while a worker handles it, from the claim to the recorded outcome."""

from __future__ import annotations

from datetime import datetime, timedelta

from hookline import clock, ids
from hookline.engine.sender.protocol import Request
from hookline.model import Judgement, LeasedDelivery, Result, Sent
from hookline.model.states import ErrorKind
from hookline.rules.request import Target


class InFlight:
    """A leased delivery and the endpoint to send it to. Times are monotonic."""

    __slots__ = ("claimed", "job", "resent", "send_before", "target")

    def __init__(self, job: LeasedDelivery, target: Target | None, claimed: float, send_before: float) -> None:
        self.job = job
        self.target = target
        self.claimed = claimed
        self.send_before = send_before  # a request that starts later could outlive its lease
        self.resent = False  # the request failed before any of it was sent, and was submitted a second time

    def database_now(self) -> datetime:
        """Return the current time by the database's clock: the time of the lease plus the time since then."""
        return self.job.claimed_at + timedelta(seconds=max(0.0, clock.monotonic() - self.claimed))

    def unsendable(self, detail: str) -> tuple[Request, Sent]:
        """Return the result of a request that cannot be signed, in the form of a result from the sender."""
        request = Request(ref=self, url="", headers=[], body=b"", deadline=0.0)
        detail = f"signing the request: {detail}"
        return request, Sent(started_at=clock.wall(), error=ErrorKind.UNSENDABLE, detail=detail)

    def result(
        self,
        sent: Sent,
        judgement: Judgement,
        ended_at: datetime,
        *,
        last_left: bool = False,
        ready_at: datetime | None = None,
    ) -> Result:
        return Result(
            job=self.job,
            attempt_id=ids.mint(ids.ATTEMPT, sent.started_at),
            sent=sent,
            judgement=judgement,
            ended_at=ended_at,
            last_left=last_left,
            ready_at=ready_at,
        )
