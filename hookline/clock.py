"""The only place that knows what time it is or throws dice; everything else takes them as arguments.

The database's clock schedules (`Store.now`), the wall clock signs, the monotonic clock measures.
"""

from __future__ import annotations

import os
import random
import secrets
import time
from datetime import UTC, datetime

__all__ = ["EPOCH", "chance", "from_micros", "monotonic", "quick_chance", "to_micros", "wall"]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

chance = random.SystemRandom()
# For ids, which are not secrets: a system call for each would hand the interpreter to another thread in the middle of every
# batch. A forked child must not repeat its parent's.
quick_chance = random.Random(secrets.randbits(256))  # noqa: S311
os.register_at_fork(after_in_child=lambda: quick_chance.seed(secrets.randbits(256)))
monotonic = time.monotonic


def wall() -> datetime:
    return datetime.now(UTC)


def to_micros(at: datetime) -> int:
    """Exact microseconds since 1970: how SQLite keeps an instant."""
    if at.tzinfo is None:
        raise ValueError("an instant needs a time zone")
    span = at - EPOCH
    return (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds


def from_micros(micros: int) -> datetime:
    seconds, rest = divmod(micros, 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest)
