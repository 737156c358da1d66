"""The synchronous methods of a store whose steps are written as coroutines."""

from __future__ import annotations

from hookline.outbox.coroutines import run_sync
from hookline.receive.idempotency.keys import Answer, AsyncKeyStore, StoredResponse


class SyncKeyStore:
    """A `KeyStore` that runs the coroutines of `_steps`. They never wait, because `_steps` uses a synchronous client."""

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
