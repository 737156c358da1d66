"""Every error that Hookline raises on purpose. Catch `HooklineError` for all of them."""

from __future__ import annotations


class HooklineError(Exception):
    """Base of all errors; its text is fit to be shown to a user."""


class ConfigError(HooklineError):
    """A setting has a wrong value. The text names the variable and what it takes."""


class IllegalMove(HooklineError):
    """A delivery was asked to go where `states.MOVES` does not let it: a bug."""


class InvalidInput(HooklineError):
    """The caller gave something that cannot be accepted; nothing was changed."""


class NotFound(HooklineError):
    """There is no such thing, or it belongs to somebody else."""


class Conflict(HooklineError):
    """It exists already (a uid or event id that is taken), or is not in a state in which this can be done."""


class Overtaken(Conflict):
    """Somebody else changed it between the look and the write."""


class BlockedAddress(HooklineError):
    """The guard refuses this URL or address."""


class VaultError(HooklineError):
    """A stored secret cannot be opened: no configured key fits, or the row was tampered with."""


class SignatureError(HooklineError):
    """A signature, timestamp, secret or header is not valid."""


class StoreUnavailable(HooklineError):
    """The database cannot be reached now. Nothing is known to be lost; try again."""


class MigrationNeeded(HooklineError):
    """The database is older or newer than this release. The text says which, and what to run."""
