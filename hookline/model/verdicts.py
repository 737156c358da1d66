"""The verdict on an attempt, and the report of writing verdicts to the store."""

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
    spends: bool = True  # the attempt counts against `max_attempts`
    delay: float = 0.0  # seconds until the retry, with jitter; decorrelated jitter computes the next delay from it


class Dead(Struct, frozen=True, kw_only=True, tag=True):
    reason: Reason
    detail: str


Verdict = Delivered | Retry | Dead
OUTCOMES: dict[type, str] = {Delivered: "delivered", Retry: "retry", Dead: "dead"}  # the name of each verdict


class Judgement(Struct, frozen=True, kw_only=True):
    verdict: Verdict
    health: Health
    hold_until: datetime | None = None  # a Retry-After holds the whole lane until this time
    gone: bool = False  # the endpoint answered 410 and will be disabled
    slow_down: bool = False  # the response asks for a lower rate (429, or 503 with Retry-After)


class Result(Struct, frozen=True, kw_only=True):
    """A leased delivery, the result of its request and the verdict on it: the input of `store.pipeline.record`."""

    job: LeasedDelivery
    attempt_id: str
    sent: Sent
    judgement: Judgement
    ended_at: datetime | None = None  # when the response was complete, by the database's clock
    last_left: bool = False  # the attempt failed, and the policy allows only one further attempt
    ready_at: datetime | None = None  # when the delivery was due, or when its endpoint was resumed, if that was later


class RecordReport(Struct, frozen=True, kw_only=True):
    recorded: int  # number of results whose claim was still valid
    stale: int  # number of results whose lease was lost; nothing was written for them
    events: tuple[LaneEvent, ...] = ()
    refused: tuple[int, ...] = ()  # ids of deliveries whose outcome the database could not store; they are now dead
    lost: tuple[str, ...] = ()  # ids of the attempts whose lease was lost
