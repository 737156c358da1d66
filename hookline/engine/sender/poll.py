"""How the sender's thread sleeps: until a socket stirs, a timer is due, or somebody wakes it.

pycurl's own `CurlMulti.select` cannot be woken, and is select(2): it never hears of a descriptor past 1023.
"""

from __future__ import annotations

import os
import select
import threading
from typing import Any, Protocol

# libcurl mostly drains a socket, or asks for another turn. A large upload that fills the socket's buffer has been seen to
# wait for an edge that never came: this is what it costs then.
LONGEST_WAIT = 0.05
NAP = 0.005


class Waiter(Protocol):
    def watch(self, descriptor: int) -> None:
        """Wake when something happens to this socket. Ends by itself when the socket is closed."""

    def wait(self, seconds: float | None) -> None: ...

    def wake(self) -> None:
        """From any thread: end the wait that is under way, or the next one."""

    def close(self) -> None: ...


class EpollWaiter:
    """Each connection is registered once, edge-triggered, for its whole life: a request costs no system call here.

    Level-triggered, an idle connection that its peer has closed would wake us for ever.
    """

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._lock = threading.Lock()
        self._bell: int | None = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        # Each write to an edge-triggered eventfd is an edge of its own: it need not be read.
        self._epoll.register(self._bell, select.EPOLLIN | select.EPOLLET)

    def watch(self, descriptor: int) -> None:
        self._epoll.register(descriptor, select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET)

    def wait(self, seconds: float | None) -> None:
        self._epoll.poll(seconds)

    def wake(self) -> None:
        with self._lock:  # a late look-up may ring after `close`, when the number belongs to somebody else's file
            if self._bell is not None:
                os.eventfd_write(self._bell, 1)

    def close(self) -> None:
        with self._lock:
            if self._bell is not None:
                os.close(self._bell)
            self._bell = None
        self._epoll.close()


class SelectWaiter:
    """For systems without epoll: short naps, in which a socket is noticed at once and a new request soon."""

    def __init__(self, multi: Any) -> None:
        self._multi = multi
        self._bell = threading.Event()

    def watch(self, descriptor: int) -> None:
        """libcurl tells select(2) itself."""

    def wait(self, seconds: float | None) -> None:
        if seconds is None:
            self._bell.wait()
        elif not self._bell.is_set() and self._multi.select(min(seconds, NAP)) < 0:
            self._bell.wait(min(seconds, NAP))  # no socket to wait for: only look-ups are under way
        self._bell.clear()

    def wake(self) -> None:
        self._bell.set()

    def close(self) -> None:
        """Nothing is held."""


def waiter_for(multi: Any) -> Waiter:
    return EpollWaiter() if hasattr(select, "epoll") else SelectWaiter(multi)
