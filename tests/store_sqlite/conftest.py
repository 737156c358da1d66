"""Tests of behaviour that only the SQLite engine has. The tests in `tests/store` run on SQLite too."""

from __future__ import annotations

import pytest


@pytest.fixture
def engine() -> str:
    return "sqlite"
