"""Run a handler once for all requests that have the same idempotency key.

    from hookline.receive.idempotency import IdempotencySettings
    from hookline.receive.idempotency.asgi import IdempotencyMiddleware  # or .wsgi, .django; `idempotent` for one handler

    app.add_middleware(IdempotencyMiddleware, store=keys, settings=IdempotencySettings(verifier=verifier))

`keys` is a store of `hookline.receive.stores`.
"""

from hookline.receive.idempotency.core import MalformedKey, from_json, from_webhook
from hookline.receive.idempotency.handler import idempotent
from hookline.receive.idempotency.keys import AsyncKeyStore, KeyStore, KeyStoreUnavailable
from hookline.receive.idempotency.settings import (
    KEY_HEADERS,
    IdempotencySettings,
    IncomingRequest,
    is_final,
    succeeded,
)

__all__ = [
    "KEY_HEADERS",
    "AsyncKeyStore",
    "IdempotencySettings",
    "IncomingRequest",
    "KeyStore",
    "KeyStoreUnavailable",
    "MalformedKey",
    "from_json",
    "from_webhook",
    "idempotent",
    "is_final",
    "succeeded",
]
