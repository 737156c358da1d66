"""Order by key: which deliveries of one endpoint wait for each other, and how the next one gets its turn. Pure.

A delivery with a key is made `queued`, outside the due index. A *queue* is all that is open of one key at one endpoint; its
rows stand in the order of the database's sequence of messages. Only a claim promotes: under the lane's lock, the first of a queue
that has nothing active becomes `pending`, and is claimed like any other.

How a claim knows where to look, and why nothing is forgotten: whoever changes a queue (ingest, replay and resend put a row into
it; record, claim and sweep take one out of it; resolve and retention lift what blocks it) inserts a wake token that names the
queue, in the same transaction. Say that ingest adds the row Q while record ends H, the last active one, and neither sees the
other. Both commit, each with a token that names the queue. A claim that consumes the token of whichever committed last sees
that commit, and so the earlier one too: Q is there and H is gone, and Q is promoted. A claim that came in between consumed a
token too early, and lost nothing by it: the other token is still to come. Two claims on one lane follow each other by its
lock, and each looks with a snapshot that it took under the lock. If all this were wrong, the unique index on what is active
would still refuse a second one, and the audit would find a queue without a head.

Of two messages whose requests overlap in time neither came first; whichever is promoted first goes first.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from hookline.model import Ordering

WHOLE_ENDPOINT = ""  # the queue of a fifo endpoint; a message's own key is never empty

_KEY, _FIFO = Ordering.KEY, Ordering.FIFO  # looked up once: ingest asks for every delivery
_keys = msgspec.json.Decoder(list[str])


def queue_of(ordering: Ordering, key: str | None) -> str | None:
    """Where a delivery stands in line at an endpoint; None: nowhere."""
    if ordering is _KEY:
        return key
    return WHOLE_ENDPOINT if ordering is _FIFO else None


def written(keys: Iterable[str | None]) -> str | None:
    """As a token carries them; None when there is none. Two such texts with a comma between them are one."""
    named = dict.fromkeys(key for key in keys if key is not None)
    return msgspec.json.encode(list(named)).decode()[1:-1] if named else None


def read(keys: str | None) -> list[str]:
    """Each once."""
    return [] if keys is None else list(dict.fromkeys(_keys.decode(f"[{keys}]")))
