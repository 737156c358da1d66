"""Callers: who acts, and which objects they may access, in the API, the dashboard and the command line."""

from __future__ import annotations

from collections.abc import Hashable
from datetime import datetime

from msgspec import Struct

from hookline.model.actors import Actor, ActorKind, Scope
from hookline.model.catalogue import Application


class Caller(Struct, frozen=True, kw_only=True):
    """The holder of a token or an API key, a person who has signed in, or the user of a command."""

    org_id: str
    actor: Actor  # how the timeline and the audit log name the caller
    scope: Scope = Scope.FULL
    app: Application | None = None  # the only application that the caller may access; None: all of the organization
    address: str = ""  # IP address that sent the request; empty for the command line
    portal: bool = False  # the caller is a customer who uses the portal in a browser
    publishes: bool = True  # the caller may create messages, if the scope allows it
    key_id: str | None = None  # id of the caller's API key
    token: bytes | None = None  # hash of the caller's token
    issued_at: datetime | None = None  # when the caller's token was issued
    session: bytes | None = None  # hash of the caller's dashboard session
    expires_at: datetime | None = None

    @property
    def holder(self) -> Hashable:
        """Return what identifies the caller: the API key, the token, or the session of a person who signed in with a
        password."""
        return self.key_id or self.token or self.session

    @property
    def origin(self) -> str:
        """Return where the caller acts, as a text such as `in the dashboard`."""
        if self.actor.kind == ActorKind.COMMAND_LINE:
            return "from the command line"
        if self.session is None:
            return "through the API"
        return "in the portal" if self.portal else "in the dashboard"
