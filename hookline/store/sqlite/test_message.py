"""An example: one message for one endpoint alone."""

from __future__ import annotations

from hookline.model import Endpoint, Message, NewMessage
from hookline.store.sqlite import dead_letters, views
from hookline.store.sqlite.dead_letters import DeadLetters
from hookline.store.sqlite.transaction import Tx


class Examples(DeadLetters):
    async def send_example(self, endpoint_no: int, new: NewMessage) -> Message:
        endpoint = await self._living(endpoint_no)
        message = await self._write(_send_example, endpoint, new)
        self._bell.set()
        return message


def _send_example(tx: Tx, endpoint: Endpoint, new: NewMessage) -> Message:
    tx.run("example_insert", (new.id, endpoint.app_no, new.event_type, new.payload, endpoint.no, tx.now))
    dead_letters.resend(tx, endpoint, new.id)
    message = views.message_by_id(tx, new.id)
    assert message is not None
    return message
