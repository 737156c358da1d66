"""Settings for people: the table of the documentation, and values as one would write them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hookline.config.settings import SETTINGS, Setting
from hookline.rules.units import span, volume


def table() -> str:
    """The settings in Markdown."""
    rows = [f"| `{s.variable}` | {f'`{s.default}`' if s.default else ''} | {s.help} |" for s in SETTINGS]
    return "\n".join(["| variable | default | what it does |", "|---|---|---|", *rows])


def written(setting: Setting, value: Any) -> str:
    """A value as one would write it in the variable: the first of several ways that is read as the same."""
    for text in _ways(setting, value):
        try:
            if setting.parse(text) == value:
                return text
        except ValueError:
            continue
    return str(value)


def _ways(setting: Setting, value: Any) -> Iterator[str]:
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
