"""The protocols that each engine implements, in the order of the flow. `sqlite/` and `postgres/` implement them. One
conformance suite tests both.

Every method is one transaction unless its docstring says otherwise. All instants come from the database's clock. A lost
connection raises `StoreUnavailable`. Invalid input raises `InvalidInput`, `NotFound` or `Conflict` and changes nothing.

Methods that a user triggers take a `note`: a function that turns the method's result into an entry of the audit log, or
into None if nothing changed. The entry is written in the same transaction as the change, so the database has both or
neither.
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
from hookline.store.protocols.store import PARTS, Store
