"""Read the documents, for tests that run their examples and compare their tables with the code."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def page(path: str) -> str:
    """Return the text of a document. The path is relative to the root of the repository."""
    return (ROOT / path).read_text(encoding="utf-8")


def section(path: str, title: str) -> str:
    """Return the text below a heading, up to the next heading of the same or a higher rank."""
    text = page(path)
    heading = re.search(rf"^(##+) {re.escape(title)}\n", text, re.MULTILINE)
    assert heading is not None, (path, title)
    rest = text[heading.end() :]
    following = re.search(rf"^#{{2,{len(heading[1])}}} ", rest, re.MULTILINE)
    return rest[: following.start()] if following else rest


def blocks(kind: str, text: str) -> list[str]:
    """Return the code blocks of one language."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
