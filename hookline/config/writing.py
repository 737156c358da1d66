"""Writes settings as text: the table of the documentation, and single values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hookline.config.settings import SETTINGS, Setting
from hookline.rules.units import span, volume


def table() -> str:
    """Return the table of all settings in Markdown."""
    rows = [f"| `{s.variable}` | {f'`{s.default}`' if s.default else ''} | {s.help} |" for s in SETTINGS]
    return "\n".join(["| variable | default | what it does |", "|---|---|---|", *rows])


def written(setting: Setting, value: Any) -> str:
    """Return a value as a user would write it: the first spelling that the setting's parser reads as the same
    value."""
    for text in _spellings(setting, value):
        try:
            if setting.parse(text) == value:
                return text
        except ValueError:
            continue
    return str(value)


def _spellings(setting: Setting, value: Any) -> Iterator[str]:
    yield setting.default
    if isinstance(value, bool):
        yield "on" if value else "off"
    elif isinstance(value, int | float):
        yield from (() if value else ("off",))
        yield from (
            span(value),
            volume(round(value)),
            f"{value * 100:g}%" if 0 < value < 1 else f"{value:g}",
            f"{value}",
        )
    elif isinstance(value, tuple):
        yield ",".join(span(each) if isinstance(each, float) else str(each) for each in value)
