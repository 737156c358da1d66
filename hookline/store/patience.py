"""How long a caller waits for the database.

A request to the API waits only a few seconds, and gets 503 after that. The loops of a worker have no such limit: they
wait until a statement ends or reaches the engine's own timeout. The limit is a context variable. Otherwise every
method of the store would need a parameter for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar

from hookline.errors import StoreUnavailable

CALLER_SECONDS = 4.0  # default limit; callers are promised an answer within 5 seconds


class _Patience:
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.over = False  # True: one call took too long, so later calls of the same caller fail at once


_current: ContextVar[_Patience | None] = ContextVar("patience", default=None)


@contextmanager
def waiting_at_most(seconds: float) -> Iterator[None]:
    """Limit each call of the store within the block. After a call that reached the limit, further calls fail at
    once, so that the block as a whole does not wait much longer."""
    token = _current.set(_Patience(seconds))
    try:
        yield
    finally:
        _current.reset(token)


@asynccontextmanager
async def patiently() -> AsyncIterator[None]:
    """Cancel the block, which is one call of the store, when it reaches the limit of `waiting_at_most`."""
    patience = _current.get()
    if patience is None:
        yield
        return
    words = f"the database did not answer within {patience.seconds:g} s (HOOKLINE_DATABASE_TIMEOUT)"
    if patience.over:
        raise StoreUnavailable(words)
    try:
        async with asyncio.timeout(patience.seconds):
            yield
    except TimeoutError as error:
        patience.over = True
        raise StoreUnavailable(words) from error
