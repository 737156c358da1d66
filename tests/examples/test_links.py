"""Links between the pages lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *ROOT.glob("docs/*.md"),
    *ROOT.glob("examples/*/README.md"),
]
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text()):
        leads_to = (page.parent / target).resolve() if target else page
        assert leads_to.exists(), target
        assert not anchor or anchor in anchors(leads_to), (target, anchor)


PICTURE = re.compile(r'<(?:img|source)\b[^>]*?\b(?:src|srcset)="(?!https?:)([^"]+)"')


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pictures_are_there(page: Path) -> None:
    for target in PICTURE.findall(page.read_text()):
        assert (page.parent / target).exists(), target
