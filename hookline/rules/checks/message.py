"""Checks of messages and retry policies, before they reach the store or an outbox.

Each check raises `InvalidInput` with a message of one line. Publishers import this module, so it needs only msgspec.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from hookline import ids
from hookline.errors import InvalidInput
from hookline.model.messages import NewMessage
from hookline.model.policy import PolicyOverride, RetryPolicy, Strategy
from hookline.rules.checks import text as text_checks
from hookline.rules.trace_context import well_formed

DAY = 86_400.0
MAX_PAYLOAD = 1024 * 1024  # default limit in bytes
LARGEST_PAYLOAD = 64 * 1024 * 1024  # highest limit that a deployment may set
MAX_DELAY = timedelta(days=30)  # how far `deliver_at` may be in the future
MAX_MESSAGE_CHANNELS = 5
MAX_CHANNEL = 128  # characters of a channel
MAX_TAGS = 10
MAX_SCHEDULE = 50

# Lowest and highest value of each number in a retry policy. Durations are in seconds.
POLICY_BOUNDS: Mapping[str, tuple[float, float]] = {
    "base": (0.001, DAY),
    "factor": (1, 100),
    "cap": (0.001, 30 * DAY),
    "max_attempts": (1, 100),
    "max_age": (0.001, 30 * DAY),
    "retry_after_cap": (0, 30 * DAY),
    "schedule": (0, 30 * DAY),
}

_raw = msgspec.json.Decoder(msgspec.Raw)


# ── policies ──────────────────────────────────────────────────────────────────────────────────────────────────────


def check_policy(policy: PolicyOverride | RetryPolicy) -> None:
    for field, (lowest, highest) in POLICY_BOUNDS.items():
        value = getattr(policy, field)
        if field == "max_attempts" and value is not None:
            text_checks.check_whole("policy.max_attempts", value, int(lowest), int(highest))
        elif field != "schedule" and value is not None:
            text_checks.check_number(f"policy.{field}", value, lowest, highest)
    _check_schedule(policy)
    if policy.base is not None and policy.cap is not None and policy.cap < policy.base:
        raise InvalidInput(f"{policy.cap:g} is less than the base, {policy.base:g}", field="policy.cap")


def _check_schedule(policy: PolicyOverride | RetryPolicy) -> None:
    """Check the schedule of a policy.

    An override may have a schedule and no strategy, because the strategy of the deployment may be `fixed`.
    """
    schedule = policy.schedule or ()
    if policy.strategy == Strategy.FIXED and not schedule:
        raise InvalidInput("the fixed strategy needs at least one delay", field="policy.schedule")
    if policy.strategy not in (None, Strategy.FIXED) and schedule:
        raise InvalidInput(f"the strategy {policy.strategy} has none", field="policy.schedule")
    if policy.strategy is None and policy.schedule == ():
        raise InvalidInput("give at least one delay, or leave it out", field="policy.schedule")
    if len(schedule) > MAX_SCHEDULE:
        raise InvalidInput(f"more than {MAX_SCHEDULE} delays", field="policy.schedule")
    for delay in schedule:
        text_checks.check_number("policy.schedule", delay, *POLICY_BOUNDS["schedule"])


# ── messages ──────────────────────────────────────────────────────────────────────────────────────────────────────


def check_message(
    new: NewMessage, *, now: datetime, max_payload: int = MAX_PAYLOAD, decoded: bool = False
) -> NewMessage:
    """Check a message and return it as it will be stored. A malformed trace context is dropped, not refused.

    `decoded`: the payload is part of JSON text that the caller has already parsed, so it is not parsed again.
    """
    text_checks.check_name("event type", new.event_type)
    check_payload(new.payload, max_payload, decoded=decoded)
    if new.event_id is not None:
        text_checks.check_own_name("event_id", new.event_id, ids.MESSAGE)
    if new.channels is not None:
        text_checks.check_names("channels", new.channels, MAX_MESSAGE_CHANNELS, MAX_CHANNEL)
    if new.tags is not None:
        text_checks.check_listed("tags", new.tags, MAX_TAGS)
        for tag in new.tags:
            text_checks.check_text("tags", tag, 128, shortest=1)
    if new.ordering_key is not None:
        text_checks.check_text("ordering_key", new.ordering_key, 256, shortest=1)
    if new.deliver_at is not None:
        _check_deliver_at(new.deliver_at, now)
    if new.policy is not None:
        check_policy(new.policy)
    return new if new.trace is None else replace(new, trace=well_formed(new.trace))


def check_payload(payload: bytes, limit: int = MAX_PAYLOAD, *, decoded: bool = False) -> None:
    """Check the size of the payload, and that it is JSON in UTF-8. Hookline sends the bytes unchanged, so the check
    creates no Python objects.

    `decoded`: the caller has already parsed the JSON, so it is not parsed again.
    """
    if len(payload) > limit:
        raise InvalidInput(f"{len(payload)} bytes, more than {limit}", field="payload")
    try:
        payload.decode()  # msgspec's `Raw` does not check the encoding of strings
        if not decoded:
            _raw.decode(payload)
    except UnicodeDecodeError:
        raise InvalidInput("is not UTF-8", field="payload") from None
    except RecursionError:
        raise InvalidInput("is nested too deeply", field="payload") from None
    except msgspec.DecodeError as error:
        raise InvalidInput(f"is not JSON: {error}", field="payload") from None


def _check_deliver_at(deliver_at: datetime, now: datetime) -> None:
    text_checks.check_instant("deliver_at", deliver_at)
    if deliver_at - now > MAX_DELAY:
        raise InvalidInput(f"more than {MAX_DELAY.days} days ahead", field="deliver_at")
