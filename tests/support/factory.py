"""Builders of everything that a store holds. All values differ, so that a swapped column or a wrong join fails a
test."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from hookline import clock, ids
from hookline.model.attempts import Sent, Timing
from hookline.model.catalogue import EventType, NewApplication, Organization
from hookline.model.deliveries import LeasedDelivery
from hookline.model.endpoints import NewEndpoint, OnDeath, Ordering, Scheme, Secret
from hookline.model.messages import NewMessage
from hookline.model.policy import PolicyOverride, Strategy
from hookline.model.states import ErrorKind, Health, Reason
from hookline.model.sweep import Death
from hookline.model.verdicts import Dead, Delivered, Judgement, Result, Retry, Verdict
from hookline.rules.claim.budgets import Slots

_number = itertools.count(1)
_START = datetime(2024, 2, 29, 12, 34, 56, 789_012, tzinfo=UTC)


def number() -> int:
    """Return a number that this run has not used before."""
    return next(_number)


def instant() -> datetime:
    """Return a past instant that no other fixture has, to the microsecond."""
    return _START + timedelta(seconds=2 * number(), microseconds=number())


def organization(**fields: Any) -> Organization:
    given: dict[str, Any] = {
        "id": ids.mint(ids.ORG, clock.wall()),
        "name": f"organization {number()}",
        "created_at": instant(),
    }
    return Organization(**(given | fields))


def new_application(**fields: Any) -> NewApplication:
    return NewApplication(**({"name": f"application {number()}"} | fields))


def full_application() -> NewApplication:
    """An application with every field set."""
    return NewApplication(
        name=f"application {number()}",
        uid=f"customer-{number()}",
        throttle_rate=100 + number(),
        metadata={"plan": f"gold {number()}", "größe": "⅞"},
    )


def event_type(org_id: str, **fields: Any) -> EventType:
    given: dict[str, Any] = {
        "org_id": org_id,
        "name": f"order.paid{number()}",
        "created_at": instant(),
        "updated_at": instant(),
    }
    return EventType(**(given | fields))


def full_event_type(org_id: str) -> EventType:
    return event_type(
        org_id,
        description=f"An order was paid ({number()})",
        archived=False,
        deprecated=True,
        schemas={"1": {"type": "object", "required": ["id"], "maxProperties": number()}},
        feature_flags=("beta", f"cohort-{number()}"),
        group_name=f"orders {number()}",
        policy=PolicyOverride(max_age=300.0 + number(), max_attempts=4),
        validated=True,
    )


def new_endpoint(**fields: Any) -> NewEndpoint:
    given = {"url": f"https://hooks.example.com/{number()}", "secrets": (Secret(key=secret_key()),)}
    return NewEndpoint(**(given | fields))


def full_endpoint() -> NewEndpoint:
    """An endpoint with every field set, none to its default."""
    return NewEndpoint(
        url=f"https://hooks.example.com/full/{number()}?q=ä",
        uid=f"endpoint-{number()}",
        description=f"the warehouse, gate {number()}",
        version=40 + number(),
        event_types=("order.paid", "order.shipped"),
        channels=("eu", "us"),
        throttle_rate=12.5 + number(),
        concurrency=7 + number(),
        ordering=Ordering.FIFO,
        on_death=OnDeath.BLOCK,
        scheme=Scheme.SVIX,
        secrets=(Secret(key=secret_key()), Secret(key=secret_key(), expires_at=instant())),
        headers={"x-tenant": f"tenant-{number()}", "x-ünused": "never sent"},
        metadata={"owner": f"team {number()}"},
        policy=full_policy(),
    )


def full_policy() -> PolicyOverride:
    return PolicyOverride(
        strategy=Strategy.FIXED,
        base=2.5,
        factor=4.5,
        cap=901.5,
        max_attempts=5,
        max_age=7200.25,
        schedule=(3.5, 14.0, 159.0),
        retry_after_cap=61.5,
    )


def secret_key() -> str:
    return f"whsec_{number():08d}bWFkZSBmb3IgYSB0ZXN0IG9ubHk="


def new_message(app_no: int, **fields: Any) -> NewMessage:
    given: dict[str, Any] = {
        "id": ids.mint(ids.MESSAGE, clock.wall()),
        "app_no": app_no,
        "event_type": "order.paid",
        "payload": b'{"order":%d}' % number(),
    }
    return NewMessage(**(given | fields))


def new_messages(app_no: int, count: int, **fields: Any) -> list[NewMessage]:
    return [new_message(app_no, **fields) for _ in range(count)]


# ── outcomes of a job ─────────────────────────────────────────────────────────────────────────────────────────────


def answered(status: int, **fields: Any) -> Sent:
    """A response with every field set."""
    given: dict[str, Any] = {
        "status": status,
        "detail": f"answered {status} ({number()})",
        "headers": {"content-type": "text/plain", "x-request-id": f"r{number()}"},
        "body": b"line %d\x00\xff\xfe" % number(),
        "truncated": True,
        "address": f"192.0.2.{number() % 250 + 1}",
        "started_at": clock.wall(),
        "timing": Timing(
            dns=11, connect=230 + number() % 1_000, tls=3_400, first_byte=45_000, total=560_000 + number() % 100_000
        ),
    }
    return Sent(**(given | fields))


def failed(kind: ErrorKind = ErrorKind.REFUSED, **fields: Any) -> Sent:
    given: dict[str, Any] = {
        "error": kind,
        "detail": f"{kind.value} ({number()})",
        "started_at": clock.wall(),
        "timing": Timing(total=1_000 + number() % 100_000),
    }
    return Sent(**(given | fields))


def result(job: LeasedDelivery, verdict: Verdict, health: Health, sent: Sent, **judgement: Any) -> Result:
    return Result(
        job=job,
        attempt_id=ids.mint(ids.ATTEMPT, clock.wall()),
        sent=sent,
        judgement=Judgement(verdict=verdict, health=health, **judgement),
    )


def delivered(job: LeasedDelivery, **sent: Any) -> Result:
    return result(job, Delivered(), Health.GOOD, answered(200, **sent))


def retry(
    job: LeasedDelivery,
    *,
    after: float = 30.0,
    health: Health = Health.BAD,
    spends: bool | None = None,
    **judgement: Any,
) -> Result:
    """Return a retry as the judge decides it: a failed probe spends no attempt."""
    spent = not job.probe if spends is None else spends
    verdict = Retry(at=job.claimed_at + timedelta(seconds=after), spends=spent, delay=after)
    return result(job, verdict, health, answered(503), **judgement)


def dead(job: LeasedDelivery, reason: Reason = Reason.PERMANENT_FAILURE, **judgement: Any) -> Result:
    given = {"gone": reason == Reason.ENDPOINT_GONE} | judgement
    status = 410 if reason == Reason.ENDPOINT_GONE else 422
    verdict = Dead(reason=reason, detail=f"{reason.value} ({number()})")
    return result(job, verdict, Health.GOOD, answered(status), **given)


def death(job: LeasedDelivery, reason: Reason = Reason.BUDGET_EXHAUSTED) -> Death:
    """Return the report that a delivery died while it waited."""
    return Death(
        delivery_id=job.delivery_id,
        message_id=job.message_id,
        endpoint_no=job.endpoint_no,
        event_type=job.event_type,
        reason=reason,
        sent=job.sent,
        accepted_at=job.accepted_at,
        died_at=instant(),
    )


def all_delivered(jobs: Sequence[LeasedDelivery]) -> list[Result]:
    return [delivered(job) for job in jobs]


def with_claim(job: LeasedDelivery, claim: int) -> LeasedDelivery:
    """Return the same job with another claim token than its own."""
    return replace(job, claim=claim)


def slots() -> Slots:
    """The slots of a worker that claims nothing."""
    return Slots(8, lane_limit=8, app_part=1.0, silent=8, max_bytes=1 << 20)
