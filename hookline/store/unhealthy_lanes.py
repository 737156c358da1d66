"""Lanes that want somebody's attention: what both engines share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

MAX_DYING = 1_000  # endpoints with dead letters that are looked at to see which have the most
COMPARED = 100  # dead letters of each of these
EVERY_APP = (0, 2**63 - 1)  # from and to which number


def apps(app_no: int | None) -> tuple[int, int]:
    return EVERY_APP if app_no is None else (app_no, app_no)


def chosen(lanes: Sequence[tuple[int, bool]], dead: Sequence[int], most: int) -> list[int]:
    """Of lanes in trouble, with whether they are held back, and of those with dead letters, both the worst first."""
    held = [no for no, is_held in lanes if is_held]
    return _once([*held, *dead, *(no for no, _ in lanes)])[:most]


def _once(numbers: Iterable[int]) -> list[int]:
    return list(dict.fromkeys(numbers))
