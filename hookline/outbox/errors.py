"""What can go wrong at the call, beside the database's own errors. Nothing was written."""

from __future__ import annotations

from hookline.errors import HooklineError


class NotInTransaction(HooklineError):
    """The connection commits each statement by itself: the event would go out whatever becomes of the rest."""


class UnknownConnection(HooklineError):
    """Not a connection or session that Hookline can publish on."""
