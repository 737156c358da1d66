"""Every SQL block of `store/sql` is used."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

import hookline.store
from hookline.store.plans.message_search import Way
from hookline.store.sealing import Place
from hookline.store.sql import load

STORE = Path(hookline.store.__file__).parent


def test_every_statement_is_used(engine: str) -> None:
    """A statement is named in the engine's modules or in a plan. A listing adds `_back` for the other direction."""
    modules = chain((STORE / engine).glob("*.py"), (STORE / "plans").glob("*.py"))
    named = {name for module in modules for name in re.findall(r'"([a-z_]+)"', module.read_text(encoding="utf-8"))}
    named |= {f"{way}{end}" for way in Way for end in ("", "_end")} | {place.statement for place in Place}
    assert {name for name in load(engine) if not {name, name.removesuffix("_back")} & named} == set()


def test_every_part_is_included() -> None:
    text = "\n".join(file.read_text(encoding="utf-8") for file in (STORE / "sql").glob("*/*.sql"))
    parts, included = (set(re.findall(rf"^ *-- {word}: (\S+)$", text, re.MULTILINE)) for word in ("part", "include"))
    assert parts == included
