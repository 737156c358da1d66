"""One leased delivery on its way through a worker: from the claim to what is recorded of it."""

from __future__ import annotations

from datetime import datetime, timedelta

from hookline import clock, ids
from hookline.engine.sender.loop import Request
from hookline.model import Judgement, LeasedDelivery, Result, Sent
from hookline.model.states import ErrorKind
from hookline.rules.request import Target


class InFlight:
    """Instants are monotonic."""

    __slots__ = ("claimed", "job", "send_before", "target", "tried_again")

    def __init__(self, job: LeasedDelivery, target: Target | None, claimed: float, send_before: float) -> None:
        self.job = job
        self.target = target
        self.claimed = claimed
        self.send_before = send_before  # later than this, the lease would not outlive the request
        self.tried_again = False

    def database_now(self) -> datetime:
        """The database's clock: when it leased the job, and the time since."""
        return self.job.claimed_at + timedelta(seconds=max(0.0, clock.monotonic() - self.claimed))

    def unsendable(self, detail: str) -> tuple[Request, Sent]:
        """In the place of what the sender gives back."""
        request = Request(ref=self, url="", headers=[], body=b"", deadline=0.0)
        said = f"signing the request: {detail}"
        return request, Sent(started_at=clock.wall(), error=ErrorKind.UNSENDABLE, detail=said)

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
