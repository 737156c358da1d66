"""Database URLs: which are accepted, what they lead to, and how they are shown."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote


def database_url(text: str) -> str:
    takes = "sqlite:///file.db, sqlite:////absolute/file.db or postgresql://user@host/database"
    path = sqlite_path(text)
    if path is not None:
        if path.name in ("", ":memory:") or "\x00" in str(path):
            raise ValueError(takes + " (a file: memory is not shared with the other processes)")
        return text
    scheme, found, rest = text.partition("://")
    if scheme not in ("postgresql", "postgres") or not found or not rest:
        raise ValueError(takes)
    return text


_NEXT_URL = re.compile(r"\s*,\s*(?=(?:sqlite|postgres(?:ql)?):)")  # commas also stand between the hosts of one URL


def outbox_urls(text: str) -> tuple[str, ...]:
    found = tuple(_NEXT_URL.split(text.strip(", "))) if text.strip(", ") else ()
    for url in found:
        _check_outbox_url(url)
    if any(same_database(a, b) for at, a in enumerate(found) for b in found[:at]):
        raise ValueError("each database once")
    return found


def _check_outbox_url(url: str) -> None:
    try:
        database_url(url)
    except ValueError as takes:
        raise ValueError(f"databases, separated by commas, each as {takes}") from None
    if url.startswith("sqlite:") and "," in url:
        raise ValueError("databases, separated by commas, each with its sqlite:/// (a comma in a file's name is %2C)")


def same_database(one: str, other: str) -> bool:
    """As far as their spelling tells."""
    return _database(one) == _database(other)


def _database(url: str) -> tuple[str, ...]:
    """What it leads to, whoever goes there and with which options."""
    path = sqlite_path(url)
    if path is not None:
        return ("sqlite", str(path.resolve()))
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
    """A database URL for people, without user, password and options. One that could be read in two ways is not shown."""
    if sqlite_path(url) is not None:
        return url
    plain = _PLAIN_URL.fullmatch(url)
    return plain[1] + plain[2] if plain else "postgresql://…"
