"""For Django's test cases: `class PaymentTest(OutboxTestMixin, TestCase)`, with `hookline.outbox.django` in
INSTALLED_APPS."""

from __future__ import annotations

from typing import Any, Unpack

from django.db import DEFAULT_DB_ALIAS, connections

from hookline.outbox.errors import UnknownConnection
from hookline.outbox.setup import is_there
from hookline.testing.delivery import Attempt, Endpoint
from hookline.testing.events import EventFilter, Published, latest
from hookline.testing.outbox import Outbox


class OutboxTestMixin:
    """Returns the events that a test published, although `TestCase` never commits, and sends them to test endpoints.

    Events of `setUpTestData` and of an earlier `TransactionTestCase` do not count. `using` is the alias of the
    database.
    """

    databases: Any  # Django's test case defines this attribute

    def setUp(self) -> None:
        super().setUp()  # type: ignore[misc]
        aliases = connections if self.databases == "__all__" else self.databases
        self._outboxes = {alias: Outbox(connections[alias], after=_latest(alias)) for alias in aliases}

    def published(
        self, event_type: str | None = None, *, using: str = DEFAULT_DB_ALIAS, **wanted: Unpack[EventFilter]
    ) -> list[Published]:
        return self._outboxes[using].published(event_type, **wanted)

    def assertPublished(  # noqa: N802
        self,
        event_type: str,
        *,
        count: int | None = None,
        using: str = DEFAULT_DB_ALIAS,
        **wanted: Unpack[EventFilter],
    ) -> Published:
        """Return the first event that matches. Fail if there is none, or if there are not `count` of them."""
        return self._outboxes[using].assert_published(event_type, count=count, **wanted)

    def assertNotPublished(  # noqa: N802
        self, event_type: str | None = None, *, using: str = DEFAULT_DB_ALIAS, **wanted: Unpack[EventFilter]
    ) -> None:
        self._outboxes[using].assert_not_published(event_type, **wanted)

    def deliver(self, endpoint: Endpoint, *, using: str = DEFAULT_DB_ALIAS) -> list[Attempt]:
        """Send the events that `endpoint` has not received. The next call sends a failed one again."""
        return self._outboxes[using].deliver(endpoint)


def _latest(alias: str) -> int:
    """Return the id of the last row in the outbox, or 0 if the database has no outbox.

    A database router of Django may keep the outbox out of a database.
    """
    connection = connections[alias]
    try:
        return latest(connection) if is_there(connection) else 0
    except UnknownConnection:
        return 0
