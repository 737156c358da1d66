"""The interface of the stores of idempotency keys, and the data types that it uses. No I/O.

The first request with a key takes it with `begin`, for the time of a lease and with a random token. The holder renews
the lease while the handler runs. It ends the hold with `finish`, which saves the response, or with `release`, which
frees the key. If the holder dies, the lease ends, and the next copy of the request takes the key over.

Each method may be called again with the same token if its result was lost: a second `begin` returns Fresh again, and a
second `finish` returns True again. After a call that was cancelled or failed, `release` is always safe.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from hookline.errors import HooklineError, InvalidInput
from hookline.outbox.coroutines import run_sync

# If the holder of a key died and no copy of its request arrives, the store keeps the key for this many seconds after
# the lease has ended. Until then, a different request with the key is refused.
ABANDONED = 96 * 3600.0


class KeyStoreUnavailable(HooklineError):
    """The store is not available. It is unknown whether the call had an effect. It is safe to repeat the call."""


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def key_of(scope: Sequence[str | bytes], given: str | bytes) -> bytes:
    """Return a hash of the scope and the given key: 32 bytes. The same key in another scope has another hash."""
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


class StoredResponse(Struct, frozen=True, array_like=True):
    status: int
    headers: tuple[tuple[bytes, bytes], ...]  # in the order of the response; a name may occur several times
    body: bytes

    def text_headers(self) -> list[tuple[str, str]]:
        return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in self.headers]


class Fresh(Struct, frozen=True):
    """The caller holds the key now: run the handler."""

    run: int = 1  # above 1: an earlier holder died or lost its lease, and its handler may have run in part


class Replay(Struct, frozen=True):
    """The request was handled before."""

    response: StoredResponse


class InProgress(Struct, frozen=True):
    """Another request holds the key."""

    retry_after: float  # seconds until the lease ends, above 0; the holder may finish earlier, or renew the lease


class Mismatch(Struct, frozen=True):
    """The key was used for a different request."""


Answer = Fresh | Replay | InProgress | Mismatch


def answer_of(verdict: str, value: Any) -> Answer:
    """Make the answer of `begin` from the verdict that a database returned and its value."""
    match verdict:
        case "fresh":
            return Fresh(value)
        case "replay":
            return Replay(decode(value))
        case "in_progress":
            return InProgress(value)
        case _:
            return Mismatch()


# ── the stored form of a response ─────────────────────────────────────────────────────────────────────────────────

_VERSION = b"\x01"  # version of the format: MessagePack of [status, [[name, value], ...], body] follows

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(StoredResponse)


def encode(response: StoredResponse) -> bytes:
    return _VERSION + _encoder.encode(response)


def decode(raw: bytes) -> StoredResponse:
    """Decode a saved response.

    If the response cannot be read, raise an error: if the handler ran again, the request would have two effects.
    """
    if raw[:1] != _VERSION:
        raise KeyStoreUnavailable("the response of this key was saved by another release of Hookline")
    try:
        return _decoder.decode(memoryview(raw)[1:])
    except msgspec.MsgspecError as error:
        raise KeyStoreUnavailable("the saved response of this key cannot be read") from error


# ── the stores ────────────────────────────────────────────────────────────────────────────────────────────────────


class KeyStore(Protocol):
    """A store of keys. Threads may share it.

    `key` and `fingerprint` are hashes of 32 bytes, and `token` is 16 random bytes. `lease` and `ttl` are seconds. If
    the store is not available, every method raises `KeyStoreUnavailable` and no other error.
    """

    def begin(self, key: bytes, fingerprint: bytes, *, token: bytes, lease: float) -> Answer:
        """Try to take the key. Return `Fresh` if it was taken, and otherwise why not.

        `Fresh`: the key is taken. It was unknown, `token` held it already, or the lease of an earlier request with
        the same fingerprint had ended. `Replay`: the response of an earlier request with the same fingerprint is saved.
        `InProgress`: another request with the same fingerprint holds the key, and its lease has not ended.
        `Mismatch`: the first request with the key had another fingerprint.

        The store forgets a key when it expires: `ttl` seconds after its response was saved, or `ABANDONED` seconds
        after the end of a lease without a response. Then the key is unknown again.
        """

    def renew(self, key: bytes, token: bytes, lease: float) -> bool:
        """Restart the lease of the request with this token. Return False if another request holds the key, if a
        response was already saved for the key, or if the key was deleted."""

    def finish(self, key: bytes, token: bytes, response: StoredResponse, ttl: float) -> bool:
        """Save the response for `ttl` seconds. Return False, and save nothing, if another request has taken the
        key, or if the key was deleted."""

    def release(self, key: bytes, token: bytes) -> None:
        """Free the key if this token holds it and no response was saved."""

    def clean(self, limit: int) -> int:
        """Delete up to `limit` expired keys. Return how many were deleted."""


class AsyncKeyStore(Protocol):
    """A `KeyStore` whose methods are coroutines."""

    async def begin(self, key: bytes, fingerprint: bytes, *, token: bytes, lease: float) -> Answer: ...

    async def renew(self, key: bytes, token: bytes, lease: float) -> bool: ...

    async def finish(self, key: bytes, token: bytes, response: StoredResponse, ttl: float) -> bool: ...

    async def release(self, key: bytes, token: bytes) -> None: ...

    async def clean(self, limit: int) -> int: ...


class SyncKeyStore:
    """A `KeyStore` that runs the coroutines of `_steps`. They never wait, because `_steps` uses a synchronous
    client."""

    def __init__(self, steps: AsyncKeyStore) -> None:
        self._steps = steps

    def begin(self, key: bytes, fingerprint: bytes, *, token: bytes, lease: float) -> Answer:
        return run_sync(self._steps.begin(key, fingerprint, token=token, lease=lease))

    def renew(self, key: bytes, token: bytes, lease: float) -> bool:
        return run_sync(self._steps.renew(key, token, lease))

    def finish(self, key: bytes, token: bytes, response: StoredResponse, ttl: float) -> bool:
        return run_sync(self._steps.finish(key, token, response, ttl))

    def release(self, key: bytes, token: bytes) -> None:
        run_sync(self._steps.release(key, token))

    def clean(self, limit: int) -> int:
        return run_sync(self._steps.clean(limit))
