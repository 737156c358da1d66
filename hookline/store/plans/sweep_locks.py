"""Locks for periodic work that only one process of a fleet does at a time."""

from __future__ import annotations

from enum import IntEnum

from hookline.store.plans.plan import Plan, value


class SweepLock(IntEnum):
    """The lock of one kind of periodic work. The value is the key of the advisory lock."""

    LEASES = 1
    EXPIRED = 2
    DELETED = 3
    FAILING = 4
    RETIRE = 5
    PULSES = 6
    ALERTS = 7
    CLOCK = 8


def try_lock(lock: SweepLock) -> Plan[bool]:
    """Take the lock until the transaction ends. False: another process has it."""
    return bool((yield from value("sweep_guard", lock=lock)))
