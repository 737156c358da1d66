"""Parsers for the values of settings. Each takes a text and returns a value. `ValueError` says which values it
accepts."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from enum import StrEnum
from ipaddress import ip_address, ip_network
from typing import Any, TypeVar
from urllib.parse import SplitResult, urlsplit

from hookline.errors import ConfigError
from hookline.rules.guard import Guard, Network
from hookline.rules.units import Parser, duration, span
from hookline.signing.key_strength import weakness_of_text

E = TypeVar("E", bound=StrEnum)

MIN_JWT_SECRET = 32
MAX_JWT_SECRETS = 10
MAX_EMAILS = 50
_FLAGS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
# The pattern is strict, because origins become part of a Content-Security-Policy.
_ORIGIN = re.compile(r"https?://[a-z0-9.:\[\]-]+", re.A)


# ── functions that make parsers ───────────────────────────────────────────────────────────────────────────────────


def several(parse: Parser, accepts: str, max_count: float = math.inf) -> Parser:
    """Return a parser for values that are separated by commas. It returns a tuple."""

    def parse_all(text: str) -> tuple[Any, ...]:
        try:
            values = tuple(map(parse, _parts(text)))
        except ValueError:
            raise ValueError(accepts) from None
        if len(values) > max_count:
            raise ValueError(accepts)
        return values

    return parse_all


def or_off(parse: Parser) -> Parser:
    """Return a parser that also accepts `0` and `off`, and returns 0 for both."""

    def parse_or_off(text: str) -> Any:
        if text.lower() in ("0", "off"):
            return 0
        try:
            return parse(text)
        except ValueError as accepts:
            raise ValueError(f"{accepts}, or off") from None

    return parse_or_off


def text_if(is_valid: Callable[[str], object], accepts: str) -> Parser:
    """Return a parser that returns the text itself if it is valid."""

    def parse(text: str) -> str:
        if not is_valid(text):
            raise ValueError(accepts)
        return text

    return parse


def matching(pattern: str, accepts: str) -> Parser:
    """Return a parser for texts that match a regular expression."""
    return text_if(re.compile(pattern, re.A).fullmatch, accepts)


# ── numbers and words ─────────────────────────────────────────────────────────────────────────────────────────────


def _between(lowest: float, highest: float, pattern: str, read: Callable[[str], float], accepts: str) -> Parser:
    """Return a parser for numbers from `lowest` to `highest` whose text matches the regular expression `pattern`."""

    def parse(text: str) -> float:
        value = read(text) if re.fullmatch(pattern, text, re.A) else math.nan
        if not lowest <= value <= highest:
            raise ValueError(accepts)
        return value

    return parse


def integer(lowest: int, highest: int) -> Parser:
    return _between(lowest, highest, "[0-9]{1,18}", int, f"a whole number from {lowest} to {highest}")


def number(lowest: float, highest: float) -> Parser:
    accepts = f"a number from {lowest:g} to {highest:g}"
    return _between(lowest, highest, r"[0-9]{1,18}(\.[0-9]{1,18})?", float, accepts)


def fraction(highest: float, accepts: str) -> Parser:
    """Return a parser for a number above 0 and up to `highest`, such as `0.25` or `25%`."""
    return _between(math.nextafter(0, 1), highest, r"[0-9]{1,3}(\.[0-9]{1,9})?%?", _read_fraction, accepts)


def _read_fraction(text: str) -> float:
    return float(text.removesuffix("%")) * (0.01 if text.endswith("%") else 1.0)


slots_fraction = fraction(1, "a fraction of the slots, such as 0.75 or 75%; 1 means all slots")
percentage = fraction(math.nextafter(1, 0), "a fraction below 1, such as 0.5 or 50%")
_share = fraction(1, "a fraction of the slots, such as 0.25 or 25%, or a number of slots, such as 64")


def share(text: str) -> float | int:
    """Parse a number of slots (a whole number) or a fraction of the slots (any other number)."""
    return int(text) if re.fullmatch(r"[1-9][0-9]{0,5}", text, re.A) else _share(text)


def durations(lowest: float, highest: float, max_count: int) -> Parser:
    accepts = f"up to {max_count} durations of at most {span(highest)}, separated by commas, such as 5s,5m,1h"
    return several(duration(lowest, highest), accepts, max_count)


def flag(text: str) -> bool:
    if text.lower() not in _FLAGS:
        raise ValueError("true or false")
    return _FLAGS[text.lower()]


def choice(*names: str) -> Parser:
    def parse(text: str) -> str:
        if text.lower() not in names:
            raise ValueError(f"one of {', '.join(names)}")
        return text.lower()

    return parse


def member(kind: type[E]) -> Parser:
    names = choice(*kind)
    return lambda text: kind(names(text))


def title(max_length: int) -> Parser:
    accepts = f"a name of at most {max_length} characters"
    return text_if(lambda text: len(text) <= max_length and text.isprintable(), accepts)


existing_file = text_if(
    # `Path.is_file` raises an error for a name that is too long.
    lambda text: os.path.isfile(text) and os.access(text, os.R_OK),  # noqa: PTH113
    "the path of a file that this process can read",
)
_color = matching(r"#[0-9A-Fa-f]{6}", "a colour such as #1a73e8")


def color(text: str) -> str:
    return str(_color(text)).lower()


# ── networks and addresses ────────────────────────────────────────────────────────────────────────────────────────


host_name = matching(r"[A-Za-z0-9._:-]{1,253}", "an address or a host name, such as 127.0.0.1 or 0.0.0.0")
ports = several(integer(1, 65535), "ports from 1 to 65535, separated by commas, such as 6443,9200")


def networks(text: str) -> tuple[Network, ...]:
    try:
        found = tuple(map(ip_network, _parts(text)))
        Guard(found)
    except (ValueError, ConfigError) as error:
        raise ValueError(f"networks, separated by commas, such as 127.0.0.0/8,10.1.0.0/16 ({error})") from None
    return found


def proxies(text: str) -> tuple[Network, ...]:
    found = networks(text)
    if any(network.prefixlen == 0 for network in found):
        raise ValueError("networks of your own proxies; a network of all addresses is not allowed")
    return found


def _server(text: str) -> str:
    parts = urlsplit(f"//{text if text.count(':') < 2 or text.startswith('[') else f'[{text}]'}")
    ip_address(parts.hostname or "")
    if parts.port == 0 or parts.path or parts.query or parts.username:
        raise ValueError
    return text


servers = several(_server, "addresses, separated by commas, such as 9.9.9.9,[2620:fe::fe]:53")

emails = several(
    matching(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,253}", "an address"),
    f"up to {MAX_EMAILS} addresses, separated by commas, such as ops@example.com",
    MAX_EMAILS,
)


# ── URLs ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def site(text: str) -> str:
    """Parse the public URL. A URL with a path is refused: for a browser, all paths of a host are one site, so other
    pages on that host could use the sessions of the dashboard."""
    parts = _web_parts(text)
    if parts is None or parts.path.strip("/"):
        raise ValueError(
            "an address such as https://hooks.example.com, without a path: the pages need a host of their own"
        )
    return _as_browsers_send_it(parts)


def _origin(text: str) -> str:
    parts = _web_parts(text)
    if parts is None or parts.path or not _ORIGIN.fullmatch(text):
        raise ValueError
    return _as_browsers_send_it(parts)


origins = several(_origin, "origins, separated by commas, such as https://portal.example.com,https://localhost:3000")


def _as_browsers_send_it(parts: SplitResult) -> str:
    """Return the origin in the form that browsers send: lower case, and without the default port."""
    host = (parts.netloc if parts.port is None else parts.netloc.rpartition(":")[0]).rstrip(":")
    default_port = {"http": 80, "https": 443}[parts.scheme]
    port = "" if parts.port in (None, default_port) else f":{parts.port}"
    return f"{parts.scheme}://{host.lower()}{port}"


def _web_parts(text: str) -> SplitResult | None:
    return None if re.search(r"[?#@\"'<>\\]", text) else _url_parts(text, "http", "https")


def _url_parts(text: str, *schemes: str) -> SplitResult | None:
    try:
        parts = urlsplit(text)
        usable = parts.scheme in schemes and parts.hostname and parts.port != 0
    except ValueError:
        return None
    return parts if usable and re.fullmatch(r"[\x21-\x7e]+", text) else None


# `hook_url` checks only the form of the URL. `parse` in `environment.py` also checks the URL with the guard.
hook_url = text_if(
    lambda text: len(text) <= 2048 and _url_parts(text, "http", "https"),
    "a URL such as https://hooks.example.com/alerts",
)


def _is_smtp_url(text: str) -> bool:
    parts = _url_parts(text, "smtp", "smtps")
    return parts is not None and parts.path in ("", "/") and not parts.query


smtp_url = text_if(_is_smtp_url, "smtp://user:password@host:587 or smtps://user:password@host")


# ── secrets ───────────────────────────────────────────────────────────────────────────────────────────────────────


def jwt_secrets(text: str) -> tuple[str, ...]:
    """Parse one or more secrets. Commas separate them only if at least two parts are long enough to be secrets.

    Otherwise the whole text is one secret, because earlier releases allowed commas within a secret.
    """
    parts = _parts(text)
    if sum(not _is_short(part) for part in parts) < 2:
        parts = [text] if text else []
    if any(_is_short(part) or weakness_of_text(part) for part in parts):
        raise ValueError(f"at least {MIN_JWT_SECRET} characters that nobody can guess (`openssl rand -base64 32`)")
    if len(parts) > MAX_JWT_SECRETS or len(set(parts)) < len(parts):
        raise ValueError(f"up to {MAX_JWT_SECRETS} different secrets, separated by commas")
    return tuple(parts)


def _is_short(secret: str) -> bool:
    return len(secret.encode("utf-8", "surrogateescape")) < MIN_JWT_SECRET


metrics_token = text_if(
    lambda text: re.fullmatch(r"[\x21-\x7e]{16,1000}", text) and not weakness_of_text(text),
    "at least 16 visible ASCII characters that nobody can guess (`openssl rand -base64 32`)",
)


def secret_keys(text: str) -> tuple[str, ...]:
    from hookline.security.vault import Vault, check_sealing

    keys = tuple(_parts(text))
    if keys:
        try:
            Vault(keys)
            check_sealing(keys[0])
        except ConfigError as error:
            raise ValueError(f"one or more keys, separated by commas ({error})") from None
    return keys


def _parts(text: str) -> list[str]:
    return [part for part in (piece.strip() for piece in text.split(",")) if part]
