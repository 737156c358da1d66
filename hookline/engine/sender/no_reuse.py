"""Remembers the receivers whose connections are not reused for a while, because they broke a connection that was
reused."""

from __future__ import annotations

from collections.abc import Hashable

from msgspec import Struct

FIRST, LONGEST = 5.0, 600.0  # seconds without reuse; they double if the receiver soon breaks a connection again
MAX_RECEIVERS = 10_000  # maximum receivers to remember; the oldest one is forgotten first


class _Term(Struct, frozen=True):
    until: float
    seconds: float


class NoReuse:
    """The receivers that broke a reused connection, each with the time until which its connections are not reused.
    Times are monotonic, in seconds."""

    def __init__(self) -> None:
        self._terms: dict[Hashable, _Term] = {}

    def add(self, receiver: Hashable, now: float) -> None:
        """Note that the receiver broke a reused connection. While reuse is already off for it, do nothing."""
        last = self._terms.get(receiver)
        if last is not None and now < last.until:
            return
        seconds = FIRST if last is None or now >= last.until + LONGEST else min(LONGEST, last.seconds * 2)
        self._terms.pop(receiver, None)  # so that the new entry of the receiver is the last one
        if len(self._terms) >= MAX_RECEIVERS:
            del self._terms[next(iter(self._terms))]
        self._terms[receiver] = _Term(now + seconds, seconds)

    def applies(self, receiver: Hashable, now: float) -> bool:
        term = self._terms.get(receiver)
        return term is not None and now < term.until
