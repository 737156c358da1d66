"""pytest fixtures for applications that publish.

Every pytest run loads this module, so each fixture imports other modules of Hookline only when a test uses the fixture.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from hookline.testing import FakeEndpoint, Outbox


@pytest.fixture
def hookline_connection() -> Any:
    """The connection or session on which the tests publish. Define a fixture of this name in your `conftest.py`."""
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
    """The events that the test has published on `hookline_connection`, and methods to deliver them."""
    from hookline.testing import Outbox

    return Outbox(hookline_connection)


@pytest.fixture
def hookline_endpoint() -> Iterator[FakeEndpoint]:
    """A real HTTP server on this machine that verifies and records the webhooks that it receives."""
    from hookline.testing import FakeEndpoint

    with FakeEndpoint() as endpoint:
        yield endpoint
