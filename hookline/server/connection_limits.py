"""Limits the number of connections and the memory that they hold, in total and for each client address.

If there are too many connections, the server does the first of these that is possible:
- close the connection that has been idle longest;
- refuse the request with an incomplete body whose client has sent nothing for the longest time;
- abort the connection whose response has waited longest for its client to read it.

If the connections hold too much memory, those whose response has waited longest are aborted.

A connection is idle if it has no request in progress: no byte has arrived yet, it is between two requests, or the head
of a request is still arriving. A response stays in memory until the client reads it. A request that has arrived
completely is not aborted to make room, unless its client leaves an earlier response unread.
"""

from __future__ import annotations

import math
from collections.abc import Container
from itertools import islice
from typing import TYPE_CHECKING

import structlog

from hookline import clock
from hookline.engine.child_processes import raised_file_limit
from hookline.security.lockout import network

if TYPE_CHECKING:
    from hookline.server.connection import Connection

MAX_CONNECTIONS = 4096  # connections of one listening socket
PER_ADDRESS = 1024
MAX_HELD = 256 * 1024 * 1024  # bytes in memory for the connections of one listener
HELD_PER_ADDRESS = MAX_HELD // 4
# To make room for a new connection, the server ends an idle connection, or else one whose request body is
# incomplete. It tries at most this many of each of these two kinds.
MAX_TRIED = 16
LOG_EVERY = 60.0  # minimum seconds between two `connections_full` log lines

log = structlog.get_logger(__name__)


class _Share:
    """The counters and limits for all connections, or for those from one address."""

    def __init__(self, limit: float, max_held: float, address: str = "") -> None:
        self.limit = limit
        self.address = address
        self.count = 0
        self.idle: dict[Connection, None] = {}  # the connection that has been idle longest comes first
        # Connections whose request body is incomplete. The one that has sent nothing for the longest time comes first.
        self.awaited: dict[Connection, None] = {}
        self._max_held = max_held
        self._bytes = 0
        # Response bytes that waited in memory for the client of each connection at the last call of `hold`. The client
        # may have read some of them since. The connection whose last call was longest ago comes first.
        self._held: dict[Connection, int] = {}

    @property
    def is_over(self) -> bool:
        return self.count > self.limit

    @property
    def has_spare(self) -> bool:
        """Return whether the newest connection may stay although it exceeds the limit. `count` includes it.

        A few connections beyond the limit may stay. Their requests get 503, except health checks.
        """
        return self.count <= self.limit + self.limit // 16 + 4

    def hold(self, connection: Connection, size: int) -> None:
        self.drop(connection)
        if self._bytes + size > self._max_held:
            self._free_memory(size)
        if size:
            self._held[connection] = size
            self._bytes += size

    def drop(self, connection: Connection) -> None:
        self._bytes -= self._held.pop(connection, 0)

    def holding(self) -> list[Connection]:
        """Return the connections whose responses still wait in memory.

        Update the number of waiting bytes of each connection first, because clients may have read some since the last
        call of `hold`.
        """
        self._held = {connection: size for connection in self._held if (size := connection.held())}
        self._bytes = sum(self._held.values())
        return list(self._held)

    def _free_memory(self, needed: int) -> None:
        for connection in self.holding():
            if self._bytes + needed <= self._max_held:
                return
            if connection.let_go():
                self.drop(connection)


class ConnectionLimits:
    def __init__(
        self,
        *,
        limit: int = MAX_CONNECTIONS,
        per_address: int = PER_ADDRESS,
        held: int = MAX_HELD,
        held_per_address: int = HELD_PER_ADDRESS,
        proxies: Container[str] = (),
    ) -> None:
        """Set the limits: numbers of connections, and bytes in memory (`held`, `held_per_address`). `proxies` have no
        limit per address, because one proxy connects for many clients."""
        self._total = _Share(limit, held)
        self._per_address = per_address
        self._held_per_address = held_per_address
        self._proxies = proxies
        self._by_address: dict[str, _Share] = {}
        self._shares: dict[Connection, tuple[_Share, _Share]] = {}
        self._extra: set[Connection] = set()  # connections beyond the limit, whose requests get 503
        self._logged_at = -math.inf

    def enter(self, connection: Connection, address: str) -> None:
        shares = self._shares[connection] = (self._share_of(address), self._total)
        for share in shares:
            share.count += 1
        full = next((share for share in shares if share.is_over), None)
        if full is None or self._make_room(full, connection):
            self.idle(connection)

    def _share_of(self, address: str) -> _Share:
        if address in self._proxies:
            return _Share(math.inf, math.inf)
        place = network(address)
        return self._by_address.setdefault(place, _Share(self._per_address, self._held_per_address, place))

    def _make_room(self, full: _Share, connection: Connection) -> bool:
        """End another connection, if possible, in favour of the new `connection`. Return whether the new one may stay.

        If none can be ended, the new one may stay as one of a few connections beyond the limit, whose requests get
        503. An ended connection is part of `count` until `leave` is called for it.
        """
        self._log(full)
        ended = self._end_another(full)
        if ended is None and not full.has_spare:
            connection.abort()
            return False
        if ended is None or ended in self._extra:
            self._extra.add(connection)
        return True

    def _end_another(self, full: _Share) -> Connection | None:
        for longest in list(islice(full.idle, MAX_TRIED)):
            self.busy(longest)
            if longest.close_if_idle():
                return longest
            self.idle(longest)  # it could not be closed: it goes to the end of the list, as if it had become idle now
        for longest in list(islice(full.awaited, MAX_TRIED)):
            if longest.refuse_if_awaited():
                return longest
            self.awaits(longest)
        for longest in full.holding():
            if longest.let_go():
                self._drop(longest)
                return longest
        return None

    def has_room(self, connection: Connection) -> bool:
        """Return whether the requests of this connection are answered normally, not with 503."""
        if connection in self._extra and not any(share.is_over for share in self._shares[connection]):
            self._extra.discard(connection)
        return connection not in self._extra

    def busy(self, connection: Connection) -> None:
        for share in self._shares.get(connection, ()):
            share.idle.pop(connection, None)
            share.awaited.pop(connection, None)

    def awaits(self, connection: Connection) -> None:
        """Note that the server waits for the rest of a request's body. Called again after each part that arrives."""
        self.busy(connection)
        for share in self._shares.get(connection, ()):
            share.awaited[connection] = None

    def idle(self, connection: Connection) -> None:
        self.busy(connection)
        for share in self._shares.get(connection, ()):
            share.idle[connection] = None

    def hold(self, connection: Connection) -> None:
        """Note how much memory the connection holds now. Called when this may have changed."""
        size = connection.held()
        for share in self._shares.get(connection, ()):
            share.hold(connection, size)

    def _drop(self, connection: Connection) -> None:
        for share in self._shares.get(connection, ()):
            share.drop(connection)

    def leave(self, connection: Connection) -> None:
        self.busy(connection)
        self._drop(connection)
        self._extra.discard(connection)
        for share in self._shares.pop(connection, ()):
            share.count -= 1
            if not share.count:
                self._by_address.pop(share.address, None)

    def _log(self, full: _Share) -> None:
        if clock.monotonic() - self._logged_at >= LOG_EVERY:
            self._logged_at = clock.monotonic()
            log.warning("connections_full", most=full.limit, of="all" if full is self._total else "one address")


def within_file_limit(wanted: int = MAX_CONNECTIONS) -> int:
    """Raise the limit of open files of this process. Return how many of the `wanted` connections fit into half of it.

    The other half is for the database, the log and a second listener.
    """
    return max(1, min(wanted, raised_file_limit(wanted * 4) // 2))
