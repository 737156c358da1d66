"""Checks of arguments. They raise `InvalidInput` before anything is written."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from hookline.errors import InvalidInput
from hookline.receive.verify import Webhook
from hookline.rules.checks.text import check_text

# Maximum characters of each scope, key and event type. A scope and a key together must fit into one entry of a
# PostgreSQL index.
_LONGEST = 256


def check_key(key: object) -> str:
    if key is None:
        reason = "this webhook has no id of its own; give an id that all copies of the event share"
        raise InvalidInput(reason, field="key")
    text = check_str("key", key)
    if not text:
        raise InvalidInput("is empty; without an id, a copy cannot be recognised", field="key")
    return text


def check_event_type(event_type: object) -> str | None:
    return None if event_type is None else check_str("event_type", event_type) or None


def check_body(body: object) -> bytes:
    if not isinstance(body, bytes | bytearray | memoryview):
        raise InvalidInput(f"{type(body).__name__} is not bytes; give the body as it arrived", field="body")
    return bytes(body)


def check_headers(webhook: object, names: Iterable[str]) -> dict[str, str]:
    """Return the named headers that the webhook has."""
    wanted = [names] if isinstance(names, str) else list(names)
    if wanted and not isinstance(webhook, Webhook):
        raise InvalidInput("only a verified webhook has headers; bytes have none", field="headers")
    found = webhook.headers if isinstance(webhook, Webhook) else {}
    return {name.lower(): found[name] for name in wanted if name in found}


def check_age(older_than: float | timedelta) -> float:
    seconds = older_than.total_seconds() if isinstance(older_than, timedelta) else float(older_than)
    if not 0 <= seconds < float("inf"):
        raise InvalidInput("is not a timedelta or a number of seconds, 0 or more", field="older_than")
    return seconds


def check_ids(ids: int | Iterable[int]) -> list[int]:
    return [check_id(one) for one in ([ids] if isinstance(ids, int) else ids)]


def check_id(number: object) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 1 << 63:
        raise InvalidInput("give the `id` of a dead event", field="id")
    return number


def check_str(field: str, value: object) -> str:
    """Return a plain str: some drivers write a StrEnum by its name."""
    if not isinstance(value, str):
        raise InvalidInput(f"{type(value).__name__} is not a str", field=field)
    return check_text(field, str.__str__(value), _LONGEST)
