"""Rules against guessing: how many wrong passwords, keys or tokens are allowed, and how long the lock after them
lasts. Pure.

The limit for one operator's name from one address is tight, and the limit for a name from all addresses is loose. An
attacker with many addresses could still lock the owner of a name out. So a browser in which the owner has signed in
before has a mark, a cookie, and its guesses are counted separately. A mark is valid for one name and its current
password, so it is useless for other names. Each address also has a limit over all names. A successful sign-in does not
reset this limit.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from datetime import datetime, timedelta
from ipaddress import IPv6Address, ip_address, ip_network

from msgspec import Struct

from hookline.model.operators import Guesses, Lock

NETWORK = 64  # bits of the IPv6 prefix that counts as one address, because a subscriber usually has a whole /64

MAX_DOUBLINGS = 20


class Rule(Struct, frozen=True, kw_only=True):
    free: int  # number of failed guesses at which the first lock begins
    first: float  # seconds of the first lock; each further failed guess doubles it
    longest: float  # seconds of the longest lock
    window: float  # seconds after which failed guesses are forgotten

    def lock(self, known: Guesses | None, now: datetime) -> Guesses:
        """Count one more failed guess. Return the new state, which may be locked."""
        if known is None or self._forgotten(known, now):
            known = Guesses(failures=0, since=now)
        failures = known.failures + 1
        return Guesses(failures=failures, since=known.since, locked_until=self._until(failures, now))

    def _forgotten(self, known: Guesses, now: datetime) -> bool:
        """Return whether the window is over, so that the earlier failed guesses no longer count.

        The window starts again when a lock ends. So a guess after the lock adds to the earlier ones, and the next lock
        is longer.
        """
        start = max(known.since, known.locked_until or known.since)
        return now - start >= timedelta(seconds=self.window)

    def _until(self, failures: int, now: datetime) -> datetime | None:
        if failures < self.free:
            return None
        doublings = min(failures - self.free, MAX_DOUBLINGS)
        return now + timedelta(seconds=min(self.longest, self.first * 2**doublings))


# The comment after each rule says which failed guesses the rule counts together. BROWSER is for browsers that have a
# mark: a cookie from an earlier sign-in with the same name.
PAIR = Rule(free=5, first=30, longest=900, window=3600)  # passwords for one name, from one address
NAME = Rule(free=50, first=30, longest=300, window=3600)  # passwords for one name, from all addresses
ADDRESS = Rule(free=100, first=60, longest=900, window=900)  # passwords for all names, from one address
BROWSER = Rule(free=10, first=30, longest=900, window=3600)  # passwords for one name, from one browser with a mark
TOKENS = Rule(free=20, first=10, longest=300, window=900)  # keys and tokens, from one address


class Subjects(Struct, frozen=True):
    """The counters of failed guesses that one sign-in increases before it is checked, and those that it resets if it
    succeeds. A counter is named by a hash. The numbers themselves are in the store."""

    rules: dict[bytes, Lock]  # by counter: the function that adds a failed guess to it
    forgiven: tuple[bytes, ...]  # the counters that a successful sign-in resets
    marked: bool = False  # the browser has a valid mark for this name


def password(key: bytes, name: str, address: str, mark: str = "", kept: str = "") -> Subjects:
    """Return which counters of failed guesses a sign-in with a password increases, and which it resets if it succeeds.
    The result has the names of the counters and their rules, not the numbers.

    `mark` is the cookie of the browser (see the function `mark`), or empty. `kept` is the stored hash of the operator's
    password, or empty if no operator has this name.
    """
    if marked(key, name, kept, mark):
        browser = _subject(key, "browser", name, mark)
        return Subjects({browser: BROWSER.lock}, (browser,), marked=True)
    place = network(address)
    pair, own, placed = (_subject(key, *parts) for parts in (("pair", name, place), ("name", name), ("address", place)))
    # A successful sign-in does not reset the counter of the address. Otherwise attackers could reset it with their own
    # account.
    return Subjects({pair: PAIR.lock, own: NAME.lock, placed: ADDRESS.lock}, (pair, own))


def mark(key: bytes, name: str, kept: str, chance: str) -> str:
    """Return the cookie value that marks a browser in which this operator has signed in.

    `kept` is the stored hash of the operator's password, so a new password makes old marks invalid. `chance` is a
    random string without dots.
    """
    return f"{chance}.{_subject(key, 'mark', name, kept, chance).hex()}"


def marked(key: bytes, name: str, kept: str, given: str) -> bool:
    """Return whether `given` is a cookie value that `mark` made for this operator with this key."""
    chance, _, proof = given.partition(".")
    return hmac.compare_digest(proof.encode(), _subject(key, "mark", name, kept, chance).hex().encode())


def renewed(keys: Sequence[bytes], name: str, kept: str, given: str) -> str:
    """Renew a browser's cookie value after the key was replaced.

    If one of the older keys (all but the first) signed `given`, return it signed with the first key. Otherwise return
    `given` unchanged. `kept` is the stored hash of the operator's password.
    """
    made = (marked(key, name, kept, given) for key in keys[1:])
    return mark(keys[0], name, kept, given.partition(".")[0]) if any(made) else given


def token(key: bytes, address: str) -> Subjects:
    placed = _subject(key, "token", network(address))
    return Subjects({placed: TOKENS.lock}, ())


def network(address: str) -> str:
    """Return the network of a client's address: an IPv4 address itself, or the /64 prefix of an IPv6 address. All
    clients without a valid address count as one network, `elsewhere`."""
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
    """Return a keyed hash of the parts, which names a counter or signs a mark. Users sometimes type their password as
    their name, and a stored hash with a key does not reveal it."""
    return hmac.digest(key, "\0".join(("guess", *parts)).encode("utf-8", "surrogatepass"), "sha256")


def wait(until: datetime, now: datetime) -> str:
    """Return the remaining time as text: `40 seconds`, `3 minutes`."""
    seconds = max(1, round((until - now).total_seconds()))
    number, unit = (seconds, "second") if seconds < 100 else (-(-seconds // 60), "minute")
    return f"{number} {unit}{'' if number == 1 else 's'}"
