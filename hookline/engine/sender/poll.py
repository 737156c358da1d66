"""Waits in the sender's thread until a socket is ready, a timer is due, or another thread calls `wake`.

pycurl's own `CurlMulti.select` cannot be woken by another thread. It also uses select(2), which fails for descriptors
above 1023.
"""

from __future__ import annotations

import os
import select
import threading
from typing import Any

# libcurl usually drains a socket, or asks to be called again. But a large upload that fills the socket's buffer can
# wait for an epoll edge that never comes. This limit bounds that delay.
MAX_WAIT = 0.05  # seconds
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

    def watch(self, descriptor: int) -> None:
        """End the wait when this socket is ready. The registration ends when the socket is closed."""
        self._epoll.register(descriptor, select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET)

    def wait(self, seconds: float | None) -> None:
        self._epoll.poll(seconds)

    def wake(self) -> None:
        """End the current wait, or the next one if none is running. Any thread may call this."""
        with self._lock:  # a late look-up may call this after `close`, when another file may have the same descriptor
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

    def wait(self, seconds: float | None) -> None:
        if seconds is None:
            self._woken.wait()
        elif not self._woken.is_set() and self._multi.select(min(seconds, NAP)) < 0:
            self._woken.wait(min(seconds, NAP))  # libcurl has no socket, because only look-ups are running
        self._woken.clear()

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        """Do nothing: a `SelectWaiter` holds no resources."""


Waiter = EpollWaiter | SelectWaiter


def waiter_for(multi: Any) -> Waiter:
    return EpollWaiter() if hasattr(select, "epoll") else SelectWaiter(multi)
