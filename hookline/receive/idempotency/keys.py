"""What the middleware asks of a store of keys, and what it is told. Pure.

A key is taken by whoever comes first (`begin`), under a lease and a token of the caller's own making; the holder renews the
lease while the handler runs, and ends it with the answer to keep (`finish`) or with none (`release`). A holder that died
leaves its lease, which runs out: the next copy of the same request takes the key over.

Every verb may be called again with the same token after its answer was lost: a second `begin` is as fresh as the first, a
second `finish` as true. So a call that was cancelled or failed half-way is made good by `release`, which is harmless
whatever had become of it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Protocol

import msgspec
from msgspec import Struct

from hookline.errors import HooklineError, InvalidInput

__all__ = [
    "ABANDONED",
    "Answer",
    "AsyncKeyStore",
    "Fresh",
    "InProgress",
    "KeyStore",
    "KeyStoreUnavailable",
    "Mismatch",
    "Replay",
    "StoredResponse",
    "checked_timeout",
    "decode",
    "encode",
    "key_of",
]

# Seconds for which a key whose holder died stays bound to its request, if nobody comes back for it.
ABANDONED = 96 * 3600.0


class KeyStoreUnavailable(HooklineError):
    """The store cannot be asked now. Nothing is known of the key: whether it was taken is for the next call to find out."""


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def key_of(scope: Sequence[str | bytes], given: str | bytes) -> bytes:
    """The stored form of the caller's key, 32 bytes however long that is: another tenant or route makes it another one."""
    digest = hashlib.sha256()
    for part in (*scope, given):
        raw = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(len(raw).to_bytes(8, "big"))  # so that ("ab", "c") and ("a", "bc") differ
        digest.update(raw)
    return digest.digest()


def checked_timeout(timeout: float) -> float:
    if not isinstance(timeout, int | float) or not 0 <= timeout < math.inf:
        raise InvalidInput("a number of seconds, 0 or more", field="timeout")
    return timeout


# ── answers ───────────────────────────────────────────────────────────────────────────────────────────────────────


class StoredResponse(Struct, frozen=True):
    status: int
    headers: tuple[tuple[bytes, bytes], ...]  # as they go on the wire, in their order, each as often as it came
    body: bytes


class Fresh(Struct, frozen=True):
    """The key is ours: run the handler."""

    run: int = 1  # 2 and more: the one before died, or lost its lease, and may have got anywhere


class Replay(Struct, frozen=True):
    """It was done before."""

    response: StoredResponse


class InProgress(Struct, frozen=True):
    """Somebody else holds the key."""

    retry_after: float  # seconds that are left of the lease, more than 0; it may end sooner, or be renewed


class Mismatch(Struct, frozen=True):
    """The key belongs to another request."""


Answer = Fresh | Replay | InProgress | Mismatch


# ── the stored form of a response ─────────────────────────────────────────────────────────────────────────────────

_VERSION = b"\x01"  # of what follows it: MessagePack of [status, [[name, value], ...], body]

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(tuple[int, tuple[tuple[bytes, bytes], ...], bytes])


def encode(response: StoredResponse) -> bytes:
    return _VERSION + _encoder.encode((response.status, response.headers, response.body))


def decode(raw: bytes) -> StoredResponse:
    """Fails closed: to run the handler again because its answer cannot be read would be a second effect."""
    if raw[:1] != _VERSION:
        raise KeyStoreUnavailable("the answer under this key was kept by another release of Hookline")
    try:
        status, headers, body = _decoder.decode(memoryview(raw)[1:])
    except msgspec.MsgspecError as error:
        raise KeyStoreUnavailable("the answer under this key cannot be read") from error
    return StoredResponse(status, headers, body)


# ── the stores ────────────────────────────────────────────────────────────────────────────────────────────────────


class KeyStore(Protocol):
    """`key` and `fingerprint` are digests, `token` is random: 32 and 16 bytes or so. `lease` and `ttl` are seconds.

    Every verb raises `KeyStoreUnavailable`, and nothing else, when the store cannot be asked. Safe in many threads.
    """

    def begin(self, key: bytes, fingerprint: bytes, *, token: bytes, lease: float) -> Answer:
        """Take the key: new, expired, ours already, or with a lease that ran out and the same fingerprint."""
        ...

    def renew(self, key: bytes, token: bytes, lease: float) -> bool:
        """The lease starts anew. False: the key is somebody else's by now, finished, or gone."""
        ...

    def finish(self, key: bytes, token: bytes, response: StoredResponse, ttl: float) -> bool:
        """Keep the answer for `ttl` seconds. False, and nothing is kept: the key is somebody else's by now, or gone."""
        ...

    def release(self, key: bytes, token: bytes) -> None:
        """Free the key, if it is ours and not finished."""
        ...

    def clean(self, limit: int) -> int:
        """Remove up to `limit` keys that have expired; how many there were."""
        ...


class AsyncKeyStore(Protocol):
    """`KeyStore`, awaited."""

    async def begin(self, key: bytes, fingerprint: bytes, *, token: bytes, lease: float) -> Answer: ...

    async def renew(self, key: bytes, token: bytes, lease: float) -> bool: ...

    async def finish(self, key: bytes, token: bytes, response: StoredResponse, ttl: float) -> bool: ...

    async def release(self, key: bytes, token: bytes) -> None: ...

    async def clean(self, limit: int) -> int: ...
