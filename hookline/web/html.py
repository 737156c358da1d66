"""HTML by construction: every text and every attribute is escaped; only what `tag` made is taken as it is.

Texts are to be seen, attributes and what is edited are to be used: characters that turn the order of writing around would let
one tenant's text rewrite what stands beside it, and are shown as one that cannot be shown. Letters that are written from right
to left need none of them.
"""

from __future__ import annotations

import html
import re
from functools import cache


class Safe(str):
    """Markup that needs no escaping. Made by `tag` and `join` alone."""

    __slots__ = ()


Child = Safe | str | int | None

_SPECIAL = re.compile("""[&<>"']""")  # what `html.escape` replaces: most texts have none of it
_TURNS = re.compile("[\u202a-\u202e\u2066-\u2069]")
_VOID = frozenset({"br", "hr", "img", "input", "link", "meta", "wbr"})


def join(*children: Child) -> Safe:
    return Safe("".join([child if type(child) is Safe else _text(child) for child in children]))


def tag(name: str, /, *children: Child, **attributes: str | bool | None) -> Safe:
    """`tag("td", text, class_="num")`. A trailing underscore in a name is dropped, others become hyphens."""
    head = f"<{name}{''.join([_attribute(key, value) for key, value in attributes.items()])}>"
    if name in _VOID:
        return Safe(head)
    inner = _edited(children) if name == "textarea" else join(*children)
    return Safe(f"{head}{inner}</{name}>")


def page(*children: Child) -> Safe:
    return Safe(f"<!doctype html>{join(*children)}")


def _edited(children: tuple[Child, ...]) -> str:
    return "".join(_escaped(str(child)) for child in children if child is not None)


def _text(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Safe):
        return child
    text = str(child)
    return _escaped(text if text.isascii() else _TURNS.sub("\ufffd", text))


def _escaped(text: str) -> str:
    return html.escape(text) if _SPECIAL.search(text) else text


def _attribute(key: str, value: str | bool | None) -> str:
    if value is None or value is False:
        return ""
    return f" {_name(key)}" if value is True else f' {_name(key)}="{_escaped(value)}"'


@cache
def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")
