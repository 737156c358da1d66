"""Parsers for the values of settings. Each one takes a text and returns a value, or raises `ValueError` with what it accepts."""

from __future__ import annotations

import math
import os
import re
from enum import StrEnum
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import SplitResult, urlsplit

from hookline.errors import ConfigError
from hookline.rules.guard import Guard, Network
from hookline.rules.units import Parser, seconds_of, span
from hookline.signing.key_strength import weakness_of_text

E = TypeVar("E", bound=StrEnum)

MIN_JWT_SECRET = 32
MAX_JWT_SECRETS = 10
_FLAGS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def durations(lowest: float, highest: float, max_count: int) -> Parser:
    def parse(text: str) -> tuple[float, ...]:
        found = tuple(seconds_of(part) for part in _parts(text))
        if len(found) > max_count or not all(lowest <= seconds <= highest for seconds in found):
            raise ValueError(
                f"up to {max_count} durations of at most {span(highest)}, separated by commas, such as 5s,5m,1h"
            )
        return found

    return parse


def integer(lowest: int, highest: int) -> Parser:
    def parse(text: str) -> int:
        value = int(text) if re.fullmatch(r"[0-9]{1,18}", text, re.A) else -1
        if not lowest <= value <= highest:
            raise ValueError(f"a whole number from {lowest} to {highest}")
        return value

    return parse


def number(lowest: float, highest: float) -> Parser:
    def parse(text: str) -> float:
        value = float(text) if re.fullmatch(r"[0-9]{1,18}(\.[0-9]{1,18})?", text, re.A) else math.nan
        if not lowest <= value <= highest:
            raise ValueError(f"a number from {lowest:g} to {highest:g}")
        return value

    return parse


def choice(*names: str) -> Parser:
    def parse(text: str) -> str:
        if text.lower() not in names:
            raise ValueError(f"one of {', '.join(names)}")
        return text.lower()

    return parse


def member(kind: type[E]) -> Parser:
    names = choice(*kind)
    return lambda text: kind(names(text))


def flag(text: str) -> bool:
    if text.lower() not in _FLAGS:
        raise ValueError("true or false")
    return _FLAGS[text.lower()]


def share(text: str) -> float | int:
    """Parse a number of slots (a whole number) or a fraction of the slots (any other number)."""
    if re.fullmatch(r"[1-9][0-9]{0,5}", text, re.A):
        return int(text)
    return _fraction(text, 1, "a fraction of the slots, such as 0.25 or 25%, or a number of slots, such as 64")


def slots_fraction(text: str) -> float:
    return _fraction(text, 1, "a fraction of the slots, such as 0.75 or 75%; 1 means all slots")


def percentage(text: str) -> float:
    return _fraction(text, math.nextafter(1, 0), "a fraction below 1, such as 0.5 or 50%")


def _fraction(text: str, highest: float, accepts: str) -> float:
    scale = 0.01 if text.endswith("%") else 1.0
    digits = text.removesuffix("%")
    value = float(digits) * scale if re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,9})?", digits, re.A) else math.nan
    if not 0 < value <= highest:
        raise ValueError(accepts)
    return value


def networks(text: str) -> tuple[Network, ...]:
    try:
        found = tuple(ip_network(part) for part in _parts(text))
        Guard(found)
    except (ValueError, ConfigError) as error:
        raise ValueError(f"networks, separated by commas, such as 127.0.0.0/8,10.1.0.0/16 ({error})") from None
    return found


def ports(text: str) -> tuple[int, ...]:
    try:
        return tuple(integer(1, 65535)(part) for part in _parts(text))
    except ValueError:
        raise ValueError("ports from 1 to 65535, separated by commas, such as 6443,9200") from None


def proxies(text: str) -> tuple[Network, ...]:
    found = networks(text)
    if any(network.prefixlen == 0 for network in found):
        raise ValueError("networks of your own proxies; a network of all addresses is not allowed")
    return found


def servers(text: str) -> tuple[str, ...]:
    found = tuple(_parts(text))
    for server in found:
        try:
            parts = urlsplit(f"//{server if server.count(':') < 2 or server.startswith('[') else f'[{server}]'}")
            ip_address(parts.hostname or "")
            usable = parts.port != 0 and not (parts.path or parts.query or parts.username)
        except ValueError:
            usable = False
        if not usable:
            raise ValueError("addresses, separated by commas, such as 9.9.9.9,[2620:fe::fe]:53")
    return found


