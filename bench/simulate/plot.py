"""Charts as SVG, in light and dark mode, with a title and a description for screen readers.

`panels` draws one frame per curve with the same scales. `chart` draws several curves in one frame. Curves are steps:
`values[i]` holds from `start + i * width` on. The same input gives the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 760
LEFT, RIGHT = 64, 24
HEAD = 62  # height of title and subtitle
FOOT = 50  # height of the x axis

# Number of line styles. Their colours suit colour-blind readers, and dashes distinguish them without colour.
STYLES = 6
STYLE = """\
text { font: 12px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328 }
.title { font-size: 16px; font-weight: 600 }
.soft { fill: #59636e }
.page { fill: #ffffff }
.grid { stroke: #d1d9e0; stroke-width: 1 }
.mark { stroke: #59636e; stroke-width: 1; stroke-dasharray: 3 3 }
.away { fill: #59636e; fill-opacity: .13 }
.line { fill: none; stroke-width: 2; stroke-linejoin: round }
.area { fill-opacity: .22 }
.c0 { color: #0a7d5a } .c1 { color: #c4420a } .c2 { color: #2563b8 } .c3 { color: #8a5a00 }
.c4 { color: #a3338b } .c5 { color: #59636e }
.line { stroke: currentColor } .area { fill: currentColor }
.c1 .line { stroke-dasharray: 7 3 } .c2 .line { stroke-dasharray: 2 3 } .c3 .line { stroke-dasharray: 9 3 2 3 }
.c4 .line { stroke-dasharray: 4 4 } .c5 .line { stroke-dasharray: 1 4 }
.alone .line { stroke-dasharray: none; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .soft { fill: #9198a1 } .page { fill: #0d1117 } .grid { stroke: #3d444d }
  .mark { stroke: #9198a1 } .away { fill: #9198a1 }
  .c0 { color: #3fcf9b } .c1 { color: #ff9466 } .c2 { color: #79b0ff } .c3 { color: #e3b341 }
  .c4 { color: #e48fd0 } .c5 { color: #9198a1 }
}
"""


@dataclass(frozen=True)
class Curve:
    name: str
    values: Sequence[float]
    note: str = ""  # `panels` shows it beside the name
    ended: bool = True  # the curve stays at 0 after the last value; otherwise it is unknown there
    style: int = 0  # 0 is for Hookline's own curve


@dataclass(frozen=True)
class Axis:
    label: str
    low: float
    high: float
    log: bool = False  # scale by log10(1 + value), so that 0 stays 0 and 1 is visible

    def part(self, value: float) -> float:
        """Return the position of a value on the axis, from 0 to 1."""
        low, high, value = (self._bend(number) for number in (self.low, self.high, value))
        return min(1.0, max(0.0, (value - low) / (high - low)))

    def _bend(self, value: float) -> float:
        return math.log10(1.0 + value) if self.log else value

    def ticks(self, most: int) -> list[float]:
        if self.log:
            powers = [10.0**power for power in range(12) if self.low <= 10.0**power <= self.high]
            return [self.low, *powers]
        step = _round_step((self.high - self.low) / most)
        first = math.ceil(self.low / step)
        return [index * step for index in range(first, math.floor(self.high / step + 1e-9) + 1)]


@dataclass(frozen=True)
class Span:
    """A shaded range of the x axis, or a single mark if it begins and ends at the same value."""

    start: float
    end: float
    name: str


@dataclass(frozen=True)
class Page:
    """The common parts of every chart."""

    name: str  # file name without extension; also the prefix of ids in the SVG
    title: str
    description: str  # description for screen readers
    x: Axis
    y: Axis
    start: float = 0.0  # x position of the first value of every curve
    width: float = 1.0  # width of one value on the x axis
    spans: tuple[Span, ...] = ()


def panels(page: Page, curves: Sequence[Curve], *, height: int = 58) -> str:
    """Draw one frame per curve, one below the other, with the same scales."""
    gap = 32
    frames = [_Frame(page, HEAD + 22 + index * (height + gap), height) for index in range(len(curves))]
    shaded = "".join(f" · shaded: {span.name}" for span in page.spans)  # the frames are too small for a label
    parts = [_heading(page, page.y.label + shaded)]
    for frame, curve in zip(frames, curves, strict=True):
        parts += [*frame.spans(named=False), *frame.rows(2), frame.curve(curve, filled=True)]
        parts.append(_text(LEFT, frame.top - 8, curve.name))
        parts.append(_text(WIDTH - RIGHT, frame.top - 8, curve.note, "soft", anchor="end"))
    parts += frames[-1].columns()
    return _svg(page, int(frames[-1].bottom) + FOOT, parts)


def chart(page: Page, curves: Sequence[Curve], *, height: int = 300) -> str:
    """Draw all curves in one frame, with a legend above it."""
    frame = _Frame(page, HEAD + 34, height)
    parts = [_heading(page, page.y.label), *_legend(curves), *frame.spans(named=True), *frame.rows(5)]
    parts += [frame.curve(curve, filled=False) for curve in curves]
    parts += frame.columns()
    return _svg(page, int(frame.bottom) + FOOT, parts)


class _Frame:
    """One frame with a pair of axes."""

    def __init__(self, page: Page, top: float, height: float) -> None:
        self.page = page
        self.top = top
        self.bottom = top + height

    def x(self, value: float) -> float:
        return LEFT + self.page.x.part(value) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return self.bottom - self.page.y.part(value) * (self.bottom - self.top)

    def spans(self, *, named: bool) -> Iterator[str]:
        for span in self.page.spans:
            left, right = self.x(span.start), self.x(span.end)
            if right > left:
                size = f'width="{_px(right - left)}" height="{_px(self.bottom - self.top)}"'
                yield f'<rect class="away" x="{_px(left)}" y="{_px(self.top)}" {size}/>'
            else:
                yield f'<path class="mark" d="M{_px(left)} {_px(self.top)}V{_px(self.bottom)}"/>'
            if named:
                yield _text(left + 4, self.top + 12, span.name, "soft")

    def rows(self, most: int) -> Iterator[str]:
        for tick in self.page.y.ticks(most):
            height = self.y(tick)
            yield f'<path class="grid" d="M{LEFT} {_px(height)}H{WIDTH - RIGHT}"/>'
            yield _text(LEFT - 8, height + 4, _number(tick), "soft", anchor="end")

    def columns(self) -> Iterator[str]:
        for tick in self.page.x.ticks(8):
            at = self.x(tick)
            yield f'<path class="grid" d="M{_px(at)} {_px(self.bottom)}v5"/>'
            yield _text(at, self.bottom + 19, _number(tick), "soft", anchor="middle")
        yield _text((LEFT + WIDTH - RIGHT) / 2, self.bottom + 39, self.page.x.label, "soft", anchor="middle")

    def curve(self, curve: Curve, *, filled: bool) -> str:
        steps = "".join(self._steps(curve))
        alone = " alone" if filled else ""
        area = f'<path class="area" d="M{_px(self._first())} {_px(self.bottom)}{steps}V{_px(self.bottom)}Z"/>'
        line = f'<path class="line" d="M{_px(self._first())} {_px(self.bottom)}{steps}"/>'
        return f'<g class="c{curve.style % STYLES}{alone}">{area if filled else ""}{line}</g>'

    def _first(self) -> float:
        return self.x(self.page.start)

    def _steps(self, curve: Curve) -> Iterator[str]:
        """Yield the path of the visible values. A run of equal values is one step."""
        page, values = self.page, curve.values
        for index, value in enumerate(values):
            start = page.start + index * page.width
            if start >= page.x.high:
                return
            last = index + 1 == len(values)
            if start + page.width > page.x.low and (
                last or values[index + 1] != value or start + page.width >= page.x.high
            ):
                yield f"V{_px(self.y(value))}H{_px(self.x(start + page.width))}"
        if curve.ended and page.start + len(values) * page.width < page.x.high:
            yield f"V{_px(self.bottom)}"


def _heading(page: Page, subtitle: str) -> str:
    return _text(24, 30, page.title, "title") + "\n" + _text(24, 50, subtitle, "soft")


def _legend(curves: Sequence[Curve]) -> Iterator[str]:
    at = LEFT
    for curve in curves:
        line = f'<path class="line" d="M{at} {HEAD + 14}h26"/>'
        yield f'<g class="c{curve.style % STYLES}">{line}</g>' + _text(at + 32, HEAD + 18, curve.name)
        at += 56 + round(6.6 * len(curve.name))


def _svg(page: Page, height: int, parts: Sequence[str]) -> str:
    title, description = f"{page.name}-title", f"{page.name}-desc"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
        f' role="img" aria-labelledby="{title} {description}">'
    )
    lines = [
        head,
        f'<title id="{title}">{escape(page.title)}</title>',
        f'<desc id="{description}">{escape(page.description)}</desc>',
        f"<style>\n{STYLE}</style>",
        f'<rect class="page" width="{WIDTH}" height="{height}" rx="6"/>',
        *parts,
        "</svg>\n",
    ]
    return "\n".join(lines)


def _text(x: float, y: float, said: str, style: str = "", *, anchor: str = "") -> str:
    attributes = (f' class="{style}"' if style else "") + (f' text-anchor="{anchor}"' if anchor else "")
    return f'<text x="{_px(x)}" y="{_px(y)}"{attributes}>{escape(said)}</text>'


def _px(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}".rstrip("0")


def _round_step(least: float) -> float:
    """Return the smallest number of 0.1, 0.2, 0.5, 1, 2, 5, 10 ... that is not smaller than `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * digit for digit in (1, 2, 5, 10) if power * digit >= least * (1 - 1e-9))
