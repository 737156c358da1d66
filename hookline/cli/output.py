"""What a command prints: tables for people, tab-separated lines for pipes, one JSON document for `--json`."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TypeVar

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from hookline.errors import InvalidInput
from hookline.rules.checks import text as text_checks
from hookline.rules.checks.text import clean

# As on the status page: a mark and a word, never colour alone.
STYLES = {
    "delivered": ("●", "green"),
    "pending": ("◐", "blue"),
    "delivering": ("◐", "blue"),
    "scheduled": ("◷", "yellow"),
    "held": ("❚❚", "magenta"),
    "dead": ("✕", "red"),
    "resolved": ("✓", "bright_black"),
}

# JSON may have these as they are, and a terminal obeys them: DEL, the C1 controls, line ends and changes of direction.
_UNSAFE = re.compile(r"[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")

T = TypeVar("T")
Cell = str | int | float | datetime | None


class Output:
    """One per command run; `as_json` is its `--json`."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.human = sys.stdout.isatty() and not as_json
        self._console = Console(highlight=False, soft_wrap=True)

    @property
    def screen(self) -> bool:
        """Whether what was printed can be drawn over."""
        return self.human and not self._console.is_dumb_terminal

    @property
    def width(self) -> int:
        return self._console.width

    def result(self, value: object, *, people: Callable[[], None]) -> None:
        """The command's answer: `value` as JSON, or whatever `people` prints."""
        if self.as_json:
            self.json_line(value)
        else:
            people()

    def listing(
        self,
        found: Sequence[T],
        *,
        document: Callable[[T], object],
        columns: Sequence[str],
        cells: Callable[[T], Sequence[Cell]],
        empty: str,
    ) -> None:
        """The answer of a command that lists: `{"data": [...]}`, or a table."""
        self.result(
            {"data": [document(each) for each in found]},
            people=lambda: self.table(columns, [cells(each) for each in found], empty=empty),
        )

    def json_line(self, value: object) -> None:
        sys.stdout.write(_UNSAFE.sub(_escaped, msgspec.json.encode(value).decode()) + "\n")
        sys.stdout.flush()

    def line(self, text: str = "", style: str | None = None) -> None:
        """Never markup: what tenants write must not be read as ours. Control characters of theirs are made visible."""
        self._console.print(Text(clean(text), style=style or ""))

    def note(self, text: str) -> None:
        """For people only, and never in the way of what is piped."""
        if self.human:
            self.line(text, "bright_black")

    def aside(self, text: str) -> None:
        """On standard error, so that standard output has the answer alone."""
        print(clean(text), file=sys.stderr)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Cell]], *, empty: str) -> None:
        if not self.human:
            for row in (columns, *rows):
                sys.stdout.write("\t".join(clean(plain(cell)) for cell in row) + "\n")
            return
        if not rows:
            self.line(empty, "bright_black")
            return
        _print_table(columns, [[_styled(clean(shown(cell))) for cell in row] for row in rows])

    def fields(self, pairs: Sequence[tuple[str, Cell]]) -> None:
        """`name  value` lines."""
        width = max(len(name) for name, _ in pairs)
        for name, value in pairs:
            text = _styled(clean(shown(value))) if self.human else Text(clean(plain(value)))
            self._console.print(Text.assemble((f"{name:<{width}}  ", "bright_black"), text))

    @contextmanager
    def progress(self, label: str, total: int | None) -> Iterator[Callable[[int], None]]:
        """A bar on standard error for work that takes a while; nothing where nobody looks."""
        console = Console(stderr=True)
        if self.as_json or not console.is_terminal:
            yield lambda _done: None
            return
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task(label, total=total)
            yield lambda done: bar.advance(task, done)


def confirm(question: str) -> None:
    """No: the command ends, and nothing was changed."""
    if not sys.stdin.isatty():
        raise InvalidInput(f"{question} Say --yes: there is nobody here to ask")
    if not typer.confirm(question, err=True):
        raise typer.Exit(1)


def _print_table(columns: Sequence[str], rows: Sequence[Sequence[Text]]) -> None:
    """Nothing is cut or folded, so that ids can be copied: columns that do not fit stand below their row, with their names."""
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
    """The first column, and of the others as many as fit beside it; the widest go first."""
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


def plain(cell: Cell) -> str:
    if cell is None:
        return ""
    return cell.isoformat() if isinstance(cell, datetime) else str(cell)


def shown(cell: Cell) -> str:
    if cell is None:
        return "-"
    return cell.astimezone().strftime("%Y-%m-%d %H:%M:%S") if isinstance(cell, datetime) else str(cell)


def span(seconds: float) -> str:
    return text_checks.lasting(seconds)


def ago(then: datetime, now: datetime) -> str:
    gap = now - then
    return f"in {span(-gap.total_seconds())}" if gap < timedelta(0) else f"{span(gap.total_seconds())} ago"


def _styled(text: str) -> Text:
    mark, style = STYLES.get(text, ("", ""))
    return Text(f"{mark} {text}" if mark else text, style=style)
