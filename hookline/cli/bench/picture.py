"""Draws the figures of a run as bars in an SVG, for light and dark pages. The same run gives the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from hookline.cli.bench.model import Measured, Report
from hookline.cli.bench.report import NAMES, Line, lines, number

WIDTH, NAME, BAR = 900, 400, 360  # pixels: the picture, the names on the left, the longest bar
ROW, GAP, HEAD = 17, 9, 78
STYLE = """\
text { font: 12px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328 }
.title { font-size: 16px; font-weight: 600 }
.scenario { font-weight: 600 }
.soft { fill: #59636e }
.page { fill: #ffffff }
.sqlite { fill: #0a7d5a } .postgres { fill: #2563b8 } .machine { fill: #59636e }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .soft { fill: #9198a1 } .page { fill: #0d1117 }
  .sqlite { fill: #3fcf9b } .postgres { fill: #79b0ff } .machine { fill: #9198a1 }
}
"""


def svg(report: Report) -> str:
    rows = lines(report)
    body, height = "", HEAD
    for scenario in dict.fromkeys(line.scenario for line in rows):
        body += _text(16, height + 12, scenario, "scenario")
        height += ROW + 3
        for line in (line for line in rows if line.scenario == scenario):
            body += "".join(_bars(line, _longest(rows, line), height))
            height += ROW * len(line.by_engine) + GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="title">'
        f'<title id="title">hookline bench</title><style>{STYLE}</style>'
        f'<rect class="page" width="{WIDTH}" height="{height}"/>{_heading(report)}{body}</svg>\n'
    )


def _heading(report: Report) -> str:
    machine = f"{report.machine.processors} processors, {report.machine.system} {report.machine.architecture}"
    said = f"{machine}, Python {report.machine.python} · medians of {report.rounds} · {report.at:%Y-%m-%d}"
    parts = [_text(16, 26, f"hookline bench {report.version}", "title"), _text(16, 46, said, "soft")]
    for at, (engine, version) in enumerate(report.engines.items()):
        parts.append(f'<rect class="{engine}" x="{16 + 180 * at}" y="56" width="10" height="10"/>')
        parts.append(_text(32 + 180 * at, 65, version, "soft"))
    return "".join(parts)


def _longest(rows: list[Line], line: Line) -> float:
    """Return the value of the longest bar. Bars of one scenario and one unit have one scale."""
    same = [each for each in rows if (each.scenario, each.unit) == (line.scenario, line.unit)]
    return max((measured.median for each in same for measured in each.by_engine.values()), default=0.0) or 1.0


def _bars(line: Line, longest: float, top: int) -> Iterator[str]:
    yield _text(28, top + 12, line.figure)
    for at, (engine, measured) in enumerate(line.by_engine.items()):
        yield _bar(measured, engine or "machine", measured.median / longest * BAR, top + at * ROW)


def _bar(measured: Measured, shade: str, width: float, top: int) -> str:
    name = escape(f"{measured.scenario}, {measured.figure}, {NAMES.get(measured.engine, 'any engine')}")
    bar = f'<rect class="{shade}" x="{NAME}" y="{top + 3}" width="{width:.1f}" height="{ROW - 6}"><title>{name}</title></rect>'
    return bar + _text(NAME + width + 6, top + 12, f"{number(measured.median)} {measured.unit}", "soft")


def _text(x: float, y: float, words: str, kind: str = "") -> str:
    shade = f' class="{kind}"' if kind else ""
    return f'<text{shade} x="{x:.1f}" y="{y}">{escape(words)}</text>'
