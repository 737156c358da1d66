"""Only what SQLite has of its own; the conformance suite in `tests/store` runs on it too."""

from __future__ import annotations

import pytest


@pytest.fixture
def engine() -> str:
    return "sqlite"
