"""HTML by construction: every text and every attribute is escaped; only what `tag` made is taken as it is."""

from __future__ import annotations

import html


class Safe(str):
    """Markup that needs no escaping. Made by `tag` and `join` alone."""

    __slots__ = ()


Child = Safe | str | int | None

_VOID = frozenset({"br", "hr", "img", "input", "link", "meta", "wbr"})


def join(*children: Child) -> Safe:
    return Safe("".join(_text(child) for child in children))


def tag(name: str, /, *children: Child, **attributes: str | bool | None) -> Safe:
    """`tag("td", text, class_="num")`. A trailing underscore in a name is dropped, others become hyphens."""
    head = f"<{name}{''.join(_attribute(key, value) for key, value in attributes.items())}>"
    return Safe(head) if name in _VOID else Safe(f"{head}{join(*children)}</{name}>")


def page(*children: Child) -> Safe:
    return Safe(f"<!doctype html>{join(*children)}")


def _text(child: Child) -> str:
    if child is None:
        return ""
    return child if isinstance(child, Safe) else html.escape(str(child))


def _attribute(key: str, value: str | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{html.escape(value)}"'
