"""The SQL of both engines. `shared/` holds what both run; `sqlite/` and `postgres/` what is the engine's own, side by side.

A block begins with `-- name: claim_lanes`; the lines up to the next heading are its text. One that begins with `-- part: accept`
is a piece of several statements: each has the line `-- include: accept` in its place. A block of the same name in the engine's
own folder replaces the shared one.

Shared blocks are PostgreSQL's spelling with `:names` for values. `load` translates them for SQLite, so they keep to what both
understand: `now()`, `interval '1 minute'`, `= ANY (:ids::bigint[])`, `FOR UPDATE`, `::type`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from types import MappingProxyType

_HEAD = re.compile(r"-- (name|part): (\S+)$")
_INCLUDE = re.compile(r"^ *-- include: (\S+)$", re.MULTILINE)
_NAMED = re.compile(r"(?<!:):([a-z_]+)")

_MICROS = {"second": 10**6, "minute": 60 * 10**6, "hour": 3600 * 10**6, "day": 86_400 * 10**6}
_SQLITE = (
    (re.compile(r"\bhookline\."), ""),
    (re.compile(r'::[a-z]+[a-z0-9]*(\[\])?| COLLATE "C"'), ""),
    (re.compile(r"\bnow\(\)|\bclock_timestamp\(\)"), ":now"),
    (re.compile(r"= ANY \(([^()]+)\)"), r"IN (SELECT value FROM json_each(\1))"),
    (re.compile(r"\boctet_length\("), "length("),
    (re.compile(r"\s+FOR (NO KEY UPDATE|UPDATE|SHARE)( OF [a-z]+)?( SKIP LOCKED)?"), ""),
)
_INTERVAL = re.compile(r"interval '(\d+) (second|minute|hour|day)s?'")


@cache
def load(engine: str) -> Mapping[str, str]:
    """Every named statement of one engine, as its driver takes it: the shared ones, and its own."""
    named = _numbered if engine == "postgres" else str
    return MappingProxyType({name: named(text) for name, text in _texts(engine).items()})


@cache
def values_of(name: str) -> tuple[str, ...]:
    """The names of the values of a PostgreSQL statement, in the order of `$1`, `$2` and so on."""
    return tuple(dict.fromkeys(_NAMED.findall(_texts("postgres")[name])))


@cache
def _texts(engine: str) -> dict[str, str]:
    """By name, with what they include."""
    found: dict[str, dict[str, str]] = {"name": {}, "part": {}}
    for folder in ("shared", engine):
        mine: set[tuple[str, str]] = set()
        for file in _files(folder):
            for kind, name, text in blocks(file.read_text(encoding="utf-8")):
                if (kind, name) in mine:
                    raise ValueError(f"{file.name}: the statement {name!r} is named twice")
                mine.add((kind, name))
                found[kind][name] = _for_sqlite(text) if (folder, engine) == ("shared", "sqlite") else text
    return {name: _whole(text, found["part"]) for name, text in found["name"].items()}


def _files(folder: str) -> list[Traversable]:
    files = (resources.files(__package__) / folder).iterdir()
    return sorted((file for file in files if file.name.endswith(".sql")), key=lambda file: file.name)


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


def _numbered(text: str) -> str:
    """For PostgreSQL: `$1` in place of the first name, everywhere it stands."""
    names = list(dict.fromkeys(_NAMED.findall(text)))
    return _NAMED.sub(lambda name: f"${names.index(name[1]) + 1}", text)


def _for_sqlite(text: str) -> str:
    """Instants are microseconds there, and lists are JSON."""
    for spelling, other in _SQLITE:
        text = spelling.sub(other, text)
    return _INTERVAL.sub(lambda found: str(int(found[1]) * _MICROS[found[2]]), text)
