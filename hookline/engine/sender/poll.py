"""Waits in the sender's thread until a socket is ready, a timer is due, or another thread calls `wake`.

pycurl's own `CurlMulti.select` cannot be woken by another thread. It also uses select(2), which fails for descriptors
above 1023.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Sequence
from typing import Any

import pycurl

NAP = 0.005  # seconds that a `SelectWaiter` waits at most before it checks whether `wake` was called


class EpollWaiter:
    """Waits with epoll. Each connection is registered once, edge-triggered, so a request needs no system call here.

    With level-triggering, an idle connection that the peer has closed would end every wait at once.
    """

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._lock = threading.Lock()
        self._wake_fd: int | None = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        # Each write to an edge-triggered eventfd is a new edge, so nobody has to read it.
        self._epoll.register(self._wake_fd, select.EPOLLIN | select.EPOLLET)
        self._watched: set[int] = set()  # every descriptor that was registered, also if it is closed now

    def watch(self, descriptor: int) -> None:
        """End the wait when this socket is ready. The registration ends when the socket is closed."""
        self._epoll.register(descriptor, select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET)
        self._watched.add(descriptor)

    def watch_once(self, descriptor: int) -> None:
        """Watch a descriptor, unless it was registered before. Connections are registered by `watch` when they
        open."""
        if descriptor not in self._watched:
            self.watch(descriptor)

    def wait(self, seconds: float | None) -> Sequence[tuple[int, int]] | None:
        """Return the descriptors that are ready, with libcurl's bits for their events."""
        ready = self._epoll.poll(seconds)
        return [(descriptor, _bits(events)) for descriptor, events in ready if descriptor != self._wake_fd]

    def wake(self) -> None:
        """End the current wait, or the next one if none is running. Any thread may call this."""
        # A DNS look-up that ends late may call `wake` after `close`. The number of the closed descriptor may then
        # belong to another file, so it must not be written to.
        with self._lock:
            if self._wake_fd is not None:
                os.eventfd_write(self._wake_fd, 1)

    def close(self) -> None:
        with self._lock:
            if self._wake_fd is not None:
                os.close(self._wake_fd)
            self._wake_fd = None
        self._epoll.close()


class SelectWaiter:
    """Waits with select(2), for systems without epoll. `wake` cannot interrupt a call of select(2), so a call
    takes at most `NAP` seconds."""

    def __init__(self, multi: Any) -> None:
        self._multi = multi
        self._woken = threading.Event()

    def watch(self, descriptor: int) -> None:
        """Do nothing: libcurl gives its sockets to select(2) itself."""

    watch_once = watch

    def wait(self, seconds: float | None) -> Sequence[tuple[int, int]] | None:
        """Return None, because it is not known which sockets are ready."""
        if seconds is None:
            self._woken.wait()
        elif not self._woken.is_set() and self._multi.select(min(seconds, NAP)) < 0:
            self._woken.wait(min(seconds, NAP))  # libcurl has no socket, because only look-ups are running
        self._woken.clear()
        return None

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        """Do nothing: a `SelectWaiter` holds no resources."""


def _bits(events: int) -> int:
    """Translate the events of epoll for `CurlMulti.socket_action`."""
    readable = pycurl.CSELECT_IN if events & ~select.EPOLLOUT else 0
    return int(readable | (pycurl.CSELECT_OUT if events & select.EPOLLOUT else 0))


Waiter = EpollWaiter | SelectWaiter


def waiter_for(multi: Any) -> Waiter:
    return EpollWaiter() if hasattr(select, "epoll") else SelectWaiter(multi)
