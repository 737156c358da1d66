"""Whether a key could be guessed. Pure.

It counts how many different bytes a key has, and how many different steps from one byte to the next: a run of one byte has one
of each, and a key that counts (0, 1, 2 ...) has one step. A key that repeats itself is refused too.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import pairwise

LEAST = 8  # of 24 random bytes, less than one in 10^22 has fewer
LEAST_IN_TEXT = 5  # of 32 random hexadecimal digits, one in 10^16
SPELLED_LEAST = 16  # bytes: fewer may well have fewer than 8 different ones


def weakness(key: bytes, least: int = LEAST) -> str | None:
    """Why it could be guessed, as the end of "this one ..."; None where nothing speaks against it."""
    steps = {(after - before) % 256 for before, after in pairwise(key)}
    if len(set(key)) < least:
        return f"has fewer than {least} different bytes"
    if len(steps) < least:
        return "counts up or down"
    return "repeats itself" if _repeats(key) else None


def weakness_of_text(text: str) -> str | None:
    """Of a key that is the text itself; also where that text spells a weak one in base64 or hexadecimal."""
    spelled = (raw for raw in _spelled(text) if len(raw) >= SPELLED_LEAST)
    return weakness(text.encode("utf-8", "surrogateescape"), LEAST_IN_TEXT) or next(
        filter(None, map(weakness, spelled)), None
    )


def _spelled(text: str) -> Iterator[bytes]:
    for decode in (bytes.fromhex, partial(binascii.a2b_base64, strict_mode=True)):
        with suppress(ValueError):
            yield decode(text)


def _repeats(key: bytes) -> bool:
    """Whether all of it is one pattern, twice or more often; the last time may be cut off."""
    return any(key[:-width] == key[width:] for width in range(1, len(key) // 2 + 1))
