"""When guessing must stop: how many wrong passwords, keys or tokens are free, and how long to wait after them. Pure.

A name is guarded from one address tightly, from all addresses together loosely. Whoever knows a name and has many addresses
could still keep its owner out: a browser from which its owner has signed in before brings a mark, and is counted by itself
instead. A mark is good for one name and its present password. So nobody collects marks for later guesses, and whoever brings
one needs no other guard. Addresses are guarded against trying many names; being right once does not make up for that.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from datetime import datetime, timedelta
from ipaddress import IPv6Address, ip_address, ip_network

from msgspec import Struct

from hookline.model.operators import Guesses, Lock

NETWORK = 64  # bits of an IPv6 address that one subscriber has

MAX_DOUBLINGS = 20


class Rule(Struct, frozen=True, kw_only=True):
    free: int  # guesses that cost nothing but being counted; the last of them locks
    first: float  # seconds of the first lock; each guess after it doubles them ...
    longest: float  # ... up to this
    window: float  # seconds after which they are forgotten

    def lock(self, known: Guesses | None, now: datetime) -> Guesses:
        """One guess more. See `access.Lock`."""
        if known is None or self._forgotten(known, now):
            known = Guesses(failures=0, since=now)
        failures = known.failures + 1
        return Guesses(failures=failures, since=known.since, locked_until=self._until(failures, now))

    def _forgotten(self, known: Guesses, now: datetime) -> bool:
        """By the window, which begins anew where a lock ends: who waits a lock out and guesses on waits longer."""
        start = max(known.since, known.locked_until or known.since)
        return now - start >= timedelta(seconds=self.window)

    def _until(self, failures: int, now: datetime) -> datetime | None:
        if failures < self.free:
            return None
        doublings = min(failures - self.free, MAX_DOUBLINGS)
        return now + timedelta(seconds=min(self.longest, self.first * 2**doublings))


PAIR = Rule(free=5, first=30, longest=900, window=3600)  # one name, from one address
NAME = Rule(free=50, first=30, longest=300, window=3600)  # one name, from wherever
ADDRESS = Rule(free=100, first=60, longest=900, window=900)  # any names, from one address
BROWSER = Rule(free=10, first=30, longest=900, window=3600)  # one name, from one browser that its owner has used
TOKENS = Rule(free=20, first=10, longest=300, window=900)  # keys and tokens, from one address


class Subjects(Struct, frozen=True):
    """What a guess counts against, and which of it is forgiven by being right."""

    rules: dict[bytes, Lock]
    forgiven: tuple[bytes, ...]
    marked: bool = False  # the browser has brought a mark of this name


def password(key: bytes, name: str, address: str, mark: str = "", kept: str = "") -> Subjects:
    """`kept` is the name's present password, as it is kept; empty if nobody has the name."""
    if marked(key, name, kept, mark):
        browser = _subject(key, "browser", name, mark)
        return Subjects({browser: BROWSER.lock}, (browser,), marked=True)
    place = network(address)
    pair, own, placed = (_subject(key, *parts) for parts in (("pair", name, place), ("name", name), ("address", place)))
    # Not the address: with one account of their own, guessers would forgive themselves.
    return Subjects({pair: PAIR.lock, own: NAME.lock, placed: ADDRESS.lock}, (pair, own))


def mark(key: bytes, name: str, kept: str, chance: str) -> str:
    """For a browser from which this name has signed in. `chance` is a random text without dots."""
    return f"{chance}.{_subject(key, 'mark', name, kept, chance).hex()}"


def marked(key: bytes, name: str, kept: str, given: str) -> bool:
    chance, _, proof = given.partition(".")
    return hmac.compare_digest(proof.encode(), _subject(key, "mark", name, kept, chance).hex().encode())


def renewed(keys: Sequence[bytes], name: str, kept: str, given: str) -> str:
    """A mark of any of these keys, as the first one would have made it; what is none stays as it is."""
    made = (marked(key, name, kept, given) for key in keys[1:])
    return mark(keys[0], name, kept, given.partition(".")[0]) if any(made) else given


def token(key: bytes, address: str) -> Subjects:
    placed = _subject(key, "token", network(address))
    return Subjects({placed: TOKENS.lock}, ())


def network(address: str) -> str:
    """What stands for whoever is at an address."""
    try:
        found = ip_address(address)
    except ValueError:
        return "elsewhere"
    if not isinstance(found, IPv6Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ip_network((found.packed, NETWORK), strict=False))


def _subject(key: bytes, *parts: str) -> bytes:
    """Keyed: a password that was typed into the field for the name must not be found from what is kept."""
    return hmac.digest(key, "\0".join(("guess", *parts)).encode("utf-8", "surrogatepass"), "sha256")


def wait(until: datetime, now: datetime) -> str:
    """In words: `40 seconds`, `3 minutes`."""
    seconds = max(1, round((until - now).total_seconds()))
    number, unit = (seconds, "second") if seconds < 100 else (-(-seconds // 60), "minute")
    return f"{number} {unit}{'' if number == 1 else 's'}"
