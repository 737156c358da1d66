"""Periodic work that only one process of a fleet does at a time."""

from __future__ import annotations

from enum import IntEnum

from hookline.store.plans.plan import Plan, value


class Chore(IntEnum):
    """A kind of periodic work. The number is the key of its lock."""

    LEASES = 1
    EXPIRED = 2
    DELETED = 3
    FAILING = 4
    RETIRE = 5
    PULSES = 6
    ALERTS = 7


def is_free(chore: Chore) -> Plan[bool]:
    """Take the lock for this work until the transaction ends. False: another process has it."""
    return bool((yield from value("sweep_guard", chore=chore)))
