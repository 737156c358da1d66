"""One statement as each driver wants it written. Parameters are `:names`; values are looked up by them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

Engine = Literal["postgres", "sqlite"]
Rows = list[tuple[Any, ...]]
Values = Mapping[str, Any]

_NAME = re.compile(r":([a-z_]+)")


class Statement:
    """`text` has no percent sign, and colons only before names."""

    __slots__ = ("distinct", "names", "numbered", "percent", "qmark", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.names = _NAME.findall(text)  # one for each place
        self.distinct = list(dict.fromkeys(self.names))
        self.qmark = _NAME.sub("?", text)
        self.percent = _NAME.sub("%s", text)
        self.numbered = _NAME.sub(lambda found: f"${self.distinct.index(found[1]) + 1}", text)

    def in_order(self, values: Values) -> list[Any]:
        """For `?` and `%s`."""
        return [values[name] for name in self.names]

    def each_once(self, values: Values) -> list[Any]:
        """For `$1`."""
        return [values[name] for name in self.distinct]

    def named(self, values: Values) -> dict[str, Any]:
        return {name: values[name] for name in self.distinct}


class Pair:
    """What both engines call by the same name."""

    __slots__ = ("_of",)

    def __init__(self, *, postgres: str, sqlite: str) -> None:
        self._of: dict[Engine, Statement] = {"postgres": Statement(postgres), "sqlite": Statement(sqlite)}

    def on(self, engine: Engine) -> Statement:
        return self._of[engine]
