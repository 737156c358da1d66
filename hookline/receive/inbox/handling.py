"""What both workers decide alike. Pure: time and chance are arguments."""

from __future__ import annotations

import inspect
import math
import random
import traceback
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from msgspec import Struct

from hookline.errors import HooklineError, InvalidInput
from hookline.model import RetryPolicy, Strategy
from hookline.model.states import Reason
from hookline.receive.inbox import plans
from hookline.receive.inbox.checks import checked_age
from hookline.receive.inbox.model import Claim, Event
from hookline.receive.inbox.plans import Plan
from hookline.receive.inbox.statement import Engine
from hookline.rules import backoff

Handler = Callable[[Any, Event], Any]

# After a failure, when there is nothing to try again: the mark "done" was committed by the handler, with half of its effect.
COMMITTED = (
    "%r: is not tried again: the handler has committed by itself (leave that to the worker), or another worker has it"
)

POLICY = RetryPolicy(cap=3600.0)  # 1 s, 3 s, 9 s ... an hour; 12 attempts within a day
RECONNECT = RetryPolicy(base=0.2, factor=2.0, cap=10.0)
CLEAN_EVERY = 3600.0

_SOONEST = 0.005
_LONGEST_ERROR = 1000


class NoHandler(HooklineError):
    """No handler for this event type, and none for `*`. It waits for one as for any other failure to pass."""


class Lost(Exception):
    """The claim ended and somebody else has the event. What the handler would do now, they do."""


class RolledBack(HooklineError):
    """The handler rolled the transaction back by itself, and returned as if nothing had happened."""


class Retry(NamedTuple):
    delay: float


class Bury(NamedTuple):
    reason: Reason


class Rules(Struct, frozen=True, kw_only=True):
    handlers: Mapping[str, Handler]
    policy: RetryPolicy
    lease: float
    poll: float
    keep: float | None  # seconds; None: somebody else cleans

    def handler_of(self, event: Event) -> Handler:
        found = self.handlers.get(event.event_type or "") or self.handlers.get("*")
        if found is None:
            raise NoHandler(f"no handler for {event.event_type or 'an event without a type'}")
        return found

    def is_used_up(self, claimed: Claim) -> bool:
        """Every attempt was made, and the last of them never came to an end."""
        return claimed.event.attempt > self.policy.max_attempts

    def used_up(self, engine: Engine, now: datetime, claimed: Claim) -> Plan[bool]:
        attempts = self.policy.max_attempts
        return plans.bury(engine, now, claimed, plans.DIED, Reason.ATTEMPTS_EXHAUSTED, attempts)

    def failed(
        self, engine: Engine, now: datetime, claimed: Claim, error: BaseException, age: float, chance: random.Random
    ) -> Plan[bool]:
        verdict, line = self.judge(claimed.event.attempt, age, chance), last_line(error)
        if isinstance(verdict, Bury):
            return plans.bury(engine, now, claimed, line, verdict.reason, claimed.event.attempt)
        return plans.retry(engine, now, claimed, line, verdict.delay)

    def judge(self, attempt: int, age: float, chance: random.Random) -> Retry | Bury:
        """After attempt number `attempt` has failed, with so much of the time budget gone."""
        if attempt >= self.policy.max_attempts:
            return Bury(Reason.ATTEMPTS_EXHAUSTED)
        wait = backoff.delay(self.policy, attempt - 1, 0.0, chance)
        return Bury(Reason.BUDGET_EXHAUSTED) if age + wait > self.policy.max_age else Retry(wait)

    def pause(self, looks: int, chance: random.Random) -> float:
        """Before the next look, after so many that found nothing: soon at first, because what rang may not be committed yet."""
        return min(self.poll, _SOONEST * 2.0 ** min(looks, 32)) * chance.uniform(0.5, 1.0)


def rules(
    handlers: Mapping[str, Handler],
    *,
    policy: RetryPolicy,
    lease: float,
    poll: float,
    keep: float | timedelta | None,
) -> Rules:
    if not isinstance(handlers, Mapping):
        raise InvalidInput("give functions by the event type, or by *", field="handlers")
    for event_type, handler in handlers.items():
        if not isinstance(event_type, str) or not callable(handler):
            raise InvalidInput("give functions by the event type, or by *", field="handlers")
    if not handlers:
        raise InvalidInput("there are none", field="handlers")
    if policy.strategy is Strategy.DECORRELATED:
        raise InvalidInput("the inbox retries with full jitter or by a fixed schedule", field="policy")
    for name, seconds in (("lease", lease), ("poll", poll)):
        if not 0 < seconds < math.inf:
            raise InvalidInput("is not a number of seconds above 0", field=name)
    kept = None if keep is None else checked_age(keep)
    return Rules(handlers=dict(handlers), policy=policy, lease=float(lease), poll=float(poll), keep=kept)


def checked_connect(connect: Callable[[], Any]) -> Callable[[], Any]:
    if not callable(connect):
        raise InvalidInput("give a function that opens a connection; each thread or task has its own", field="connect")
    return connect


def last_line(error: BaseException) -> str:
    """Of the traceback, as a text that any database takes."""
    line = "".join(traceback.format_exception_only(error)).strip()
    return line.replace("\0", "\ufffd").encode(errors="replace").decode()[:_LONGEST_ERROR]


def refuse_coroutine(result: object) -> None:
    """A handler that is async has done nothing yet, and in a worker without a loop never will."""
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise TypeError("the handler is async: use AsyncInboxWorker")
