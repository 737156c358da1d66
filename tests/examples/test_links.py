"""The documents: links and pictures exist, every page can be reached from the start page, and lines are shorter than
120 columns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.pages import ROOT

START = ROOT / "docs" / "README.md"
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("examples/*/README.md")]
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")
PICTURE = re.compile(r'<(?:img|source)\b[^>]*?\b(?:src|srcset)="(?!https?:)([^"]+)"')
MAY_BE_LONG = re.compile(r"^\s*[|<!]|\]\(|https?://")  # Lines with tables, HTML, pictures or links may be longer.

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def prose(page: Path) -> Iterator[tuple[int, str]]:
    """Return the lines outside of code blocks, with their line numbers."""
    code = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            code = not code
        elif not code:
            yield number, line


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub creates from the headings."""
    headings = [line.lstrip("#").strip() for _, line in prose(page) if line.startswith("#")]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def links(page: Path) -> Iterator[tuple[Path, str]]:
    for _, line in prose(page):
        for target, anchor in LINK.findall(line):
            yield (page.parent / target).resolve() if target else page, anchor


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in links(page):
        assert target.exists(), target
        assert not anchor or anchor in anchors(target), (target, anchor)


@each_page
def test_pictures_exist(page: Path) -> None:
    for target in PICTURE.findall(page.read_text()):
        assert (page.parent / target).exists(), target


@each_page
def test_lines_end_before_column_120(page: Path) -> None:
    assert [number for number, line in prose(page) if len(line) >= 120 and not MAY_BE_LONG.search(line)] == []


def test_the_start_page_leads_to_every_page() -> None:
    assert {target for target, _ in links(START)} >= set((ROOT / "docs").rglob("*.md")) - {START}
