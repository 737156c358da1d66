"""Decides whether a key is easy to guess. Pure.

A key is weak if it has few different bytes, few different steps from one byte to the next, or a repeated pattern. For
example, a key that counts (0, 1, 2 ...) has one step.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import pairwise

# A key with fewer different bytes is weak. For a random key of 24 bytes, the probability of this is less than 10^-22.
MIN_DIFFERENT = 8
# A text with fewer different bytes is weak. For 32 random hex digits, the probability of this is about 10^-16.
MIN_DIFFERENT_IN_TEXT = 5
# The decoded bytes of a text are checked only if there are at least this many. Fewer bytes often look weak even if they
# are random.
MIN_DECODED = 16


def weakness(key: bytes, min_different: int = MIN_DIFFERENT) -> str | None:
    """Return why the key is easy to guess, as the rest of a sentence that begins with "it". None: it is strong."""
    steps = {(after - before) % 256 for before, after in pairwise(key)}
    if len(set(key)) < min_different:
        return f"has fewer than {min_different} different bytes"
    if len(steps) < min_different:
        return "counts up or down"
    return "repeats itself" if _repeats(key) else None


def weakness_of_text(text: str) -> str | None:
    """Return why a text is a weak key, or None. A text that is the base64 or hexadecimal form of a weak key is weak
    too."""
    decoded = (raw for raw in _decoded(text) if len(raw) >= MIN_DECODED)
    return weakness(text.encode("utf-8", "surrogateescape"), MIN_DIFFERENT_IN_TEXT) or next(
        filter(None, map(weakness, decoded)), None
    )


def _decoded(text: str) -> Iterator[bytes]:
    for decode in (bytes.fromhex, partial(binascii.a2b_base64, strict_mode=True)):
        with suppress(ValueError):
            yield decode(text)


def _repeats(key: bytes) -> bool:
    """Return whether the key is one pattern repeated at least twice. The last repetition may be incomplete."""
    return any(key[:-width] == key[width:] for width in range(1, len(key) // 2 + 1))
