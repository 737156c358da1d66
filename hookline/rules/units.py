"""Parsing and formatting of durations and sizes such as 250ms, 30s and 16KiB."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

Parser = Callable[[str], Any]
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(ms|s|m|h|d)?", re.A)
_SIZE = re.compile(r"([0-9]+) ?(B|KiB|MiB)?", re.A)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_BYTES = {"B": 1, "KiB": 1024, "MiB": 1024 * 1024}


def seconds_of(text: str) -> float:
    """Parse a duration; return NaN if the text is not a duration."""
    match = _DURATION.fullmatch(text)
    return float(match[1]) * _SECONDS[match[2] or "s"] if match else math.nan


def span(seconds: float) -> str:
    """Format a duration in the largest unit that gives a whole number: 60 → `1m`."""
    for unit in ("d", "h", "m", "s"):
        if seconds and seconds % _SECONDS[unit] == 0:
            return f"{seconds / _SECONDS[unit]:.0f}{unit}"
    return f"{seconds * 1000:g}ms" if seconds else "0"


def volume(size: int) -> str:
    for unit in ("MiB", "KiB"):
        if size and size % _BYTES[unit] == 0:
            return f"{size // _BYTES[unit]}{unit}"
    return f"{size}B"


def duration(lowest: float, highest: float) -> Parser:
    def parse(text: str) -> float:
        seconds = seconds_of(text)
        if not lowest <= seconds <= highest:
            raise ValueError(f"a duration from {span(lowest)} to {span(highest)}, such as 250ms, 30s, 5m, 6h or 5d")
        return seconds

    return parse


def size(lowest: int, highest: int) -> Parser:
    def parse(text: str) -> int:
        match = _SIZE.fullmatch(text)
        value = int(match[1][:20]) * _BYTES[match[2] or "B"] if match else -1
        if not lowest <= value <= highest:
            raise ValueError(f"a size from {volume(lowest)} to {volume(highest)}, such as 16384 or 16KiB")
        return value

    return parse
