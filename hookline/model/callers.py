"""Who acts, and what they may reach. The API, the dashboard and the command line all make the same `Caller`."""

from __future__ import annotations

from collections.abc import Hashable
from datetime import datetime

from msgspec import Struct

from hookline.model.access import Actor, ActorKind, Scope
from hookline.model.catalogue import Application


class Caller(Struct, frozen=True, kw_only=True):
    """The holder of a token or an API key, a person who has signed in, or the user of a command."""

    org_id: str
    actor: Actor  # the name under which the timeline and the audit log show them
    scope: Scope = Scope.FULL
    app: Application | None = None  # the only application that they reach; None: all of the organization
    address: str = ""  # where the request came from; empty: the command line
    portal: bool = False  # a customer, in a browser
    publishes: bool = True  # may create messages, if the scope allows it
    key_id: str | None = None  # of an API key
    token: bytes | None = None  # of a token: its hash
    issued_at: datetime | None = None  # likewise
    session: bytes | None = None  # of a person who has signed in to the dashboard: its hash
    expires_at: datetime | None = None

    @property
    def holder(self) -> Hashable:
        """Identifies one token, key or, for people who signed in with a password, one session."""
        return self.key_id or self.token or self.session

    @property
    def origin(self) -> str:
        """Where they act, as a text that follows a verb."""
        if self.actor.kind == ActorKind.COMMAND_LINE:
            return "from the command line"
        if self.session is None:
            return "through the API"
        return "in the portal" if self.portal else "in the dashboard"
