"""How many connections there may be, and how much memory they may hold: in all, and from one address.

Beyond the number, the longest idle ones are closed. If there is none, the one whose body has been awaited longest is refused;
if there is none, the one whose answer has waited longest to be taken is aborted. Beyond the memory, the latter.

Idle is a connection without a request under way: silent since it was made, between two requests, or still sending the head of
one. A request that has come whole is never cut for another. An answer that waits to be taken is in memory.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Container
from itertools import islice
from typing import Protocol

import structlog

from hookline import clock
from hookline.engine.child_processes import raised_file_limit
from hookline.security.lockout import network

MAX_CONNECTIONS = 4096  # of one listener
PER_ADDRESS = 1024
MAX_HELD = 256 * 1024 * 1024  # bytes in memory for the connections of one listener
HELD_PER_ADDRESS = MAX_HELD // 4
LOOKED_AT = 16  # idle connections that are tried for one new connection
LOG_EVERY = 60.0  # seconds between two log lines

log = structlog.get_logger(__name__)


class LimitedConnection(Protocol):
    def close_if_idle(self) -> bool:
        """False: it is not idle. Bytes have arrived that were not read yet, or wait to be taken."""

    def refuse_if_awaited(self) -> bool:
        """False: the body of its request is not awaited. It has come, or bytes have arrived that were not read yet."""

    def held(self) -> int:
        """Bytes that are in memory for it."""

    def let_go(self) -> bool:
        """Of them. False: a request under way needs them."""

    def abort(self) -> None:
        """There is no room for it."""


class _Share:
    """All connections, or those of one address."""

    def __init__(self, most: float, most_held: float, address: str = "") -> None:
        self.most = most
        self.address = address
        self.count = 0
        self.idle: OrderedDict[LimitedConnection, None] = OrderedDict()  # the longest idle first
        self.awaited: OrderedDict[LimitedConnection, None] = (
            OrderedDict()
        )  # those whose body has brought nothing for longest first
        self._most_held = most_held
        self._bytes = 0
        self._held: dict[LimitedConnection, int] = {}  # bytes at most; who has waited longest comes first

    @property
    def is_over(self) -> bool:
        return self.count > self.most

    @property
    def has_spare(self) -> bool:
        """A few connections beyond the most are kept. Their requests get 503, except for the health."""
        return self.count <= self.most + self.most // 16 + 4

    def hold(self, guest: LimitedConnection, size: int) -> None:
        self.drop(guest)
        if self._bytes + size > self._most_held:
            self._relieve(size)
        if size:
            self._held[guest] = size
            self._bytes += size

    def drop(self, guest: LimitedConnection) -> None:
        self._bytes -= self._held.pop(guest, 0)

    def holding(self) -> list[LimitedConnection]:
        """By what is left now: callers have taken parts of it."""
        self._held = {guest: size for guest in self._held if (size := guest.held())}
        self._bytes = sum(self._held.values())
        return list(self._held)

    def _relieve(self, more: int) -> None:
        for guest in self.holding():
            if self._bytes + more <= self._most_held:
                return
            if guest.let_go():
                self.drop(guest)


class ConnectionLimits:
    def __init__(
        self,
        *,
        most: int = MAX_CONNECTIONS,
        per_address: int = PER_ADDRESS,
        held: int = MAX_HELD,
        held_per_address: int = HELD_PER_ADDRESS,
        proxies: Container[str] = (),
    ) -> None:
        """A proxy may have any number of connections: those of all its callers."""
        self._whole = _Share(most, held)
        self._per_address = per_address
        self._held_per_address = held_per_address
        self._proxies = proxies
        self._by_address: dict[str, _Share] = {}
        self._shares: dict[LimitedConnection, tuple[_Share, _Share]] = {}
        self._extra: set[LimitedConnection] = set()
        self._told = -math.inf

    def enter(self, guest: LimitedConnection, address: str) -> None:
        shares = self._shares[guest] = (self._share_of(address), self._whole)
        for share in shares:
            share.count += 1
        full = next((share for share in shares if share.is_over), None)
        if full is None or self._make_room(full, guest):
            self.idle(guest)

    def _share_of(self, address: str) -> _Share:
        if address in self._proxies:
            return _Share(math.inf, math.inf)
        place = network(address)
        return self._by_address.setdefault(place, _Share(self._per_address, self._held_per_address, place))

    def _make_room(self, full: _Share, guest: LimitedConnection) -> bool:
        """Whether the new one may stay. Closed connections count until they are gone."""
        self._tell(full)
        gone = self._gone(full)
        if gone is None and not full.has_spare:
            guest.abort()
            return False
        if gone is None or gone in self._extra:
            self._extra.add(guest)
        return True

    def _gone(self, full: _Share) -> LimitedConnection | None:
        for longest in list(islice(full.idle, LOOKED_AT)):
            if self._closed(longest):
                return longest
        for longest in list(islice(full.awaited, LOOKED_AT)):
            if self._refused(longest):
                return longest
        for longest in full.holding():
            if longest.let_go():
                self._drop(longest)
                return longest
        return None

    def _closed(self, longest: LimitedConnection) -> bool:
        self.busy(longest)
        if longest.close_if_idle():
            return True
        self.idle(longest)  # from now on
        return False

    def _refused(self, longest: LimitedConnection) -> bool:
        if longest.refuse_if_awaited():
            return True
        self.awaits(longest)
        return False

    def has_room(self, guest: LimitedConnection) -> bool:
        """Whether its requests are answered normally."""
        if guest in self._extra and not any(share.is_over for share in self._shares[guest]):
            self._extra.discard(guest)
        return guest not in self._extra

    def busy(self, guest: LimitedConnection) -> None:
        for share in self._shares.get(guest, ()):
            share.idle.pop(guest, None)
            share.awaited.pop(guest, None)

    def awaits(self, guest: LimitedConnection) -> None:
        """The body of a request. Again for each part that has come."""
        self.busy(guest)
        for share in self._shares.get(guest, ()):
            share.awaited[guest] = None

    def idle(self, guest: LimitedConnection) -> None:
        self.busy(guest)
        for share in self._shares.get(guest, ()):
            share.idle[guest] = None

    def hold(self, guest: LimitedConnection) -> None:
        """After what it holds has become more, or after a part of that was taken."""
        size = guest.held()
        for share in self._shares.get(guest, ()):
            share.hold(guest, size)

    def _drop(self, guest: LimitedConnection) -> None:
        for share in self._shares.get(guest, ()):
            share.drop(guest)

    def leave(self, guest: LimitedConnection) -> None:
        self.busy(guest)
        self._drop(guest)
        self._extra.discard(guest)
        for share in self._shares.pop(guest, ()):
            share.count -= 1
            if not share.count:
                self._by_address.pop(share.address, None)

    def _tell(self, full: _Share) -> None:
        if clock.monotonic() - self._told >= LOG_EVERY:
            self._told = clock.monotonic()
            log.warning("connections_full", most=full.most, of="all" if full is self._whole else "one address")


def within_file_limit(most: int = MAX_CONNECTIONS) -> int:
    """At most half of the files that this process may open, as many as the system lets us have: the rest is for the database,
    the log and a second listener."""
    return max(1, min(most, raised_file_limit(most * 4) // 2))
