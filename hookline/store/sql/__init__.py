"""The SQL of both engines: the same stage files and the same block names, side by side.

A block begins with `-- name: claim_lanes`; the lines up to the next heading are its text. One that begins with `-- part: accept`
is a piece of several statements: each has the line `-- include: accept` in its place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType

_HEAD = re.compile(r"-- (name|part): (\S+)$")
_INCLUDE = re.compile(r"^ *-- include: (\S+)$", re.MULTILINE)


@cache
def load(engine: str) -> Mapping[str, str]:
    """Every named statement of one engine, from all its stage files."""
    found: dict[str, dict[str, str]] = {"name": {}, "part": {}}
    folder = resources.files(__package__) / engine
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".sql"):
            for kind, name, text in blocks(file.read_text(encoding="utf-8")):
                if name in found[kind]:
                    raise ValueError(f"{file.name}: the statement {name!r} is named twice")
                found[kind][name] = text
    return MappingProxyType({name: _whole(text, found["part"]) for name, text in found["name"].items()})


def _whole(text: str, parts: dict[str, str]) -> str:
    return _INCLUDE.sub(lambda line: _whole(parts[line[1]], parts), text)


def blocks(text: str) -> list[tuple[str, str, str]]:
    """Kind, name and text of one file's blocks, in order. What stands before the first heading is a comment on the file."""
    found: list[tuple[str, str, list[str]]] = []
    for line in text.splitlines():
        if head := _HEAD.match(line):
            found.append((head[1], head[2], []))
        elif found:
            found[-1][2].append(line)
    return [(kind, name, "\n".join(lines).strip().removesuffix(";")) for kind, name, lines in found]
