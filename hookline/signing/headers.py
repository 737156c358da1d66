"""The headers of a request, whatever a framework calls them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NoReturn

from hookline.errors import VerificationCode, VerificationError

__all__ = ["Headers"]

_LONGEST = 8192
_WITHOUT_HTTP = ("CONTENT_TYPE", "CONTENT_LENGTH")


class Headers(Mapping[str, str]):
    """Names in any case. Takes a dict, the headers of Starlette, Django, Flask, aiohttp and `http.server`, pairs of texts or of
    bytes (ASGI), or a WSGI environ. A header that came more than once is read as one, with commas; `field` refuses it."""

    __slots__ = ("_fields",)

    def __init__(self, source: object = ()) -> None:
        self._fields: dict[str, list[str]] = {}
        for name, value in _named(source):
            if value is not None:
                self._fields.setdefault(name, []).append(value)

    def __getitem__(self, name: str) -> str:
        return ", ".join(self._fields[name.lower()])

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __repr__(self) -> str:
        return f"Headers({', '.join(self)})"  # no values: some are credentials, and a repr ends up in logs

    def field(self, name: str) -> str:
        """The value of a header that is needed, once, in printable ASCII."""
        value = self.optional(name)
        if value is None:
            raise VerificationError(VerificationCode.MISSING_HEADER, f"the header {name} is missing")
        return value

    def optional(self, name: str, longest: int = _LONGEST) -> str | None:
        """The same, of one that may be missing."""
        values = self._fields.get(name.lower())
        if values is None:
            return None
        if len(values) > 1:
            _malformed(f"the header {name} was given more than once")
        (value,) = values
        if not (value.isascii() and value.isprintable() and 0 < len(value) <= longest):
            _malformed(f"the header {name} is malformed")
        return value


def _named(source: object) -> Iterator[tuple[str, str | None]]:
    is_environ = isinstance(source, Mapping) and "REQUEST_METHOD" in source
    for key, value in _pairs(source):
        name = _text(key)
        if is_environ:
            name = _from_environ(name)
        if name and name.isascii():  # beyond ASCII, lower() makes ordinary letters of others: a Kelvin sign becomes a k
            yield name.lower(), None if value is None else _text(value)


def _pairs(source: object) -> Iterator[tuple[object, object]]:
    items = getattr(source, "items", None)
    entries = items() if callable(items) else source
    if isinstance(entries, str | bytes) or not isinstance(entries, Iterable):
        _malformed("the headers must be a mapping or pairs")
    for entry in entries:
        if not isinstance(entry, tuple | list) or len(entry) != 2:
            _malformed("the headers must be a mapping or pairs")
        yield entry[0], entry[1]


def _from_environ(name: str) -> str:
    """Two have no HTTP_ in front, and come from some servers in both spellings. The rest of an environ are no headers."""
    bare = name.removeprefix("HTTP_")
    return bare.replace("_", "-") if (bare == name) == (bare in _WITHOUT_HTTP) else ""


def _text(value: object) -> str:
    """What is neither text nor bytes becomes the empty text, which no header that is read may have."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return value if isinstance(value, str) else ""


def _malformed(message: str) -> NoReturn:
    raise VerificationError(VerificationCode.MALFORMED_HEADER, message)
