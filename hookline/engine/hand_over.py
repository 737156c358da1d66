"""Hand-over: a worker sends the messages that its own process accepts, without a claim.

Before a transaction that accepts messages, the worker reserves slots for their deliveries: this is its offer. The
transaction inserts each delivery either as pending, with a wake token, or already leased to the worker. It leases a
delivery only if a claim could do so now: the endpoint is in the offer, its lane is healthy and has no limit, and no
other delivery of the lane waits. After COMMIT, the worker sends the leased deliveries and frees the other reserved
slots. If the answer to COMMIT is lost, the leases expire, as those of a worker that was killed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from hookline.model.deliveries import Offer
from hookline.model.messages import NewMessage
from hookline.store.stages import HandOver, no_hand_over


class HandOverPoint:
    """Connects the code that accepts messages with the worker of the same process. Before the worker starts, and in a
    process without a worker, there are no offers."""

    def __init__(self) -> None:
        self.worker: HandOver = no_hand_over

    def __call__(self, messages: Sequence[NewMessage]) -> AbstractContextManager[Offer | None]:
        return self.worker(messages)
