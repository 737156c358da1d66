"""Signatures of webhooks. The worker makes them and receivers verify them. Pure: the time is an argument.

The bytes signed are the bytes sent. This table lists the headers of each scheme, the signed content and the key:

| scheme     | headers                                                               | signed content; key                    |
|------------|-----------------------------------------------------------------------|----------------------------------------|
| `standard` | `webhook-id`, `webhook-timestamp`, `webhook-signature: v1,… v1a,…`    | `id.timestamp.body`; decoded base64    |
| `svix`     | `svix-id`, `svix-timestamp`, `svix-signature: v1,… v1a,…`             | `id.timestamp.body`; decoded base64    |
| `hex`      | `webhook-id`, `webhook-timestamp`, `webhook-signature: v1=…,v1=…`     | `timestamp.body`; the secret as text   |
| `stripe`   | `webhook-id`, `Stripe-Signature: t=…,v1=…,v1=…`                       | `timestamp.body`; the secret as text   |
| `github`   | `webhook-id`, `X-GitHub-Delivery` (the same id), `X-Hub-Signature-256: sha256=…` | `body`; the secret as text  |

*Decoded base64*: the prefix `whsec_` is removed and the rest is decoded (HMAC-SHA256, `v1`). A secret with the prefix
`whsk_` is an Ed25519 key (`v1a`).
*The secret as text*: the key is the UTF-8 bytes of the secret exactly as the user sees it, including the prefix `whsec_`.
A receiver pastes the same text into its GitHub or Stripe library.

During a rotation, the old and the new secret both sign. GitHub's header has room for one signature, so only the new
secret signs there. Only `standard` and `svix` sign the id. In the other schemes receivers can use the id to
deduplicate, but an attacker can change it. `github` has no timestamp, so an attacker who recorded a request can send
it again later.
"""

from hookline.signing.keys import (
    HMAC_PREFIX,
    PRIVATE_PREFIX,
    CheckingKey,
    base64_key,
    check_secret,
    check_strength,
    new_keypair,
    new_secret,
    public_key,
    text_key,
    with_prefix,
)
from hookline.signing.signature_headers import TOLERANCE
from hookline.signing.signer import Signer
from hookline.signing.verify import check_match, verify
