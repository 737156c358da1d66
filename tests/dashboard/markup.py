"""HTML pages as a tree, with the standard library's parser, and searches in it."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser

VOID = frozenset({"br", "hr", "img", "input", "link", "meta", "wbr"})


class Node:
    def __init__(self, name: str, attributes: dict[str, str]) -> None:
        self.name = name
        self.attributes = attributes  # an attribute without a value has an empty string
        self.children: list[Node | str] = []

    def __repr__(self) -> str:
        return f"<{self.name} {self.attributes}> {self.text[:200]!r}"

    def __getitem__(self, attribute: str) -> str:
        return self.attributes[attribute]

    def get(self, attribute: str) -> str | None:
        return self.attributes.get(attribute)

    @property
    def text(self) -> str:
        """The text of the element, with each run of white space replaced by one space."""
        return " ".join("".join(self._texts()).split())

    def _texts(self) -> Iterator[str]:
        for child in self.children:
            if isinstance(child, str):
                yield child
            else:
                yield from child._texts()
                yield (
                    "" if child.name in ("a", "b", "span", "code", "time", "i", "em", "strong", "tspan", "wbr") else " "
                )

    def walk(self) -> Iterator[Node]:
        yield self
        for child in self.children:
            if isinstance(child, Node):
                yield from child.walk()

    def all(self, name: str | None = None, /, class_: str | None = None, **attributes: str) -> list[Node]:
        """Find elements: `all("a", href="/")`, `all(class_="verdict")`. Attributes are named as in
        `hookline.web.html.tag`."""
        wanted = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
        return [
            node
            for node in self.walk()
            if (name is None or node.name == name)
            and (class_ is None or class_ in node.attributes.get("class", "").split())
            and all(node.attributes.get(key) == value for key, value in wanted.items())
        ]

    def first(self, name: str | None = None, /, class_: str | None = None, **attributes: str) -> Node:
        found = self.all(name, class_, **attributes)
        assert found, f"no {name} {class_ or ''} {attributes} in {self.text[:2000]!r}"
        return found[0]

    def has(self, name: str | None = None, /, class_: str | None = None, **attributes: str) -> bool:
        return bool(self.all(name, class_, **attributes))

    # ── forms ──

    def form(self, action: str) -> Node:
        """Return the form with this action path. The query of the action is ignored."""
        for node in self.all("form"):
            if node.attributes.get("action", "").partition("?")[0] == action:
                return node
        raise AssertionError(f"no form to {action}: {[node.attributes.get('action') for node in self.all('form')]}")

    def fields(self) -> dict[str, list[str]]:
        """Return the fields that a browser would send if the form were submitted unchanged, without its buttons."""
        found: dict[str, list[str]] = {}
        for node in self.walk():
            name = node.attributes.get("name")
            if name is None or "disabled" in node.attributes:
                continue
            match node.name:
                case "input" if node.attributes.get("type") in ("checkbox", "radio"):
                    if "checked" in node.attributes:
                        found.setdefault(name, []).append(node.attributes.get("value", "on"))
                case "input":
                    found.setdefault(name, []).append(node.attributes.get("value", ""))
                case "textarea":
                    found.setdefault(name, []).append("".join(text for text in node.children if isinstance(text, str)))
                case "select":
                    options = node.all("option")
                    chosen = [option for option in options if "selected" in option.attributes] or options[:1]
                    found.setdefault(name, []).extend(option.attributes.get("value", "") for option in chosen)
        return found

    # ── tables ──

    def rows(self) -> list[list[str]]:
        """Return the text of every cell in the body of the first table."""
        body = self.first("tbody")
        return [[cell.text for cell in row.all("td")] for row in body.all("tr")]


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Node("#document", {})
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names), f"<{tag}> has an attribute twice: {names}"
        node = Node(tag, {name: value or "" for name, value in attrs})
        self._open[-1].children.append(node)
        if tag not in VOID:
            self._open.append(node)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open[-1].name == tag, f"</{tag}> closes <{self._open[-1].name}>"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        self._open[-1].children.append(data)


def parse(html: str) -> Node:
    """Parse a page. It fails if elements are not closed in order, or if an element has the same attribute twice."""
    builder = _Builder()
    builder.feed(html)
    builder.close()
    assert builder._open == [builder.root], f"not closed: {builder._open[1:]}"
    return builder.root
