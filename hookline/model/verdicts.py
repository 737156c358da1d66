"""What follows from an attempt, and what was recorded of it."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from hookline.model.attempts import Sent
from hookline.model.deliveries import LeasedDelivery
from hookline.model.lanes import LaneEvent
from hookline.model.states import Health, Reason


class Delivered(Struct, frozen=True, kw_only=True, tag=True):
    pass


class Retry(Struct, frozen=True, kw_only=True, tag=True):
    at: datetime
    spends: bool = True  # it counts against the attempt budget
    fresh: bool = False  # at once, on a new connection
    delay: float = 0.0  # the jittered delay; decorrelated jitter grows from it


class Dead(Struct, frozen=True, kw_only=True, tag=True):
    reason: Reason
    detail: str


Verdict = Delivered | Retry | Dead


class Judgement(Struct, frozen=True, kw_only=True):
    verdict: Verdict
    health: Health
    hold_until: datetime | None = None  # Retry-After of a 429 or 503 holds the whole lane
    gone: bool = False  # 410: the endpoint is to be disabled
    slow_down: bool = False  # it says "too fast", not "broken"


class Result(Struct, frozen=True, kw_only=True):
    """A job, what came of it, and what follows: the input of `Store.record`."""

    job: LeasedDelivery
    attempt_id: str
    sent: Sent
    judgement: Judgement
    ended_at: datetime | None = None  # when the answer was in, by the database's clock
    last_left: bool = False  # the attempt that follows is the last of its budget
    ready_at: datetime | None = None  # from when it waited for a worker alone: a pause that held it does not count


class RecordReport(Struct, frozen=True, kw_only=True):
    recorded: int  # results whose claim still held
    stale: int  # results of a lost lease: nothing was written for them
    events: tuple[LaneEvent, ...] = ()
    refused: tuple[int, ...] = ()  # deliveries whose outcome the database takes in no form: they are dead
    lost: tuple[str, ...] = ()  # the attempts of those that are stale
