"""Fixtures for pytest, for applications that publish. Every run of pytest loads this module, so it imports little."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from hookline.testing import FakeEndpoint, Outbox


@pytest.fixture
def hookline_connection() -> Any:
    """Return the connection or session that the tests publish on. Define your own in `conftest.py`, with this name."""
    if "django.conf" in sys.modules:
        from django.conf import settings

        if settings.configured:
            from django.db import connection

            return connection
    raise pytest.UsageError(
        "hookline_outbox does not know your connection: define a fixture hookline_connection in conftest.py that returns the "
        "connection or session that your tests publish on"
    )


@pytest.fixture
def hookline_outbox(hookline_connection: Any) -> Outbox:
    """Return the events that the test published on `hookline_connection`, with methods to deliver them."""
    from hookline.testing import Outbox

    return Outbox(hookline_connection)


@pytest.fixture
def hookline_endpoint() -> Iterator[FakeEndpoint]:
    """Return a real HTTP server on this machine that verifies and records requests."""
    from hookline.testing import FakeEndpoint

    with FakeEndpoint() as endpoint:
        yield endpoint