def existing_file(text: str) -> str | None:
    if text and not (Path(text).is_file() and os.access(text, os.R_OK)):
        raise ValueError("the path of a file that this process can read")
    return text or None


def host_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._:-]{1,253}", text):
        raise ValueError("an address or a host name, such as 127.0.0.1 or 0.0.0.0")
    return text


def site(text: str) -> str | None:
    """Parse the public URL. A path is refused: to a browser, other paths of the host are the same site and share its sessions."""
    parts = _web_parts(text) if text else None
    if text and (parts is None or parts.path.strip("/")):
        raise ValueError(
            "an address such as https://hooks.example.com, without a path: the pages need a host of their own"
        )
    return None if parts is None else _origin(parts)


def title(max_length: int) -> Parser:
    def parse(text: str) -> str:
        if len(text) > max_length or not text.isprintable():
            raise ValueError(f"a name of at most {max_length} characters")
        return text

    return parse


def color(text: str) -> str | None:
    if text and not re.fullmatch(r"#[0-9A-Fa-f]{6}", text):
        raise ValueError("a colour such as #1a73e8")
    return text.lower() or None


_ORIGIN = re.compile(
    r"https?://[a-z0-9.:\[\]-]+", re.A
)  # strict, because origins become part of a Content-Security-Policy


def origins(text: str) -> tuple[str, ...]:
    found = tuple(_parts(text))
    for origin in found:
        parts = _web_parts(origin)
        if parts is None or parts.path or not _ORIGIN.fullmatch(origin):
            raise ValueError("origins, separated by commas, such as https://portal.example.com,https://localhost:3000")
    return tuple(_origin(urlsplit(origin)) for origin in found)


def _origin(parts: SplitResult) -> str:
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


def jwt_secret(text: str) -> str:
    if text and (_is_short(text) or weakness_of_text(text)):
        raise ValueError(f"at least {MIN_JWT_SECRET} characters that nobody can guess (`openssl rand -base64 32`)")
    return text


def jwt_secrets(text: str) -> tuple[str, ...]:
    """Parse one or more secrets. Commas separate them only if at least two parts are long enough to be secrets.

    Otherwise the whole text is one secret, because earlier releases allowed commas within a secret.
    """
    parts = _parts(text)
    if sum(not _is_short(part) for part in parts) < 2:
        return (jwt_secret(text),) if text else ()
    secrets = tuple(map(jwt_secret, parts))
    if len(secrets) > MAX_JWT_SECRETS or len(set(secrets)) < len(secrets):
        raise ValueError(f"up to {MAX_JWT_SECRETS} different secrets, separated by commas")
    return secrets


def _is_short(secret: str) -> bool:
    return len(secret.encode("utf-8", "surrogateescape")) < MIN_JWT_SECRET


def metrics_token(text: str) -> str | None:
    if text and (not re.fullmatch(r"[\x21-\x7e]{16,1000}", text) or weakness_of_text(text)):
        raise ValueError("at least 16 visible ASCII characters that nobody can guess (`openssl rand -base64 32`)")
    return text or None


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


def hook_url(text: str) -> str | None:
    """Parse the URL of a webhook. The guard checks it later."""
    if text and (len(text) > 2048 or _url_parts(text, "http", "https") is None):
        raise ValueError("a URL such as https://hooks.example.com/alerts")
    return text or None


_EMAIL = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,253}", re.A)
MAX_EMAILS = 50


def emails(text: str) -> tuple[str, ...]:
    found = tuple(_parts(text))
    if len(found) > MAX_EMAILS or not all(_EMAIL.fullmatch(each) for each in found):
        raise ValueError(f"up to {MAX_EMAILS} addresses, separated by commas, such as ops@example.com")
    return found


def smtp_url(text: str) -> str | None:
    parts = _url_parts(text, "smtp", "smtps")
    if text and (parts is None or parts.path not in ("", "/") or parts.query):
        raise ValueError("smtp://user:password@host:587 or smtps://user:password@host")
    return text or None


def _parts(text: str) -> list[str]:
    return [part for part in (piece.strip() for piece in text.split(",")) if part]
