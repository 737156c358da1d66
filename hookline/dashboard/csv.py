"""CSV for spreadsheets, of texts that strangers wrote. Pure.

A spreadsheet computes whatever begins like a formula, and some split cells at other marks than commas, whatever is quoted: a
`;` in Germany, a tab when it is pasted. So a formula is disarmed by an apostrophe wherever a cell could begin, and every cell is
quoted. Whoever needs the texts as they are takes JSON.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence

BOM = "\ufeff"  # without it, Excel reads UTF-8 as the code page of its country

# Also the wide forms, which some programs take for the plain ones. What may stand between is no mark itself: or a long run of
# marks would be walked anew from each of them.
_FORMULA = re.compile(r"""(^|[,;|\t\r\n"'])([^\S\t\r\n]*)([=+\-@\u2212＝＋－＠])""")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufeff]")

Cell = str | int | None


def lines(rows: Iterable[Sequence[Cell]]) -> bytes:
    made = io.StringIO()
    csv.writer(made, quoting=csv.QUOTE_ALL, lineterminator="\r\n").writerows(
        [cell(each) for each in row] for row in rows
    )
    return made.getvalue().encode()


def cell(value: Cell) -> str:
    if not isinstance(value, str):
        return "" if value is None else str(value)
    plain = _CONTROL.sub("\ufffd", value)
    text = _FORMULA.sub(r"\1\2'\3", plain)
    return f"'{text}" if text[:1] in ("\t", "\r", "\n") else text
