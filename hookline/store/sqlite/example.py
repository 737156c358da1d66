"""An example: one message for one endpoint alone."""

from __future__ import annotations

from hookline.model import Endpoint, Message, NewMessage
from hookline.store.sqlite import dead, views
from hookline.store.sqlite.tx import Tx


def send_example(tx: Tx, endpoint: Endpoint, new: NewMessage) -> Message:
    tx.run("example_insert", (new.id, endpoint.app_no, new.event_type, new.payload, endpoint.no, tx.now))
    dead.resend(tx, endpoint, new.id)
    message = views.message_by_id(tx, new.id)
    assert message is not None
    return message
