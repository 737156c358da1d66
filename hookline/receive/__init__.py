"""The other half of at-least-once: verify what arrives, recognise its copies, and let each event have one effect.

    from hookline.receive import Verifier, VerificationError

    verifier = Verifier(os.environ["WEBHOOK_SECRET"])
    webhook = verifier.verify(request.headers, body)  # or raises VerificationError: answer 401

On a handler: `verified` of `hookline.receive.fastapi`, `.flask`, `.django`, `.starlette` or `.litestar`.

Needs the standard library and msgspec. docs/receiving.md has the contract, and the same in every framework.
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
