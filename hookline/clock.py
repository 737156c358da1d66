"""The clocks and random number generators of the service. Other code gets the time and random numbers from here.

There are exceptions. The module `secrets` makes keys, tokens and temporary file names. Schema validation measures CPU
time with `time`. `receive/idempotency/hold.py` reads the monotonic clock itself.

Schedules use the database's clock (`Store.now`), signatures the wall clock, and durations the monotonic clock.
"""

from __future__ import annotations

import os
import random
import secrets
import time
from datetime import UTC, datetime

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

chance = random.SystemRandom()
# Random numbers for ids, which are not secret. `SystemRandom` makes a system call for each id. During the call,
# another thread can take the interpreter lock, which delays a batch of ids. A forked child gets a new seed, so that it
# does not repeat its parent's ids.
quick_chance = random.Random(secrets.randbits(256))  # noqa: S311
os.register_at_fork(after_in_child=lambda: quick_chance.seed(secrets.randbits(256)))
monotonic = time.monotonic


def wall() -> datetime:
    return datetime.now(UTC)


def to_micros(at: datetime) -> int:
    """Return the exact microseconds since 1970. The SQLite store saves times in this form."""
    if at.tzinfo is None:
        raise ValueError("the time has no time zone")
    span = at - EPOCH
    return (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds


def from_micros(micros: int) -> datetime:
    seconds, rest = divmod(micros, 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest)
