"""Types of pages and actions.

Modules in `pages/` declare them, `app.py` serves them, `layout.py` draws the frame around them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import ClassVar, TypeVar
from urllib.parse import parse_qs

from msgspec import Struct
from starlette.responses import Response

from hookline.dashboard.page_context import PageContext
from hookline.errors import InvalidInput
from hookline.web.html import Child

MAX_FORM = 256 * 1024  # bytes of a posted form
MAX_FIELDS = 1000


class Page(Struct, frozen=True, kw_only=True):
    title: str
    body: Sequence[Child]
    aside: Child = None  # buttons and links beside the title
    rail: str | None = None  # the navigation entry to mark as current; None: the entry with the same path
    status: int = 200
    refresh: float | None = 3.0  # seconds between two updates of the live parts; None: the page never updates

    def update_interval(self, context: PageContext) -> float | None:
        """Return the seconds between two updates. Return None if the page has no live parts or `refresh` is None."""
        return self.refresh if context.regions else None


class Done(Struct, frozen=True, kw_only=True):
    """Result of an action that succeeded: the page to redirect to, and the notice to show there."""

    to: str  # URL from `context.link`
    notice: str


class Form:
    """The fields of a posted form."""

    def __init__(self, fields: Mapping[str, Sequence[str]]) -> None:
        self._fields = fields

    @classmethod
    def read(cls, raw: bytes) -> Form:
        try:
            found = parse_qs(raw.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS)
        except (UnicodeDecodeError, ValueError):
            raise InvalidInput("the form is not valid: it has too many fields, or it is not UTF-8") from None
        if any("\x00" in value for values in found.values() for value in values):
            raise InvalidInput("the form contains a NUL character; remove it")
        return cls(found)

    def text(self, name: str) -> str:
        """Return the value without spaces at both ends, or an empty text if the field is missing."""
        return self._fields.get(name, [""])[0].strip()

    def whole(self, name: str) -> str:
        """Return the value as the browser sent it, with its spaces and its line ends."""
        return self._fields.get(name, [""])[0]

    def values(self, name: str) -> list[str]:
        """Return all values of a field that may occur several times, without the empty ones."""
        return [value.strip() for value in self._fields.get(name, []) if value.strip()]

    def flag(self, name: str) -> bool:
        """Return whether a checkbox is checked."""
        return bool(self.text(name))


Show = Callable[[PageContext], Awaitable[Page | Response]]
Do = Callable[[PageContext, Form], Awaitable[Done | Page | Response]]


class View(Struct, frozen=True, kw_only=True):
    method: ClassVar[str] = "GET"
    path: str
    show: Show
    portal: bool = False  # the page is also served to customers in the portal
    deployment: bool = False  # only operators of the deployment see the page: it has data of all organizations


class Action(Struct, frozen=True, kw_only=True):
    """A POST that changes something.

    If the user can correct an error, `do` returns the form again with the typed values.
    """

    method: ClassVar[str] = "POST"
    path: str
    do: Do
    portal: bool = False


VIEWS: list[View] = []
ACTIONS: list[Action] = []

_Show = TypeVar("_Show", bound=Show)
_Do = TypeVar("_Do", bound=Do)


def get(path: str, *, portal: bool = False, deployment: bool = False) -> Callable[[_Show], _Show]:
    """Decorator of the function that shows the page at this path. `View` describes the options."""

    def declare(show: _Show) -> _Show:
        VIEWS.append(View(path=path, show=show, portal=portal, deployment=deployment))
        return show

    return declare


def post(path: str, *, portal: bool = False) -> Callable[[_Do], _Do]:
    """Decorator of the function that handles forms posted to this path."""

    def declare(do: _Do) -> _Do:
        ACTIONS.append(Action(path=path, do=do, portal=portal))
        return do

    return declare
