"""The decisions of an inbox worker: which handler runs, whether a failed event is retried or becomes dead, and how long
the worker waits. Time and random numbers are arguments."""

from __future__ import annotations

import math
import random
import traceback
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, TypedDict

from msgspec import Struct
from msgspec.structs import force_setattr

from hookline.errors import HooklineError, InvalidInput
from hookline.model.policy import RetryPolicy, Strategy
from hookline.model.states import Reason
from hookline.receive.inbox.checks import check_age
from hookline.receive.inbox.model import Event
from hookline.receive.inbox.queries import KEPT
from hookline.rules import backoff

Handler = Callable[[Any, Event], Any]

POLICY = RetryPolicy(cap=3600.0)  # waits of up to 1 s, 3 s, 9 s ... an hour; 12 attempts within a day

# Upper limit in seconds of the first pause between two polls of an idle worker. The limit doubles with each further
# pause, up to `Rules.poll`. A pause is a random time between half its limit and its limit.
_SHORTEST_PAUSE = 0.005
_LONGEST_ERROR = 1000  # maximum characters of a stored error


class NoHandler(HooklineError):
    """There is no handler for this event type, and none for `*`. The event is retried, as after any other failure."""


class WorkerOptions(TypedDict, total=False):
    """The options of `InboxWorker` and `AsyncInboxWorker`. `InboxWorker` documents them."""

    policy: RetryPolicy
    lease: float
    poll: float
    keep: float | timedelta | None


class Rules(Struct, frozen=True, kw_only=True):
    """The arguments that the application gives to an inbox worker. They are checked on creation."""

    handlers: Mapping[str, Handler]
    policy: RetryPolicy = POLICY
    lease: float = 60.0  # seconds until the event of a dead worker can be claimed again
    poll: float = 0.2  # maximum seconds between two polls of an idle worker
    keep: float | timedelta | None = KEPT  # how long keys are kept; None: the worker deletes none

    def __post_init__(self) -> None:
        if not isinstance(self.handlers, Mapping) or not all(
            isinstance(event_type, str) and callable(handler) for event_type, handler in self.handlers.items()
        ):
            raise InvalidInput("give a dict from event types, or *, to functions", field="handlers")
        if not self.handlers:
            raise InvalidInput("the dict is empty", field="handlers")
        if self.policy.strategy is Strategy.DECORRELATED:
            raise InvalidInput("the inbox retries with full jitter or by a fixed schedule", field="policy")
        for name, seconds in (("lease", self.lease), ("poll", self.poll)):
            if not 0 < seconds < math.inf:
                raise InvalidInput("is not a number of seconds above 0", field=name)
        if self.keep is not None:
            check_age(self.keep)
        # A copy, because the application may change its dict while threads of the worker read the handlers.
        force_setattr(self, "handlers", dict(self.handlers))

    def handler_of(self, event: Event) -> Handler:
        found = self.handlers.get(event.event_type or "") or self.handlers.get("*")
        if found is None:
            raise NoHandler(f"no handler for {event.event_type or 'an event without a type'}")
        return found

    def is_exhausted(self, event: Event) -> bool:
        """Return whether the event has used all its attempts, so that its handler must not run again.

        This happens mostly if a worker died during the last attempt. A worker that is alive when the last attempt
        fails makes the event dead itself.
        """
        return event.attempt > self.policy.max_attempts

    def judge(self, attempt: int, age: float, chance: random.Random) -> float | Reason:
        """Return the seconds until the retry after attempt number `attempt` has failed, or the reason why the event
        becomes dead. `age` is how many seconds of the time budget are used."""
        if attempt >= self.policy.max_attempts:
            return Reason.ATTEMPTS_EXHAUSTED
        wait = backoff.delay(self.policy, attempt - 1, 0.0, chance)
        return Reason.BUDGET_EXHAUSTED if age + wait > self.policy.max_age else wait

    def pause(self, idle_polls: int, chance: random.Random) -> float:
        """Return the seconds until the next poll, after `idle_polls` polls that found nothing.

        The first pauses are short, because a worker is woken before the new event is committed.
        """
        return min(self.poll, _SHORTEST_PAUSE * 2.0 ** min(idle_polls, 32)) * chance.uniform(0.5, 1.0)


def last_line(error: BaseException) -> str:
    """Return the last line of the traceback, as text that any database can store."""
    line = "".join(traceback.format_exception_only(error)).strip()
    return line.replace("\0", "\ufffd").encode(errors="replace").decode()[:_LONGEST_ERROR]
