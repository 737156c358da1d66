"""What pages and actions are: the modules of `pages/` list them, `app.py` serves them, `frame.py` draws around them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from urllib.parse import parse_qs

from msgspec import Struct
from starlette.responses import Response

from hookline.dashboard.page_context import PageContext
from hookline.errors import InvalidInput
from hookline.web.html import Child

MAX_FORM = 256 * 1024  # bytes
MAX_FIELDS = 1000


class Page(Struct, frozen=True, kw_only=True):
    title: str
    body: Sequence[Child]
    aside: Child = None  # beside the title: what can be done here
    rail: str = ""  # which entry of the rail it belongs to
    status: int = 200
    every: float | None = 3.0  # seconds between two looks at what changed in its live parts; None: it stays as it is


class Done(Struct, frozen=True, kw_only=True):
    """An action that was done: where to go now, and what to say there."""

    to: str  # made by `context.link`
    notice: str


class Form:
    """The fields of a form that was posted."""

    def __init__(self, fields: Mapping[str, Sequence[str]]) -> None:
        self._fields = fields

    @classmethod
    def read(cls, raw: bytes) -> Form:
        try:
            found = parse_qs(raw.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS)
        except (UnicodeDecodeError, ValueError):
            raise InvalidInput("the form cannot be read") from None
        if any("\x00" in value for values in found.values() for value in values):
            raise InvalidInput("the form has a NUL, which no field takes")
        return cls(found)

    def text(self, name: str) -> str:
        """Without spaces around it; empty if it is not there."""
        return self._fields.get(name, [""])[0].strip()

    def whole(self, name: str) -> str:
        """As it came; line ends are those of the browser."""
        return self._fields.get(name, [""])[0]

    def texts(self, name: str) -> list[str]:
        return [value.strip() for value in self._fields.get(name, []) if value.strip()]

    def flag(self, name: str) -> bool:
        """A checkbox."""
        return bool(self.text(name))


Show = Callable[[PageContext], Awaitable[Page | Response]]
Do = Callable[[PageContext, Form], Awaitable[Done | Page | Response]]


class View(Struct, frozen=True, kw_only=True):
    path: str
    show: Show
    portal: bool = False  # customers have it too
    deployment: bool = False  # it tells of every organization: for those who run the deployment


class Action(Struct, frozen=True, kw_only=True):
    """A POST that changes something. Errors that a form can mend are for `do` to show in it, with what was typed."""

    path: str
    do: Do
    portal: bool = False
