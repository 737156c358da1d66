"""The SQL of both engines: the same stage files and the same block names, side by side.

A block begins with `-- name: claim_lanes`; the lines up to the next heading are its text.
"""

from __future__ import annotations

from importlib import resources

_HEAD = "-- name: "


def load(engine: str) -> dict[str, str]:
    """Every named statement of one engine, from all its stage files."""
    statements: dict[str, str] = {}
    folder = resources.files(__package__) / engine
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".sql"):
            for name, text in blocks(file.read_text(encoding="utf-8")):
                if name in statements:
                    raise ValueError(f"{file.name}: the statement {name!r} is named twice")
                statements[name] = text
    return statements


def blocks(text: str) -> list[tuple[str, str]]:
    """The named blocks of one file, in order. What stands before the first heading is a comment on the file."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith(_HEAD):
            found.append((line.removeprefix(_HEAD).strip(), []))
        elif found:
            found[-1][1].append(line)
    return [(name, "\n".join(lines).strip().removesuffix(";")) for name, lines in found]
