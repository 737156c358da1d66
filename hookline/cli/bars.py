"""Draw bars of characters, to scale: states over time, and the phases of an attempt. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from hookline.services.explain import Part, Phase

# If several parts of a delivery's time fall on one character of a bar, the part that comes last in this order is drawn.
# So a short attempt is visible in a long wait.
PARTS: Mapping[str, str] = {Part.WAITING: "·", Part.HELD: "░", Part.FAILED: "✕", Part.DELIVERED: "●"}
PHASES: Mapping[str, str] = {Phase.DNS: "░", Phase.CONNECT: "▒", Phase.TLS: "▓", Phase.ANSWER: "─", Phase.BODY: "█"}

Stretch = tuple[str, datetime, datetime]  # a state, its start and its end


def band(stretches: Sequence[Stretch], marks: Mapping[str, str], width: int) -> str:
    """Draw consecutive states as one bar of `width` characters. `marks` has the character of each state.

    If several states fall on one character, the state that comes last in `marks` is drawn.
    """
    if not stretches:
        return ""
    start, span = stretches[0][1], (stretches[-1][2] - stretches[0][1]) or timedelta.resolution
    ranks = {state: rank for rank, state in enumerate(marks)}
    cells = [-1] * width
    for state, since, until in stretches:
        first = cell(since - start, span, width)
        end = max(first + 1, -((start - until) * width // span))  # rounded up to a whole character
        for at in range(first, min(end, width)):
            cells[at] = max(cells[at], ranks[state])
    characters = list(marks.values())
    return "".join(characters[rank] for rank in cells if rank >= 0)


def cell(offset: timedelta, span: timedelta, width: int) -> int:
    return min(width - 1, offset * width // span)


def bar(phases: Sequence[tuple[Phase, int]], longest: int, width: int) -> str:
    """Draw one attempt with its phases. Its length is relative to the longest attempt, and at least one character."""
    drawn, reached = "", 0
    for phase, micros in phases:
        reached += micros
        cells = round(reached / longest * width) if longest else 0
        drawn += PHASES[phase] * (cells - len(drawn))
    return drawn or (PHASES[phases[-1][0]] if phases else "")


def legend(marks: Mapping[str, str], drawn: str) -> str:
    """Return a text that explains the characters in `drawn`."""
    return "   ".join(f"{mark} {state}" for state, mark in marks.items() if mark in drawn)
