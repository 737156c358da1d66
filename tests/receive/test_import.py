"""Importing the verifier loads only the standard library and msgspec."""

from __future__ import annotations

import subprocess
import sys

import pytest

_LOADED = "import sys; before = set(sys.modules); import {}; print(*set(sys.modules) - before)"
# msgspec imports `typing_extensions` if it is installed.
_ALLOWED = {"hookline", "msgspec", "typing_extensions"} | sys.stdlib_module_names


_FRAMEWORKS = {"django", "fastapi", "flask", "litestar", "starlette"}


def loaded_by(module: str) -> set[str]:
    command = [sys.executable, "-c", _LOADED.format(module)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_importing_the_verifier_loads_few_modules() -> None:
    loaded = loaded_by("hookline.receive.verify")
    assert loaded - _ALLOWED == set()
    assert {"asyncio", "sqlite3", "ssl", "logging"}.isdisjoint(loaded)


@pytest.mark.parametrize(
    ("module", "needed"),
    [("handlers", set()), ("fastapi", {"starlette"}), ("litestar", set()), ("flask", {"flask"})],
)
def test_no_framework_is_imported_that_is_not_used(module: str, needed: set[str]) -> None:
    assert loaded_by(f"hookline.receive.{module}") & _FRAMEWORKS == needed
