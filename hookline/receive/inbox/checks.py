"""Checks of arguments. They raise `InvalidInput` before anything is written."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from hookline.errors import InvalidInput
from hookline.receive.verify import Webhook

_LONGEST = 256  # characters: a scope and a key must fit into one entry of a PostgreSQL index
_MAX_DAYS = 366
_LARGEST_STEP = 100_000


def checked_key(key: object) -> str:
    if key is None:
        raise InvalidInput(
            "this webhook has no id of its own; give an id that all copies of the event share", field="key"
        )
    text = _text("key", key)
    if not text:
        raise InvalidInput("is empty; without an id, a copy cannot be recognised", field="key")
    return text


def checked_scope(scope: object) -> str:
    return _text("scope", scope)


def checked_event_type(event_type: object) -> str | None:
    return None if event_type is None else _text("event_type", event_type) or None


def checked_body(body: object) -> bytes:
    if not isinstance(body, bytes | bytearray | memoryview):
        raise InvalidInput(f"{type(body).__name__} is not bytes; give the body as it arrived", field="body")
    return bytes(body)


def kept_headers(webhook: object, names: Iterable[str]) -> dict[str, str]:
    """Return the named headers that the webhook has."""
    wanted = [names] if isinstance(names, str) else list(names)
    if wanted and not isinstance(webhook, Webhook):
        raise InvalidInput("only a verified webhook has headers; bytes have none", field="headers")
    found = webhook.headers if isinstance(webhook, Webhook) else {}
    return {name.lower(): found[name] for name in wanted if name in found}


def checked_age(older_than: float | timedelta) -> float:
    seconds = older_than.total_seconds() if isinstance(older_than, timedelta) else float(older_than)
    if not 0 <= seconds < float("inf"):
        raise InvalidInput("is not a timedelta or a number of seconds, 0 or more", field="older_than")
    return seconds


def checked_days(days: object) -> int:
    return _between("days", days, _MAX_DAYS)


def checked_step(limit: object) -> int:
    return _between("limit", limit, _LARGEST_STEP)


def checked_ids(ids: int | Iterable[int]) -> list[int]:
    return [checked_id(one) for one in ([ids] if isinstance(ids, int) else ids)]


def checked_id(number: object) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 1 << 63:
        raise InvalidInput("give the `id` of a dead event", field="id")
    return number


def _between(field: str, number: object, limit: int) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= limit:
        raise InvalidInput(f"is not a whole number from 1 to {limit}", field=field)
    return number


def _text(field: str, value: object) -> str:
    """Return a plain str: some drivers write a StrEnum by its name."""
    if not isinstance(value, str):
        raise InvalidInput(f"{type(value).__name__} is not a str", field=field)
    text = str.__str__(value)
    if len(text) > _LONGEST:
        raise InvalidInput(f"is longer than {_LONGEST} characters", field=field)
    if "\0" in text or not _is_utf8(text):
        raise InvalidInput("contains a NUL character or a lone surrogate", field=field)
    return text


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
