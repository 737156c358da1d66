"""CSV export that is safe to open in a spreadsheet, even if an attacker wrote the texts.

A spreadsheet evaluates a cell that begins like a formula. Some programs also split quoted cells at other separators:
at `;` in Germany, at a tab when text is pasted. So an apostrophe is inserted before a formula at every place where a
cell could begin, and every cell is quoted. The JSON export has the texts unchanged.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence

BOM = "\ufeff"  # without it, Excel reads the file in the local code page instead of UTF-8

# A sign with which a formula can begin, at the start of a cell. Full-width signs are included, because some programs
# treat them like the ASCII signs. The middle group must not match a separator: a long run of separators would then
# take quadratic time.
_FORMULA = re.compile(r"""(^|[,;|\t\r\n"'])([^\S\t\r\n]*)([=+\-@\u2212＝＋－＠])""")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufeff]")

Cell = str | int | None


def lines(rows: Iterable[Sequence[Cell]]) -> bytes:
    made = io.StringIO()
    cells = ([cell(each) for each in row] for row in rows)
    csv.writer(made, quoting=csv.QUOTE_ALL, lineterminator="\r\n").writerows(cells)
    return made.getvalue().encode()


def cell(value: Cell) -> str:
    if not isinstance(value, str):
        return "" if value is None else str(value)
    plain = _CONTROL.sub("\ufffd", value)
    text = _FORMULA.sub(r"\1\2'\3", plain)
    return f"'{text}" if text[:1] in ("\t", "\r", "\n") else text
