"""Errors of the outbox and the inbox that the database itself does not raise.

When one is raised, nothing was written.
"""

from hookline.errors import HooklineError


class NotInTransaction(HooklineError):
    """The connection commits each statement by itself, so the event would not depend on your transaction."""


class UnknownConnection(HooklineError):
    """The object is not a connection or session that Hookline can use."""
