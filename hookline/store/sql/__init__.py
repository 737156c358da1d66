"""Load the SQL of both engines. `shared/` has the statements that both engines use; `sqlite/` and `postgres/` have
those of one engine.

A statement begins with `-- name: claim_lanes` and ends before the next heading. A block that begins with `-- part:
accept` is a fragment that several statements use: the line `-- include: accept` is replaced with its text. A block in
the engine's folder replaces the shared block of the same name.

Shared statements are written in PostgreSQL's syntax with `:names` for values. `load` translates them for SQLite, so
they use only what both engines support: `now()`, `interval '1 minute'`, `= ANY (:ids::bigint[])`, `FOR UPDATE`,
`::type`.
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
    """Return all statements of one engine by name, in its driver's syntax."""
    named = _numbered if engine == "postgres" else str
    return MappingProxyType({name: named(text) for name, text in _texts(engine).items()})


@cache
def values_of(name: str) -> tuple[str, ...]:
    """Return the parameter names of a PostgreSQL statement in the order of `$1`, `$2` and so on."""
    return tuple(dict.fromkeys(_NAMED.findall(_texts("postgres")[name])))


@cache
def _texts(engine: str) -> dict[str, str]:
    """Return the text of each statement by name, with its includes."""
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
    """Return kind (`name` or `part`), name and text of each block of a file, in order. A block begins with a heading,
    such as `-- name: claim_lanes`. Text before the first heading is a comment on the file, and is not returned."""
    found: list[tuple[str, str, list[str]]] = []
    for line in text.splitlines():
        if head := _HEAD.match(line):
            found.append((head[1], head[2], []))
        elif found:
            found[-1][2].append(line)
    return [(kind, name, "\n".join(lines).strip().removesuffix(";")) for kind, name, lines in found]


def _numbered(text: str) -> str:
    """For PostgreSQL: replace each parameter name with its number, such as `$1`."""
    names = list(dict.fromkeys(_NAMED.findall(text)))
    return _NAMED.sub(lambda name: f"${names.index(name[1]) + 1}", text)


def _for_sqlite(text: str) -> str:
    """Translate a shared statement for SQLite, where instants are microseconds and lists are JSON."""
    for spelling, other in _SQLITE:
        text = spelling.sub(other, text)
    return _INTERVAL.sub(lambda found: str(int(found[1]) * _MICROS[found[2]]), text)
