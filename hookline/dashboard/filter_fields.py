"""Reads the fields of a filter one by one, collects the errors by field, and shows the fields again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, TypeVar

from hookline.dashboard import components
from hookline.dashboard.parsers import instant
from hookline.errors import HooklineError, InvalidInput
from hookline.web.html import Safe

T = TypeVar("T")


class FilterFields:
    """The fields of a filter as the user typed them, and their errors.

    `get` returns the text of a field of a URL or a form. `names` are the fields of the filter.
    """

    def __init__(self, get: Callable[[str], str | None], names: Iterable[str]) -> None:
        self.typed = {name: value for name in names if (value := get(name))}  # the fields that are not empty
        self.errors: dict[str, HooklineError] = {}
        self.times: dict[str, datetime] = {}  # valid times, by field

    @property
    def error_texts(self) -> dict[str, str]:
        return {name: getattr(error, "words", str(error)) for name, error in self.errors.items()}

    def check(self) -> None:
        """Raise the error of the first invalid field, if there is one."""
        for error in self.errors.values():
            raise error

    def read(self, name: str, parse: Callable[[str, str], T]) -> T | None:
        """Call `parse` with the name and the text of a field. None: the field is missing or invalid."""
        text = self.typed.get(name)
        if text is None:
            return None
        try:
            return parse(name, text)
        except InvalidInput as error:
            self.errors[name] = InvalidInput(error.words, field=name)
            return None

    def time(self, name: str) -> datetime | None:
        """Read a field with a time. None: the field is missing or invalid."""
        found = self.read(name, instant)
        if found is not None:
            self.times[name] = found
        return found

    def field(self, name: str, words: str, **options: Any) -> Safe:
        """Show a text field with the text that was typed. `options` are passed to `components.field`."""
        return components.field(name, words, self.typed.get(name, ""), error=self.error_texts.get(name), **options)

    def moment(self, name: str, words: str) -> Safe:
        """Show a time field with the time that was typed."""
        return components.moment(name, words, self.times.get(name), error=self.error_texts.get(name))
