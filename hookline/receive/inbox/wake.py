"""Workers of this process are told of an `accept`. Those of other processes find it when they poll."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable

_lock = threading.Lock()
_bells: weakref.WeakSet[Bell] = weakref.WeakSet()
# A child that was forked while another thread held the lock would wait for ever.
os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


class Bell:
    """Something that waits; `ring` may be called from any thread."""

    def __init__(self, ring: Callable[[], object]) -> None:
        self.ring = ring
        with _lock:
            _bells.add(self)


def ring() -> None:
    """Before the commit, as accept has no part in that: whoever is woken looks several times within the next moments."""
    with _lock:
        bells = list(_bells)
    for bell in bells:
        bell.ring()
