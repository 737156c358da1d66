"""Parses, compares and displays database URLs."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote


def database_url(text: str) -> str:
    accepts = "sqlite:///file.db, sqlite:////absolute/file.db or postgresql://user@host/database"
    path = sqlite_path(text)
    if path is not None:
        if path.name in ("", ":memory:") or "\x00" in str(path):
            raise ValueError(accepts + " (it must be a file, because processes cannot share a database in memory)")
        return text
    scheme, _, rest = text.partition("://")
    if scheme not in ("postgresql", "postgres") or not rest:
        raise ValueError(accepts)
    return text


_NEXT_URL = re.compile(r"\s*,\s*(?=(?:sqlite|postgres(?:ql)?):)")  # other commas separate hosts within a URL


def outbox_urls(text: str) -> tuple[str, ...]:
    found = tuple(_NEXT_URL.split(text.strip(", "))) if text.strip(", ") else ()
    for url in found:
        _check_outbox_url(url)
    if any(same_database(a, b) for at, a in enumerate(found) for b in found[:at]):
        raise ValueError("different databases; one of them is listed twice")
    return found


def _check_outbox_url(url: str) -> None:
    try:
        database_url(url)
    except ValueError as accepts:
        raise ValueError(f"databases, separated by commas, each as {accepts}") from None
    if url.startswith("sqlite:") and "," in url:
        raise ValueError(
            "databases, separated by commas, each with its sqlite:/// (write a comma in a file name as %2C)"
        )


def same_database(one: str, other: str) -> bool:
    """Return whether the URLs `one` and `other` name the same database. Only their text is compared."""
    return _database(one) == _database(other)


def _database(url: str) -> tuple[str, ...]:
    """Return the file, or the hosts and the database name, without user and options."""
    path = sqlite_path(url)
    if path is not None:
        return ("sqlite", os.path.realpath(path))  # `Path.resolve` raises an error for a loop of links
    rest = url.partition("://")[2].partition("#")[0].partition("?")[0]
    hosts, _, name = rest.rpartition("@")[2].partition("/")
    return ("postgresql", *sorted(_host(host) for host in hosts.split(",")), name)


def _host(text: str) -> str:
    name, _, port = text.rpartition(":") if re.search(r":[0-9]*$", text) else (text, "", "")
    return f"{name.lower()}:{port or 5432}"


def sqlite_path(url: str) -> Path | None:
    return Path(unquote(url.removeprefix("sqlite:///"))) if url.startswith("sqlite:///") else None


_PLAIN_URL = re.compile(r"(postgres(?:ql)?://)(?:[^@/?#]*@)?([\w.:,\[\]-]*(?:/[\w-]*)?)(?:\?[^@]*)?", re.A)


def shown_url(url: str) -> str:
    """Return a database URL without user, password and options, for display. An ambiguous URL is hidden completely."""
    if sqlite_path(url) is not None:
        return url
    plain = _PLAIN_URL.fullmatch(url)
    return plain[1] + plain[2] if plain else "postgresql://…"
