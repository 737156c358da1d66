"""Wake idle workers of this process after an `accept`. Workers of other processes find the event when they poll."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable

_lock = threading.Lock()
_idle: weakref.WeakSet[IdleWorker] = weakref.WeakSet()
# Without these hooks, a child that is forked while another thread holds `_lock` would wait forever for the lock.
os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


class IdleWorker:
    """A thread or task that can be woken. `wake` may be called from any thread."""

    def __init__(self, wake: Callable[[], object]) -> None:
        self.wake = wake
        with _lock:
            _idle.add(self)


def wake_workers() -> None:
    """Wake all workers. The event is not committed yet, so a woken worker polls several times within a short time."""
    with _lock:
        workers = list(_idle)
    for worker in workers:
        worker.wake()
