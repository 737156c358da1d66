"""Reads the fields of a filter one by one, and collects the errors by field."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from hookline.errors import InvalidInput

T = TypeVar("T")
S = TypeVar("S", bound=str)


class FieldParser:
    def __init__(self, typed: Mapping[str, str]) -> None:
        self._typed = typed
        self.errors: dict[str, InvalidInput] = {}

    @property
    def error_texts(self) -> dict[str, str]:
        return {name: error.words for name, error in self.errors.items()}

    def read(self, name: str, parse: Callable[[str, str], T]) -> T | None:
        """Call `parse` with the name and the text of a field. None: the field is missing or invalid."""
        text = self._typed.get(name)
        if text is None:
            return None
        try:
            return parse(name, text)
        except InvalidInput as error:
            self.errors[name] = InvalidInput(error.words, field=name)
            return None


def one_of(name: str, text: str, allowed: Iterable[S]) -> S:
    """Return the allowed value that equals the text, such as a member of an enum."""
    found = {value: value for value in allowed}
    if text not in found:
        nothing = ", or nothing" if "" in found else ""
        raise InvalidInput(f"takes one of {', '.join(filter(None, found))}{nothing}", field=name)
    return found[text]
