"""Builds HTML that is safe: every text and every attribute is escaped, except markup that `tag` made.

Unicode has control characters that change the direction of text. With them, the text of one tenant could visually
reorder the text beside it. So visible text shows U+FFFD instead of each of them. Attributes and text areas keep them,
because a browser follows links and sends forms with exactly these values. Arabic and Hebrew letters do not need these
control characters.
"""

from __future__ import annotations

import html
import re
from functools import cache


class Safe(str):
    """Markup that is already escaped. Only this module creates it."""

    __slots__ = ()


Child = Safe | str | int | None

_SPECIAL = re.compile("""[&<>"']""")  # the characters that `html.escape` replaces; most texts have none
_DIRECTION_CONTROLS = re.compile("[\u202a-\u202e\u2066-\u2069]")
_VOID = frozenset({"br", "hr", "img", "input", "link", "meta", "wbr"})


def join(*children: Child) -> Safe:
    return Safe("".join([child if type(child) is Safe else _text(child) for child in children]))


def tag(name: str, /, *children: Child, **attributes: str | bool | None) -> Safe:
    """Return an element, as in `tag("td", text, class_="num")`.

    In the names of attributes, a trailing underscore is dropped and other underscores become hyphens.
    """
    head = f"<{name}{''.join([_attribute(key, value) for key, value in attributes.items()])}>"
    if name in _VOID:
        return Safe(head)
    inner = _editable(children) if name == "textarea" else join(*children)
    return Safe(f"{head}{inner}</{name}>")


def page(*children: Child) -> Safe:
    return Safe(f"<!doctype html>{join(*children)}")


def _editable(children: tuple[Child, ...]) -> str:
    return "".join(_escaped(str(child)) for child in children if child is not None)


def _text(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Safe):
        return child
    text = str(child)
    return _escaped(text if text.isascii() else _DIRECTION_CONTROLS.sub("\ufffd", text))


def _escaped(text: str) -> str:
    return html.escape(text) if _SPECIAL.search(text) else text


def _attribute(key: str, value: str | bool | None) -> str:
    if value is None or value is False:
        return ""
    return f" {_name(key)}" if value is True else f' {_name(key)}="{_escaped(value)}"'


@cache
def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")
