"""An example: one message for one endpoint alone."""

from __future__ import annotations

from hookline.errors import NotFound
from hookline.model import Message, NewMessage
from hookline.store import rows
from hookline.store.postgres.base import Part
from hookline.store.postgres.database import READ, Connection


class Examples(Part):
    async def send_example(self, endpoint_no: int, new: NewMessage) -> Message:
        async def work(connection: Connection) -> Message:
            values = (endpoint_no, new.id, new.event_type, new.payload)
            at = await connection.fetchval(self._sql["example_insert"], *values)
            if at is None:
                raise NotFound("the endpoint does not exist")
            await connection.execute(self._sql["resend"], endpoint_no, new.id, at, at, self._options.retry.max_age)
            return rows.message(await connection.fetchrow(self._sql["message_by_id"], new.id, at, at, None), READ)

        return await self._db.transact(work, calm=True)
