"""For receivers of webhooks: verify requests, recognise copies, and let each event have one effect.

    from hookline.receive import Verifier, VerificationError

    verifier = Verifier(os.environ["WEBHOOK_SECRET"])
    webhook = verifier.verify(request.headers, body)  # or raises VerificationError: answer 401

To decorate a handler, use `verified` of `hookline.receive.fastapi`, `.flask`, `.django`, `.starlette` or `.litestar`.

This package needs the standard library and msgspec. docs/guides/receive-and-verify.md has examples for each framework.
"""

from hookline.errors import HooklineError, InvalidInput, VerificationCode, VerificationError
from hookline.receive.verify import Verifier, Webhook
from hookline.signing.headers import Headers

__all__ = [
    "Headers",
    "HooklineError",
    "InvalidInput",
    "VerificationCode",
    "VerificationError",
    "Verifier",
    "Webhook",
]
