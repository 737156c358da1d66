"""What the handlers work with: made once by whoever serves, and handed to `create_app`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime

from msgspec import Struct

from hookline.api.auth import Auth
from hookline.flow.guard import Guard
from hookline.model import Accepted, NewMessage
from hookline.store.base import Store


class Services(Struct, frozen=True, kw_only=True):
    store: Store
    submit: Callable[[NewMessage], Awaitable[Accepted]]  # group commit: answers once the message is durable
    auth: Auth
    guard: Guard
    wall: Callable[[], datetime]
    max_payload: int
    body_time: float = 30.0  # seconds in which a request's whole body must have come
