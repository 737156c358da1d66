"""What an engine must do, in the order of the flow. `sqlite/` and `postgres/` do it; one conformance suite runs on both.

Every method is one transaction unless it says otherwise. All instants are the database's clock. A connection that is lost
raises `StoreUnavailable`; input that cannot be taken raises `InvalidInput`, `NotFound` or `Conflict` and changes nothing.

What people trigger takes a `note`: a function from the method's result to an entry of the audit log, or None where nothing
changed. The entry is written as the last step of the same transaction, so that both are there or neither is.
"""

from hookline.store.protocols.bounds import (
    COUNTED,
    COUNTED_DEAD,
    COUNTING,
    FAR_LEASE,
    IDLE,
    LAST_NUMBER,
    MAX_ATTEMPTS,
    MAX_DIGITS,
    MAX_LISTED,
    MAX_RUNNING,
    MAX_WAITING,
    SCHEMA_VERSION,
    STEP,
    TOP_APPLICATIONS,
)
from hookline.store.protocols.options import StoreOptions
from hookline.store.protocols.pages import Page, Walk, after_death, after_number, death
from hookline.store.protocols.store import Store

__all__ = [
    "COUNTED",
    "COUNTED_DEAD",
    "COUNTING",
    "FAR_LEASE",
    "IDLE",
    "LAST_NUMBER",
    "MAX_ATTEMPTS",
    "MAX_DIGITS",
    "MAX_LISTED",
    "MAX_RUNNING",
    "MAX_WAITING",
    "SCHEMA_VERSION",
    "STEP",
    "TOP_APPLICATIONS",
    "Page",
    "Store",
    "StoreOptions",
    "Walk",
    "after_death",
    "after_number",
    "death",
]
