"""Importing `hookline.outbox` loads neither the server nor a database library that the application does not use."""

from __future__ import annotations

import subprocess
import sys

import pytest

_LOADED = "import sys; before = set(sys.modules); {}; print(*{{name.partition('.')[0] for name in set(sys.modules) - before}})"
# msgspec imports `typing_extensions` if it is installed.
_ALLOWED = {"hookline", "msgspec", "typing_extensions"} | sys.stdlib_module_names


def _loaded(statement: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", _LOADED.format(statement)], capture_output=True, text=True, check=True, timeout=60
    )
    return set(done.stdout.split())


def test_importing_the_outbox_loads_few_modules() -> None:
    assert _loaded("import hookline.outbox") - _ALLOWED == set()
    assert {"asyncio", "sqlite3", "ssl", "logging"}.isdisjoint(_loaded("import hookline.outbox"))


@pytest.mark.parametrize("library", ["sqlite3", "psycopg2", "psycopg", "asyncpg", "sqlalchemy"])
def test_an_adapter_imports_only_its_own_library(library: str) -> None:
    module = {"sqlite3": "sqlite", "psycopg": "psycopg3"}.get(library, library)
    alone = {"sqlalchemy": "sqlalchemy.orm, sqlalchemy.ext.asyncio", "asyncpg": "asyncpg.pool"}.get(library, library)
    with_adapter = _loaded(f"import {alone}, hookline.outbox.adapters.{module}")
    assert with_adapter - _loaded(f"import {alone}") - _ALLOWED == set()
