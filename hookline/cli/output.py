"""Print the result of a command: a table on a terminal, tab-separated lines in a pipe, or JSON with `--json`."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from hookline.errors import InvalidInput
from hookline.rules.checks.text import clean
from hookline.rules.checks.text import lasting as span

# The dashboard uses the same marks. The mark shows the state to readers who cannot see the colour.
STYLES = {
    "delivered": ("●", "green"),
    "pending": ("◐", "blue"),
    "delivering": ("◐", "blue"),
    "scheduled": ("◷", "yellow"),
    "held": ("❚❚", "magenta"),
    "dead": ("✕", "red"),
    "resolved": ("✓", "bright_black"),
}

# JSON allows these characters unescaped, but a terminal acts on them: DEL, C1 controls, line ends, text direction.
_UNSAFE = re.compile(r"[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")

T = TypeVar("T")
Cell = str | int | float | datetime | None


class Output:
    """The output of one command. `human` is true on a terminal without `--json`."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.human = sys.stdout.isatty() and not as_json
        self._console = Console(highlight=False, soft_wrap=True)

    @property
    def screen(self) -> bool:
        """Whether the terminal can redraw the screen."""
        return self.human and not self._console.is_dumb_terminal

    @property
    def width(self) -> int:
        return self._console.width

    def result(self, value: object, *, as_text: Callable[[], None]) -> None:
        """Print `value` as JSON, or call `as_text`, which prints text."""
        if self.as_json:
            self.json_line(value)
        else:
            as_text()

    def answer(self, value: object, *lines: str) -> None:
        """Print `value` as JSON, or `lines` as text."""
        if self.as_json:
            self.json_line(value)
        else:
            for line in lines:
                self.line(line)

    def listing(
        self,
        rows: Sequence[T],
        *,
        document: Callable[[T], object] = lambda row: row,
        columns: Sequence[str],
        cells: Callable[[T], Sequence[Cell]],
        empty: str,
    ) -> None:
        """Print a list as the JSON document `{"data": [...]}`, or as a table."""
        self.result(
            {"data": [document(each) for each in rows]},
            as_text=lambda: self.table(columns, [cells(each) for each in rows], empty=empty),
        )

    def json_line(self, value: object) -> None:
        sys.stdout.write(_UNSAFE.sub(_escaped, msgspec.json.encode(value).decode()) + "\n")
        sys.stdout.flush()

    def line(self, text: str = "", style: str | None = None) -> None:
        """Print text without markup and with control characters escaped, because tenants write parts of it."""
        self._console.print(Text(clean(text), style=style or ""))

    def note(self, text: str) -> None:
        """Print a hint, but only on a terminal."""
        if self.human:
            self.line(text, "bright_black")

    def aside(self, text: str) -> None:
        """Print to standard error, so that standard output has only the result."""
        print(clean(text), file=sys.stderr)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Cell]], *, empty: str) -> None:
        if not self.human:
            for row in (columns, *rows):
                sys.stdout.write("\t".join(self._text(cell).plain for cell in row) + "\n")
            return
        if not rows:
            self.line(empty, "bright_black")
            return
        _print_table(columns, [[self._text(cell) for cell in row] for row in rows])

    def fields(self, pairs: Sequence[tuple[str, Cell]]) -> None:
        """Print one `name  value` line for each pair."""
        width = max(len(name) for name, _ in pairs)
        for name, value in pairs:
            self._console.print(Text.assemble((f"{name:<{width}}  ", "bright_black"), self._text(value)))

    def _text(self, cell: Cell) -> Text:
        """Return a cell as text, with control characters escaped. On a terminal, times are local and states are coloured."""
        if isinstance(cell, datetime):
            return Text(f"{cell.astimezone():%Y-%m-%d %H:%M:%S}" if self.human else cell.isoformat())
        if cell is None:
            return Text("-" if self.human else "")
        text = clean(str(cell))
        mark, style = STYLES.get(text, ("", "")) if self.human else ("", "")
        return Text(f"{mark} {text}" if mark else text, style=style)

    @contextmanager
    def progress(self, label: str, total: int | None) -> Iterator[Callable[[int], None]]:
        """Show a progress bar on standard error if it is a terminal. Yields the function that advances it."""
        with self._bar(label, total) as update:
            yield lambda done: update(advance=done)

    @contextmanager
    def steps(self, total: int) -> Iterator[Callable[[str], None]]:
        """Show a progress bar whose label names the current step. Yields the function that begins a step."""
        done = itertools.count()
        with self._bar("", total) as update:
            yield lambda label: update(description=label, completed=next(done))

    @contextmanager
    def _bar(self, label: str, total: int | None) -> Iterator[Callable[..., None]]:
        console = Console(stderr=True)
        if self.as_json or not console.is_terminal:
            yield lambda **_changes: None
            return
        # imported here, because few commands show a bar
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True) as bar:
            yield partial(bar.update, bar.add_task(label, total=total))


def confirm(question: str) -> None:
    """Ask the user a yes-or-no question. The answer no ends the command with exit code 1."""
    if not sys.stdin.isatty():
        raise InvalidInput(f"{question} Give --yes: there is no terminal to ask on")
    if not typer.confirm(question, err=True):
        raise typer.Exit(1)


def _print_table(columns: Sequence[str], rows: Sequence[Sequence[Text]]) -> None:
    """Print a table without cutting or wrapping cells, so that ids can be copied. Cells that do not fit go below the row."""
    console = Console(highlight=False, soft_wrap=True)
    widths = [max(len(name), *(row[at].cell_len for row in rows)) for at, name in enumerate(columns)]
    beside = _fitting(widths, console.width)
    below = [at for at in range(len(columns)) if at not in beside]
    longest = max((len(columns[at]) for at in below), default=0)
    console.print(_joined([Text(columns[at], "bold") for at in beside], widths, beside))
    for row in rows:
        console.print(_joined([row[at] for at in beside], widths, beside))
        for at in below:
            if row[at].plain not in ("", "-"):
                console.print(Text.assemble("    ", (f"{columns[at]:<{longest}}  ", "bright_black"), row[at]))


def _fitting(widths: Sequence[int], room: int) -> list[int]:
    """Return the indexes of the columns that fit side by side in `room` characters. The widest columns are dropped
    first, but never column 0."""
    kept = list(range(len(widths)))
    while len(kept) > 1 and sum(widths[at] + 2 for at in kept) - 2 > room:
        kept.remove(max(kept[1:], key=lambda at: widths[at]))
    return kept


def _joined(cells: Sequence[Text], widths: Sequence[int], beside: Sequence[int]) -> Text:
    line = Text()
    for cell, at in zip(cells, beside, strict=True):
        line.append_text(cell)
        line.append(" " * (widths[at] + 2 - cell.cell_len))
    line.rstrip()
    return line


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def ago(then: datetime, now: datetime) -> str:
    gap = now - then
    return f"in {span(-gap.total_seconds())}" if gap < timedelta(0) else f"{span(gap.total_seconds())} ago"
