"""Decide whether the URL path of a request is below one of the paths in a setting (the entries), however the request
spells it. No I/O.

Servers, proxies and routers interpret paths differently: Starlette's `^/hooks$` also matches `/hooks` with a line
break after it, Litestar removes double slashes, and a pattern may ignore case. If a router sent a request to the
handler of an entry, but this module did not recognize the path, the request could bypass the verifier. So this module
tries every interpretation of a path. The path is below an entry if one of its interpretations is below the entry. As a
consequence, a request for another page may need a signature if its path has an odd spelling.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from urllib.parse import unquote
from uuid import UUID

_PASSES = 3  # versions of a path that are examined: as received, percent-decoded once, and percent-decoded twice
_LONGEST = 2048  # characters; a longer path counts as below every entry, unless `_is_ordinary` matches it

_is_ordinary = re.compile(r"(?:/[a-zA-Z0-9_-]+(?:\.[a-zA-Z0-9_-]+)*)+").fullmatch
_is_entry = re.compile(r"/[\w\-.~/@:+,=!&']*").fullmatch
_is_escaped = re.compile(r"(?:[^%]|%[0-9A-Fa-f]{2})*").fullmatch
_has_dots = re.compile(r"/\.{1,2}(?:/|$)").search
_slashes = re.compile(r"[/\\]+")
# The scheme and host of a request target in absolute form, such as `http://host` in `POST http://host/hooks`.
_origin = re.compile(r"\A[/\\]*[a-z][a-z0-9+.-]*:[/\\]+[^/\\]+")
_params = re.compile(r";[^/\\]*")
_has_digit = re.compile(r"\d").search
_zeros = re.compile(r"\A([+-]?)0+(?=\d)")  # removes leading zeros, because int() refuses a text of very many digits
_zeros_before_minus = re.compile(r"\A\+?0+(?=-)")  # Pydantic reads `0-7` as -7
_goes_on = re.compile(r"[a-z0-9_-]").match  # `/hooks-old` is not below `/hooks`; `/hooks.json` and `/hooks;v=1` are


def is_below(path: str, entries: Iterable[str], *, ends: bool = True) -> bool:
    """Return whether the path is below one of the entries. By default, `/hooksy` is not below `/hooks`. If `ends` is
    False, every path that starts with an entry is below it."""
    prefixes = [_prefix(entry) for entry in entries]
    if "" in prefixes or (len(path) > _LONGEST and not _is_ordinary(path)):
        return True
    return any(_starts_with(reading, prefix, ends) for reading in _readings(path) for prefix in prefixes)


def _starts_with(reading: str, prefix: str, ends: bool) -> bool:
    if reading.startswith(prefix) and not (ends and _goes_on(reading, len(prefix))):
        return True
    depth = prefix.count("/") + 1
    return _valued("/".join(reading.split("/", depth)[:depth])) == _valued(prefix)


def plain_path(entry: object) -> bool:
    """Return whether an entry is a plain path. A pattern (`/hooks/*`, `/hooks/{name}`) would match no request."""
    if not isinstance(entry, str) or not _is_escaped(entry):
        return False
    decoded = unquote(entry)
    return bool(_is_entry(decoded)) and not _has_dots(decoded)


def key_path(path: str) -> str:
    """Return one form for all spellings of a path, so that a copy of a signed request with another spelling has the
    same key."""
    return _valued(_loosest(path))


def _loosest(path: str) -> str:
    *_, loosest = _readings(path)
    return loosest


_prefix = lru_cache(maxsize=256)(_loosest)  # for the entries of the settings only; paths of requests are not cached


def same_path(path: str) -> str:
    """Return the path with normalized slashes and without control characters. Other differences stay.

    The result is a part of a request's fingerprint, which distinguishes requests with the same key.
    """
    return _joined("".join(filter(str.isprintable, path)))


def _valued(path: str) -> str:
    return "/".join(map(_value, path.split("/")))


def _value(name: str) -> str:
    """Return one form for all spellings of a number (`7`, `+07`, `7.0`) or of a UUID (with or without dashes)."""
    if not _has_digit(name):
        return name
    digits = name
    with suppress(ValueError):
        name, digits = str(UUID(name)), UUID(name).hex  # a UUID of 32 decimal digits can also be a number: see below
    # Pydantic allows underscores anywhere in a number, so they are removed.
    number = _zeros.sub(r"\1", _zeros_before_minus.sub("", digits.replace("_", "")))
    whole, _, fraction = number.partition(".")
    with suppress(ValueError):
        return str(int(number if fraction.strip("0") else whole))
    with suppress(ValueError):
        value = float(number)
        return str(int(value) if value.is_integer() else value)
    return name


# ── interpretations of a path ─────────────────────────────────────────────────────────────────────────────────────


def _readings(path: str) -> Iterator[str]:
    """Yield every form of the path that a server or router may use to find the handler.

    The first form differs least from the path, the last form differs most.
    """
    if _is_ordinary(path):
        yield path.lower()
        return
    for _ in range(_PASSES):
        yield from _of_one_level(_folded(path))
        path, before = unquote(path), path
        if path == before:
            return


def _of_one_level(text: str) -> Iterator[str]:
    visible = "".join(char for char in text if char.isprintable() and char not in " \ufffd")
    for spelling in dict.fromkeys((text, visible, _origin.sub("", visible))):
        yield _joined(spelling)
        named = _joined(_params.sub("", spelling))
        yield named
        yield _resolved(named)


def _folded(text: str) -> str:
    """Return the text without differences of case, and with plain letters instead of special forms such as full-width
    ones.

    Each character is normalized alone, because normalizing a long text at once takes quadratic time.
    """
    if not text.isascii():
        text = "".join(unicodedata.normalize("NFKD", char) for char in text)
    return text.casefold()


def _joined(path: str) -> str:
    """Return the path with a leading slash, without a trailing slash and without double slashes."""
    return _slashes.sub("/", f"/{path}").rstrip("/")


def _resolved(path: str) -> str:
    kept: list[str] = []
    for name in path.split("/"):
        if name == "..":
            del kept[-1:]
        elif name not in ("", "."):
            kept.append(name)
    return "".join(f"/{name}" for name in kept)
