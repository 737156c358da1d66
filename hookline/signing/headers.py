"""Reads the headers of a request in the forms that the web frameworks use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from hookline.errors import VerificationCode, VerificationError

_MAX_LENGTH = 8192  # maximum characters of a header's value
_WITHOUT_HTTP = ("CONTENT_TYPE", "CONTENT_LENGTH")  # headers whose names in a WSGI environ have no prefix HTTP_


class Headers(Mapping[str, str]):
    """The headers of a request. Names are not case-sensitive.

    The source may be a dict, the headers of Starlette, Django, Flask, aiohttp or `http.server`, pairs of strings or of
    bytes (ASGI), or a WSGI environ. The values of a repeated header are joined with commas; `field` refuses such a
    header.
    """

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
        return f"Headers({', '.join(self)})"  # no values: some are credentials, and logs may contain this text

    def field(self, name: str) -> str:
        """Return the value of a required header. Raises `VerificationError` if it is missing, repeated or not
        printable ASCII."""
        value = self.optional(name)
        if value is None:
            raise VerificationError(VerificationCode.MISSING_HEADER, f"the header {name} is missing")
        return value

    def optional(self, name: str, max_length: int = _MAX_LENGTH) -> str | None:
        """Return the value of an optional header, or None. Raises `VerificationError` if it is repeated or
        malformed."""
        values = self._fields.get(name.lower())
        if values is None:
            return None
        if len(values) > 1:
            raise malformed(f"the header {name} was given more than once")
        (value,) = values
        if not (value.isascii() and value.isprintable() and 0 < len(value) <= max_length):
            raise malformed(f"the header {name} is malformed")
        return value


def _named(source: object) -> Iterator[tuple[str, str | None]]:
    is_environ = isinstance(source, Mapping) and "REQUEST_METHOD" in source
    for key, value in _pairs(source):
        name = _text(key)
        if is_environ:
            name = _from_environ(name)
        if name and name.isascii():  # lower() turns some other characters into ASCII letters: a Kelvin sign becomes a k
            yield name.lower(), None if value is None else _text(value)


def _pairs(source: object) -> Iterator[tuple[object, object]]:
    items = getattr(source, "items", None)
    entries = items() if callable(items) else source
    if isinstance(entries, str | bytes) or not isinstance(entries, Iterable):
        raise malformed("the headers must be a mapping or pairs")
    for entry in entries:
        if not isinstance(entry, tuple | list) or len(entry) != 2:
            raise malformed("the headers must be a mapping or pairs")
        yield entry[0], entry[1]


def _from_environ(name: str) -> str:
    """Return the header name for a key of a WSGI environ, or an empty string if the key is not a header.

    Some servers give the content headers under two keys, with and without HTTP_. Only the key without it counts.
    """
    bare = name.removeprefix("HTTP_")
    return bare.replace("_", "-") if (bare == name) == (bare in _WITHOUT_HTTP) else ""


def _text(value: object) -> str:
    """Return a string as it is, and decode bytes. Any other type becomes an empty string, which `optional` refuses."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return value if isinstance(value, str) else ""


def malformed(message: str) -> VerificationError:
    """Return the error for a header that is present but malformed."""
    return VerificationError(VerificationCode.MALFORMED_HEADER, message)
