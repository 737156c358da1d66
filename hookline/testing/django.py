"""For Django's test cases: `class PaymentTest(OutboxTestMixin, TestCase)`, with `hookline.outbox.django` in INSTALLED_APPS."""

from __future__ import annotations

from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections

from hookline.outbox.errors import UnknownConnection
from hookline.outbox.handle import handle
from hookline.outbox.setup import is_there
from hookline.testing.delivery import Attempt, Endpoint
from hookline.testing.events import Published, latest
from hookline.testing.outbox import Outbox


class OutboxTestMixin:
    """What this test has published and still stands, though `TestCase` never commits; and the delivery of it.

    Events of `setUpTestData`, and what an earlier `TransactionTestCase` has left, are not this test's. `using` is the database.
    """

    databases: Any  # the test case's

    def setUp(self) -> None:
        super().setUp()  # type: ignore[misc]
        aliases = connections if self.databases == "__all__" else self.databases
        self._outboxes = {alias: Outbox(connections[alias], after=_before(alias)) for alias in aliases}

    def published(
        self,
        event_type: str | None = None,
        *,
        app: str | None = None,
        payload: Any = None,
        using: str = DEFAULT_DB_ALIAS,
    ) -> list[Published]:
        return self._outboxes[using].published(event_type, app=app, payload=payload)

    def assertPublished(  # noqa: N802
        self,
        event_type: str,
        *,
        app: str | None = None,
        payload: Any = None,
        count: int | None = None,
        using: str = DEFAULT_DB_ALIAS,
    ) -> Published:
        """The first event like this; fails if there is none, or not `count` of them. `payload` has parts that must be in it."""
        return self._outboxes[using].assert_published(event_type, app=app, payload=payload, count=count)

    def assertNotPublished(  # noqa: N802
        self,
        event_type: str | None = None,
        *,
        app: str | None = None,
        payload: Any = None,
        using: str = DEFAULT_DB_ALIAS,
    ) -> None:
        self._outboxes[using].assert_not_published(event_type, app=app, payload=payload)

    def deliver(self, endpoint: Endpoint, *, using: str = DEFAULT_DB_ALIAS) -> list[Attempt]:
        """Send what `endpoint` has not got yet; what it failed to take goes again with the next call."""
        return self._outboxes[using].deliver(endpoint)


def _before(alias: str) -> int:
    """The last row that was there before the test; 0 in a database without an outbox, which a router may keep it out of."""
    connection = connections[alias]
    try:
        return latest(connection) if is_there(handle(connection)) else 0
    except UnknownConnection:
        return 0
