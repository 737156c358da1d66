"""What the services of dead letters and replays still take from here. Goes with them."""

from __future__ import annotations

from hookline import ids
from hookline.errors import InvalidInput, NoSuch
from hookline.model import Application, Endpoint
from hookline.store.base import Store


async def find_endpoint(store: Store, app: Application, ref: str) -> Endpoint:
    found = await store.endpoint(app.no, ref)
    if found is None:
        raise NoSuch("endpoint", ref)
    return found


def dead_letter_number(text: str) -> int:
    """`dl_17` or `17` → 17."""
    digits = text.removeprefix(ids.DEAD_LETTER)
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise InvalidInput(f"{text!r} is not the id of a dead letter (such as {ids.DEAD_LETTER}17)")
    return int(digits)
