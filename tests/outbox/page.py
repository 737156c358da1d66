"""The Python of docs/outbox.md, by the heading above it."""

from __future__ import annotations

import re
from pathlib import Path

_PAGE = Path(__file__).parents[2] / "docs" / "outbox.md"


def python_under(heading: str) -> list[str]:
    """Its blocks, up to the next heading of any rank."""
    found = re.search(rf"^##+ {re.escape(heading)}\n(.*?)(?=^##|\Z)", _PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None, heading
    return re.findall(r"^```python\n(.*?)^```$", found[1], re.MULTILINE | re.DOTALL)
