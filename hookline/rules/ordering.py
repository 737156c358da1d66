"""Ordered delivery: deliveries with the same ordering key at one endpoint are sent one at a time.

A *queue* is all open deliveries of one key at one endpoint, in the order of the messages' sequence numbers. A delivery
with a key starts as `queued`, outside the due index. Only a claim promotes a delivery: while the claim holds the lane's
lock, it makes the first delivery of a queue `pending` if no delivery of that queue is active. A pending delivery is
claimed like any other.

Every transaction that changes a queue also inserts a wake token that names the queue. Ingest, replay and resend add
rows to a queue. Record, claim and sweep remove rows. Resolve and retention remove dead letters that block a queue. A
claim reads these wake tokens to find the queues that it must check.

No delivery is forgotten, even if two transactions do not see each other. Example: ingest adds row Q while record ends
H, the active delivery of the same queue. Each commits with a wake token. The claim that consumes the wake token of the
later commit sees both commits: Q exists and H has ended, so Q is promoted. A claim between the two commits promotes
nothing, but the second wake token still follows. Two claims on one lane run one after the other because of the lane's
lock, and each takes its snapshot under the lock. As a last protection, a unique index refuses a second active delivery
in a queue, and the search for stuck lanes finds a queue without an active delivery.

If the requests that publish two messages overlap in time, the order of these messages is not defined.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from hookline.model.endpoints import Ordering

WHOLE_ENDPOINT = ""  # the queue of a fifo endpoint; the key of a message is never empty

# Faster to read than attributes of the enum. Ingest reads them for every delivery.
_KEY, _FIFO = Ordering.KEY, Ordering.FIFO
_keys = msgspec.json.Decoder(list[str])


def queue_of(ordering: Ordering, key: str | None) -> str | None:
    """Return the queue of a delivery at an endpoint; None if its order does not matter."""
    if ordering is _KEY:
        return key
    return WHOLE_ENDPOINT if ordering is _FIFO else None


def written(keys: Iterable[str | None]) -> str | None:
    """Encode ordering keys for a wake token, or return None if all are None.

    `read` can also decode several encoded texts that are joined by commas.
    """
    named = dict.fromkeys(key for key in keys if key is not None)
    return msgspec.json.encode(list(named)).decode()[1:-1] if named else None


def read(keys: str | None) -> list[str]:
    """Decode the keys of a wake token, without duplicates."""
    return [] if keys is None else list(dict.fromkeys(_keys.decode(f"[{keys}]")))
