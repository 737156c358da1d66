"""Chores that one process of a fleet does at a time."""

from __future__ import annotations

from enum import IntEnum

from hookline.store.plans.plan import Plan, value


class Chore(IntEnum):
    """The number is the key of its guard."""

    LEASES = 1
    EXPIRED = 2
    DELETED = 3
    FAILING = 4
    RETIRE = 5
    PULSES = 6
    ALERTS = 7


def is_free(chore: Chore) -> Plan[bool]:
    """False: another process is at it. Otherwise nobody else does it until this transaction ends."""
    return bool((yield from value("sweep_guard", chore=chore)))
