"""Lanes that want somebody's attention: what both engines share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

MOST_DEAD = 1_000  # dead letters that are looked at to see whose they are


def chosen(lanes: Sequence[tuple[int, bool]], dead: Sequence[int], most: int) -> list[int]:
    """Of lanes in trouble, with whether they are held back, and of those with dead letters, both the worst first."""
    held = [no for no, is_held in lanes if is_held]
    return _once([*held, *dead, *(no for no, _ in lanes)])[:most]


def _once(numbers: Iterable[int]) -> list[int]:
    return list(dict.fromkeys(numbers))
