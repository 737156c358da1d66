"""SECURITY.md names a test for each promise, and each of these tests exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = re.findall(r"`(tests/[a-z_/]+\.py)(?:::(\w+))?`", (ROOT / "SECURITY.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_test_that_is_named_exists(file: str, name: str) -> None:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    tests = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert name in tests if name else any(test.startswith("test_") for test in tests)


def test_every_promise_names_a_test() -> None:
    page = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    promises = page.partition("## Promises and their tests")[2].partition("## Limits")[0]
    rows = [row for row in promises.splitlines() if row.startswith("| ") and row != "| promise | test |"]
    assert len(rows) > 30
    assert [row for row in rows if "`tests/" not in row] == []
