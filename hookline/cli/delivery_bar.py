"""Draw the states of a delivery and the phases of an attempt to scale, with characters. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hookline.services.explain import Part, Phase, Stretch

# If several parts share a cell, the later one in this order is drawn, so that a short attempt is visible in a long wait.
PARTS = {Part.WAITING: "·", Part.HELD: "░", Part.FAILED: "✕", Part.DELIVERED: "●"}
_RANK = {part: rank for rank, part in enumerate(PARTS)}

PHASES = {Phase.DNS: "░", Phase.CONNECT: "▒", Phase.TLS: "▓", Phase.ANSWER: "─", Phase.BODY: "█"}


def band(found: Sequence[Stretch], width: int) -> str:
    """Draw one bar of `width` characters from the start of the first stretch to the end of the last one."""
    if not found:
        return ""
    start, span = found[0].since, found[-1].until - found[0].since
    cells: list[Part | None] = [None] * width
    for stretch in found:
        first, last = ((at - start) / span if span else 0.0 for at in (stretch.since, stretch.until))
        for cell in range(_cell(first, width), max(_cell(first, width), _last_cell(last, width)) + 1):
            before = cells[cell]
            if before is None or _RANK[stretch.part] > _RANK[before]:
                cells[cell] = stretch.part
    return "".join(PARTS[part] if part is not None else " " for part in cells).rstrip()


def _cell(part: float, width: int) -> int:
    return min(width - 1, int(part * width))


def _last_cell(part: float, width: int) -> int:
    """Return the last cell of a stretch. A stretch that ends where a cell begins is not in that cell."""
    return min(width, math.ceil(part * width)) - 1


def bar(found: Sequence[tuple[Phase, int]], longest: int, width: int) -> str:
    """Draw one attempt with its phases. Its length is relative to the longest attempt, and at least one character."""
    drawn, reached = "", 0
    for phase, micros in found:
        reached += micros
        cells = round(reached / longest * width) if longest else 0
        drawn += PHASES[phase] * (cells - len(drawn))
    return drawn or (PHASES[found[-1][0]] if found else "")


def legend_of_parts(drawn: str) -> str:
    return "   ".join(f"{mark} {part.value}" for part, mark in PARTS.items() if mark in drawn)


def legend_of_phases(drawn: str) -> str:
    return "   ".join(f"{mark} {phase.value}" for phase, mark in PHASES.items() if mark in drawn)
