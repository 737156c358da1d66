"""The Python examples in the guides about publishing, found by heading."""

from __future__ import annotations

import re

from tests.support.pages import blocks, page

_GUIDES = "".join(map(page, ("docs/guides/set-up-the-outbox.md", "docs/guides/test-code-that-publishes.md")))


def python_under(heading: str) -> list[str]:
    """Return the Python blocks below the heading, up to the next heading of any level."""
    found = re.search(rf"^##+ {re.escape(heading)}\n(.*?)(?=^##|\Z)", _GUIDES, re.MULTILINE | re.DOTALL)
    assert found is not None, heading
    return blocks("python", found[1])
