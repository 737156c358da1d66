"""The kit for receivers: verify webhooks, recognise copies, and give each event one effect.

    from hookline.receive import Verifier, VerificationError

    verifier = Verifier(os.environ["WEBHOOK_SECRET"])
    webhook = verifier.verify(request.headers, body)  # or raises VerificationError: answer 401

On a handler: `verified` of `hookline.receive.fastapi`, `.flask`, `.django`, `.starlette` or `.litestar`.

Needs only the standard library and msgspec. docs/guides/receive-and-verify.md shows it in every framework.
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
