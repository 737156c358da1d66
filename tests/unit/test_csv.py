"""CSV in which no spreadsheet finds a formula, whatever text the cells hold."""

from __future__ import annotations

import csv
import io
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.dashboard.csv import Cell, cell, lines

FORMULA = "=+-@\t\r\n＝＋－＠"
# The separators at which spreadsheets of different countries, and careless programs, may cut a line.
MARKS = ",;|\t\r\n"

texts = st.text(st.one_of(st.sampled_from("=+-@＝＋－＠,;|\t\r\n\"' aä✓\x00\ufeff"), st.characters()))


def read(raw: bytes, delimiter: str = ",") -> list[list[str]]:
    return list(csv.reader(io.StringIO(raw.decode(), newline=""), delimiter=delimiter))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("order.paid", "order.paid"),
        ("", ""),
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("  =1", "  '=1"),
        ("\t=1", "'\t'=1"),
        ("\r=1", "'\r'=1"),
        ("\tx", "'\tx"),
        ("a\n=1", "a\n'=1"),
        ("a;=1", "a;'=1"),
        ('a","=1', 'a","\'=1'),
        ("＝1", "'＝1"),
        ("https://x.example/?a=1&b=-2", "https://x.example/?a=1&b=-2"),
        ("a-b+c@d=e", "a-b+c@d=e"),
        ("a\x00b\x1bc\ufeffd", "a\ufffdb\ufffdc\ufffdd"),
        ("\x00=1", "\ufffd=1"),
        ("\ud800", "\ufffd"),
    ],
)
def test_only_formulas_are_changed(text: str, shown: str) -> None:
    assert cell(text) == shown


@pytest.mark.parametrize("char", ["'", '"', "\t", " ", ";", "' ", "=;"])
def test_every_text_is_checked_fast(char: str) -> None:
    """A text that takes a second would, a hundred thousand times in a file, block all other requests."""
    began = time.thread_time()  # CPU time, because other programs on the machine must not count
    cell(char * 20_000)
    assert time.thread_time() - began < 1


@given(texts)
def test_no_cell_is_a_formula_however_it_is_cut(text: str) -> None:
    for part in re.split(f"[{MARKS}]", cell(text)):
        assert not re.match(r'[\s"]*[=+\-@＝＋－＠]', part)


@given(st.lists(st.lists(st.one_of(texts, st.integers(0, 10**9), st.none()), min_size=1, max_size=4), max_size=4))
def test_every_row_is_read_back_with_as_many_cells(rows: list[list[Cell]]) -> None:
    raw = lines(rows)
    assert read(raw) == [[cell(value) for value in row] for row in rows]
    for row in read(raw):
        for shown in row:
            assert not shown.startswith(tuple(FORMULA))
            assert not shown.lstrip().startswith(tuple(FORMULA))


@given(texts)
def test_a_spreadsheet_that_cuts_at_semicolons_finds_no_formula_either(text: str) -> None:
    for row in read(lines([["x", text, "y"]]), delimiter=";"):
        for shown in row:
            assert not shown.lstrip().startswith(tuple("=+-@＝＋－＠"))


def test_numbers_become_text_and_none_an_empty_cell() -> None:
    assert lines([[7, None, "x"]]) == b'"7","","x"\r\n'
